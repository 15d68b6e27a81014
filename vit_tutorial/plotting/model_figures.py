"""The encoder block, and the whole model with the shapes of a forward pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle
from torch import Tensor

from ..config import Size, to_pair
from . import panels, style
from .alt_text import listed, with_alt
from .style import WIDTH, Figure, Number, styled

# The drawing's own units: tenths of an inch.
STREAM_ROW, BRANCH_ROW, BOX_HEIGHT = 7.0, 15.0, 4.4


@styled
def show_block() -> Figure:
    """Draw the block of Eqs. 2–3. The thick line is the residual stream."""
    figure = panels.blank(WIDTH, 2.0, layout="none")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, 90), ylim=(0, 20), aspect="equal")
    axes.axis("off")
    axes.plot([8, 82], [STREAM_ROW, STREAM_ROW], color=style.STREAM, lw=4, solid_capstyle="butt", zorder=1)
    draw_arrow(axes, (81.0, STREAM_ROW), (83.5, STREAM_ROW), lw=4.0)
    for x, above, name in ((4, 0, r"$z_{\ell-1}$"), (45.3, 2.6, r"$z'_\ell$"), (86, 0, r"$z_\ell$")):
        axes.text(x, STREAM_ROW + above, name, fontsize=15, ha="center", va="center", **style.FORMULA)
    draw_sublayer(axes, 9.0, "attention\nbetween tokens", style.ATTENTION)
    draw_sublayer(axes, 47.5, "MLP\neach token alone", style.MLP)
    stream = "the residual stream, (B, T, D) all the way"
    axes.text(45, 2.0, stream, color=style.CONTROL, ha="center", va="center")
    order = "pre-norm, LayerNorm, then attention or MLP, then the sum"
    return with_alt(figure, f"Two branches leave the residual stream and are added to it: {order}.")


def draw_sublayer(axes: Axes, left: float, name: str, colour: str) -> None:
    """Draw one branch that leaves the stream, does its work, and is added to it."""
    start, plus = left + 3.5, left + 33
    draw_arrow(axes, (left + 1, STREAM_ROW), (left + 1, BRANCH_ROW), head=False)
    draw_arrow(axes, (left + 1, BRANCH_ROW), (start, BRANCH_ROW))
    draw_box(axes, start, BRANCH_ROW, 9.5, "LayerNorm", style.NORM)
    draw_arrow(axes, (start + 9.5, BRANCH_ROW), (start + 12, BRANCH_ROW))
    draw_box(axes, start + 12, BRANCH_ROW, 15.0, name, colour)
    draw_arrow(axes, (start + 27, BRANCH_ROW), (plus, BRANCH_ROW), head=False)
    draw_arrow(axes, (plus, BRANCH_ROW), (plus, STREAM_ROW + 1.4))
    axes.plot(plus, STREAM_ROW, "o", ms=17, color="white", mec=style.BLACK, mew=1.5, zorder=3)
    axes.text(plus, STREAM_ROW, "+", fontsize=15, ha="center", va="center_baseline", zorder=4)


def draw_box(axes: Axes, left: float, y: float, width: float, text: str, colour: str) -> None:
    corner, shape = (left, y - BOX_HEIGHT / 2), "round,pad=0,rounding_size=0.8"
    look = {"facecolor": "white", "edgecolor": colour, "lw": 2.5, "zorder": 3}
    axes.add_patch(FancyBboxPatch(corner, width, BOX_HEIGHT, boxstyle=shape, **look))
    axes.text(left + width / 2, y, text, fontsize=10, ha="center", va="center", linespacing=1.3, zorder=4)


def draw_arrow(
    axes: Axes, start: tuple[Number, Number], end: tuple[Number, Number], head: bool = True, lw: float = 1.5
) -> None:
    look = {"arrowstyle": "-|>" if head else "-", "color": style.BLACK, "lw": lw, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", xy=end, xytext=start, arrowprops=look, zorder=2)


@styled
def show_shapes(
    photo: Float[Tensor, "C H W"],
    shapes: Mapping[str, tuple[int, ...]],
    patch_size: Size,
    answers: Sequence[tuple[str, float]],
    title: str,
) -> Figure:
    """Draw a forward pass from the pixels to the probabilities, each stage with its equation and its shape.

    `shapes` has what `trace_shapes` found, by its name. A rectangle has a row for each token and a column for each
    value; its sides grow with their square roots, on one scale for all models. `answers` are (class, probability).
    """
    (C, H, W), (P, Q) = photo.shape, to_pair(patch_size)
    (_, T, D), (_, K) = shapes["embeddings"], shapes[""]
    depth = len([name for name in shapes if name.startswith("encoder.") and name.count(".") == 1])
    figure = panels.blank(WIDTH, 3.0, title, layout="none")
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, 90), ylim=(0, 30), aspect="equal")
    axes.axis("off")
    axes.imshow(style.to_numpy(photo.movedim(0, 2)), extent=(2, 16, 8, 22), interpolation="none", zorder=2)
    for n in range(1, H // P):
        axes.plot((2, 16), (8 + 14 * n * P / H,) * 2, color="white", lw=0.4, zorder=3)
    for n in range(1, W // Q):
        axes.plot((2 + 14 * n * Q / W,) * 2, (8, 22), color="white", lw=0.4, zorder=3)
    tell(axes, 9, "pixels", f"({C}, {H}, {W})")
    draw_tokens(axes, 23.5, T - 1, C * P * Q, class_token=False)
    tell(axes, 23.5, f"{T - 1} patches", f"({T - 1}, {C * P * Q})", f"of {P}×{Q} pixels")
    draw_tokens(axes, 36, T, D)
    tell(axes, 36, "tokens, Eq. 1", f"({T}, {D})", "class token first")
    step = 20 / depth
    for n in range(depth):
        draw_tokens(axes, 43.5 + step * (n + 0.5), T, D, most=0.7 * step)
    tell(axes, 53.5, f"{depth} blocks, Eqs. 2 and 3", f"({T}, {D}) after each")
    width = min(0.27 * D**0.5, 6.4)
    axes.add_patch(Rectangle((70 - width / 2, 14.6), width, 0.7, color=style.CLASS_TOKEN))
    tell(axes, 70, "y, Eq. 4", f"({D})", "the class token, normalised")
    tell(axes, 82, "logits, softmax", f"({K})")
    for n, (name, probability) in enumerate(answers):
        axes.add_patch(Rectangle((77, 19 - 4 * n), 10 * probability, 1.2, color=style.TRAINED))
        axes.text(77, 20.7 - 4 * n, f"{name} {probability:.1%}", fontsize=10)
    for x in (17.5, 29.2, 41, 64.2, 74.5):
        draw_arrow(axes, (x, 15), (x + 1.5, 15))
    told = f"{T - 1} patches of {C * P * Q} values, {T} tokens of {D} values, the same after each of {depth} blocks"
    said = listed(f"{name} {probability:.1%}" for name, probability in answers)
    return with_alt(figure, f"A picture of {H}×{W} pixels, {told}, one vector of {D}, and {K} logits: {said}.")


def draw_tokens(axes: Axes, x: Number, rows: int, columns: int, class_token: bool = True, most: Number = 9) -> None:
    """Draw a rectangle around (x, 15) with a row for each token; the class token's has a colour of its own."""
    width, height = min(0.27 * columns**0.5, most), 0.95 * rows**0.5
    axes.add_patch(Rectangle((x - width / 2, 15 - height / 2), width, height, color=style.TINTS[0]))
    if class_token:
        axes.add_patch(Rectangle((x - width / 2, 15 + height / 2 - 0.7), width, 0.7, color=style.CLASS_TOKEN))


def tell(axes: Axes, x: Number, name: str, shape: str, more: str = "") -> None:
    axes.text(x, 23.8, name, fontsize=11, ha="center")
    axes.text(x, 4.2, shape, fontsize=11, ha="center")
    axes.text(x, 1.6, more, fontsize=10, ha="center", color=style.CONTROL)
