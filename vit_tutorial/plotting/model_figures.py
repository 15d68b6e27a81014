"""The encoder block, and the bugs that tests of a new model notice."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Bool
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch
from torch import Tensor

from . import panels, style
from .alt_text import listed, with_alt
from .style import WIDTH, Figure, styled

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
    axes: Axes, start: tuple[float, float], end: tuple[float, float], head: bool = True, lw: float = 1.5
) -> None:
    look = {"arrowstyle": "-|>" if head else "-", "color": style.BLACK, "lw": lw, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", xy=end, xytext=start, arrowprops=look, zorder=2)


@styled
def show_bug_table(
    bugs: Sequence[str],
    tests: Sequence[str],
    values: Sequence[Sequence[str]],
    noticed: Bool[Tensor, "bugs tests"],
    title: str,
) -> Figure:
    """Draw which test notices which bug: a filled mark with what it measured where it does, an empty one where not.

    The first row is the model without a bug: what the tests measure there is the reference.
    """
    figure, ((axes,),) = panels.panels(1, 1, WIDTH, 1.1 + 0.36 * len(bugs), title)
    for row, (cells, hits) in enumerate(zip(values, noticed.tolist(), strict=True)):
        if row % 2 == 0:
            axes.axhspan(row - 0.5, row + 0.5, color="#F4F4F4", zorder=0)
        for column, (value, hit) in enumerate(zip(cells, hits, strict=True)):
            look = {"color": style.MISTAKE, "ms": 12} if hit else {"color": "#9A9A9A", "ms": 9, "mfc": "none"}
            axes.plot(column - 0.28, row, "o", **look)
            text = {"weight": "bold"} if hit else {"color": style.CONTROL}
            axes.text(column - 0.16, row, value if hit or row == 0 else "", va="center", fontsize=11, **text)
    panels.row_names(axes, bugs)
    axes.spines[:].set_visible(False)
    axes.set(xlim=(-0.5, len(tests) - 0.5))
    axes.set_xticks([column - 0.34 for column in range(len(tests))], tests, fontsize=11, ha="left")
    axes.tick_params(axis="x", top=False, bottom=False, labeltop=True, labelbottom=False)
    told = [
        f"{bug} by {listed(test for test, hit in zip(tests, hits, strict=True) if hit) if any(hits) else 'no test'}"
        for bug, hits in zip(bugs, noticed.tolist(), strict=True)
    ]
    return with_alt(figure, f"A table of bugs and the tests that notice them: {listed(told)}.")
