"""What stands for the page where no script runs: a picture, what the model answers, and where a patch looks."""

import torch
from jaxtyping import UInt8
from torch import Tensor

from ..analysis import record_attention
from ..config import to_pair
from ..inference import predict
from ..model import VisionTransformer
from ..plotting import panels
from ..plotting.alt_text import amounts, with_alt
from ..plotting.rendering import to_png
from ..plotting.style import TRAINED, WIDTH, styled


@styled
def draw_still(model: VisionTransformer, name: str, pixels: UInt8[Tensor, "3 H W"]) -> tuple[str, dict[str, int | str]]:
    """Return a PNG in base64 of a picture, the answer, and the first block's heads, with size and alternative text."""
    (h, w), (P, Q) = model.config.grid, to_pair(model.config.patch_size)
    with torch.no_grad(), record_attention(model) as maps:
        shares = {answer.name: round(100 * answer.probability) for answer in predict(model, pixels, top=8)}
    row, column = h // 2, w // 2
    seen = maps[0][0, :, 1 + row * w + column, 1:].unflatten(1, (h, w))  # from the middle patch: (heads, h, w)
    title = "Run this cell to play: draw, look, cover patches, switch heads off"
    figure = panels.blank(WIDTH, 5.6, title)
    grid = figure.add_gridspec(2, 2 * len(seen), height_ratios=(1.5, 1))
    left, right = (figure.add_subplot(grid[0, part]) for part in (slice(len(seen)), slice(len(seen), None)))
    panels.patches(left, pixels, h, w, aspect=P / Q)
    panels.patch_lines(left, h, w)
    panels.row_names(right, shares)
    right.barh(range(len(shares)), list(shares.values()), color=TRAINED)
    right.set(xlim=(0, 100), xlabel="the model's answer, %")
    for head, weights in enumerate(seen):
        below = figure.add_subplot(grid[1, 2 * head : 2 * head + 2])
        panels.cells(below, weights, f"block 0, head {head}" if head == 0 else f"head {head}", aspect=P / Q)
        panels.highlight(below, (row, column))
    panels.highlight(left, (row, column))
    told = f"Below, where its middle patch looks with each of {len(seen)} heads."
    return to_png(
        with_alt(figure, f"A picture, {name}, in {h}×{w} patches. The answer: {amounts(shares, unit=' %')}. {told}")
    )
