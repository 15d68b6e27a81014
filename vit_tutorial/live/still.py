"""What stands for the page where no script runs: a picture, and what the model answers."""

from ..config import to_pair
from ..inference import predict
from ..plotting import panels
from ..plotting.alt_text import amounts, with_alt
from ..plotting.rendering import to_png
from ..plotting.style import TRAINED, WIDTH, styled


@styled
def draw_still(model, name, pixels):
    """Return a PNG in base64 of a picture (3, H, W) and the answer, with its size and alternative text."""
    (h, w), (P, Q), answers = model.config.grid, to_pair(model.config.patch_size), predict(model, pixels, top=8)
    shares = {answer.name: round(100 * answer.probability) for answer in answers}
    title = "Run this cell to play: draw, cover patches, switch heads off"
    figure, ((left, right),) = panels.panels(1, 2, WIDTH, 3.6, title, width_ratios=(1, 1.4))
    panels.picture(left, pixels, extent=(0, w, h, 0), aspect=P / Q)
    panels.patch_lines(left, h, w)
    panels.row_names(right, shares)
    right.barh(range(len(shares)), list(shares.values()), color=TRAINED)
    right.set(xlim=(0, 100), xlabel="the model's answer, %")
    return to_png(with_alt(figure, f"A picture, {name}, in {h}×{w} patches. The answer: {amounts(shares, unit=' %')}."))
