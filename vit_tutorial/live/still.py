"""What stands for the page where no script runs: a picture, and what the model answers."""

from jaxtyping import UInt8
from torch import Tensor

from ..config import to_pair
from ..inference import predict
from ..model import VisionTransformer
from ..plotting import panels
from ..plotting.alt_text import amounts, with_alt
from ..plotting.rendering import to_png
from ..plotting.style import TRAINED, WIDTH, styled


@styled
def draw_still(model: VisionTransformer, name: str, pixels: UInt8[Tensor, "3 H W"]) -> tuple[str, dict[str, int | str]]:
    """Return a PNG in base64 of a picture and the answer, with its size and alternative text."""
    (h, w), (P, Q) = model.config.grid, to_pair(model.config.patch_size)
    shares = {answer.name: round(100 * answer.probability) for answer in predict(model, pixels, top=8)}
    title = "Run this cell to play: draw, cover patches, switch heads off"
    figure, ((left, right),) = panels.panels(1, 2, WIDTH, 3.6, title, width_ratios=(1, 1.4))
    panels.patches(left, pixels, h, w, aspect=P / Q)
    panels.patch_lines(left, h, w)
    panels.row_names(right, shares)
    right.barh(range(len(shares)), list(shares.values()), color=TRAINED)
    right.set(xlim=(0, 100), xlabel="the model's answer, %")
    return to_png(with_alt(figure, f"A picture, {name}, in {h}×{w} patches. The answer: {amounts(shares, unit=' %')}."))
