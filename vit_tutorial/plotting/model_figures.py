"""The encoder block, and the whole model with the shapes of a forward pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes

from ..config import Size, to_pair
from . import panels, style
from .alt_text import listed, with_alt
from .style import WIDTH, Figure, Number, Photo, styled


@styled
def show_block() -> Figure:
    """Draw the block of Eqs. 2–3. The thick line is the residual stream."""
    figure = panels.blank(WIDTH, 2.0, layout="none")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, 9), ylim=(-0.8, 1.2))  # in inches: the stream has the height 0
    axes.axis("off")
    draw_arrow(axes, (0.8, 0), (8.35, 0), lw=4)
    for x, y, name in ((0.4, 0, r"$z_{\ell-1}$"), (4.55, 0.26, r"$z'_\ell$"), (8.6, 0, r"$z_\ell$")):
        axes.text(x, y, name, fontsize=15, ha="center", va="center", **style.FORMULA)
    for left, name, colour in (
        (1.0, "attention\nbetween tokens", style.ATTENTION),
        (4.85, "MLP\neach token alone", style.MLP),
    ):
        axes.plot([left, left, left + 3.2], [0, 0.8, 0.8], color=style.BLACK, lw=1.5, zorder=0)
        draw_arrow(axes, (left + 3.2, 0.8), (left + 3.2, 0.15))
        for x, text, edge in ((0.8, "LayerNorm", style.NORM), (2.2, name, colour)):
            box = {"boxstyle": "round,pad=0.6", "fc": "white", "ec": edge, "lw": 2.5}
            axes.text(left + x, 0.8, text, fontsize=10, ha="center", va="center", bbox=box)
        circle = {"boxstyle": "circle,pad=0.1", "fc": "white", "lw": 1.5}
        axes.text(left + 3.2, 0, "+", fontsize=15, ha="center", va="center", bbox=circle)
    stream = "the residual stream, (B, T, D) all the way"
    axes.text(4.5, -0.5, stream, color=style.CONTROL, ha="center", va="center")
    order = "pre-norm, LayerNorm, then attention or MLP, then the sum"
    return with_alt(figure, f"Two branches leave the residual stream and are added to it: {order}.")


def draw_arrow(axes: Axes, start: tuple[Number, Number], end: tuple[Number, Number], lw: Number = 1.5) -> None:
    look = {"arrowstyle": "-|>", "color": style.BLACK, "lw": lw, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", end, start, arrowprops=look, zorder=1)


@styled
def show_shapes(
    photo: Photo, shapes: Mapping[str, tuple], patch_size: Size, answers: Sequence[tuple[str, float]], title: str
) -> Figure:
    """Draw a forward pass from the pixels to the probabilities, each stage with its equation and its shape.

    `shapes` has what `trace_shapes` found, by its name. A rectangle has a row for each token and a column for each
    value; its sides grow with their square roots, on one scale for all models, while there is room. `answers` are
    (class, probability).
    """
    (C, H, W), (P, Q) = photo.shape, to_pair(patch_size)
    (_, T, D), (_, K) = shapes["embeddings"], shapes[""]
    N, patch_dim = T - 1, C * P * Q
    depth = len([name for name in shapes if name.startswith("encoder.") and name.count(".") == 1])
    figure = panels.blank(WIDTH, 3.0, title, layout="none")
    axes = figure.add_axes((0, 0, 1, 1))
    axes.axis("off")
    left, right, low, high = photo_place = (0.2, 1.6, -0.7, 0.7)
    panels.picture(axes, photo, extent=photo_place, zorder=1)
    axes.vlines(np.linspace(left, right, W // Q + 1), low, high, color="white", lw=0.4)
    axes.hlines(np.linspace(low, high, H // P + 1), left, right, color="white", lw=0.4)
    stages = (  # where its centre is, its name, its shape, and what else is said of it
        (0.9, "pixels", f"({C}, {H}, {W})", ""),
        (2.35, f"{N} patches", f"({N}, {patch_dim})", f"of {P}×{Q} pixels"),
        (3.6, "tokens, Eq. 1", f"({T}, {D})", "class token first"),
        (5.35, f"{depth} blocks, Eqs. 2 and 3", f"({T}, {D}) after each", ""),
        (7.0, "y, Eq. 4", f"({D})", "the class token, normalised"),
        (8.2, "logits, softmax", f"({K})", ""),
    )
    for x, name, shape, more in stages:
        axes.text(x, 0.88, name, ha="center")
        axes.text(x, -1.08, shape, ha="center")
        axes.text(x, -1.34, more, fontsize=10, ha="center", color=style.CONTROL)
    for x in (1.75, 2.92, 4.1, 6.42, 7.45):
        draw_arrow(axes, (x, 0), (x + 0.15, 0))
    step = 2 / depth
    blocks = [4.35 + step * (n + 0.5) for n in range(depth)]
    rows, columns = np.array([N, T, *[T] * depth, 1]), np.array([patch_dim, D, *[D] * depth, D])
    widths = np.minimum(0.027 * columns**0.5, [0.9, 0.9, *[0.7 * step] * depth, 0.9])
    heights, centres, token = np.minimum(0.095 * rows**0.5, 1.5), [2.35, 3.6, *blocks, 7.0], 0.07
    axes.bar(centres, heights, widths, -heights / 2, color=style.TINTS[0])
    axes.bar(centres[1:], token, widths[1:], heights[1:] / 2 - token, color=style.CLASS_TOKEN)
    for n, (name, probability) in enumerate(answers):
        axes.barh(0.46 - 0.4 * n, probability, 0.12, left=7.7, color=style.TRAINED)
        axes.text(7.7, 0.57 - 0.4 * n, f"{name} {probability:.1%}", fontsize=10)
    axes.set(xlim=(0, 9), ylim=(-1.5, 1.5), aspect="equal")  # last: a picture sets limits of its own
    told = f"{N} patches of {patch_dim} values, {T} tokens of {D} values, the same after each of {depth} blocks"
    said = listed(f"{name} {probability:.1%}" for name, probability in answers)
    return with_alt(figure, f"A picture of {H}×{W} pixels, {told}, one vector of {D}, and {K} logits: {said}.")
