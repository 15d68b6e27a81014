"""The encoder block: its drawing, its norm, its activation, and what happens over the depth of a stack."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch
from matplotlib.ticker import MaxNLocator
from torch import Tensor

from . import panels, style
from .alt_text import describe, listed, span
from .style import WIDTH, Figure, styled, to_numpy

# The drawing's own units: tenths of an inch.
STREAM_ROW, BRANCH_ROW, BOX_HEIGHT = 7.0, 15.0, 4.4
EQUATIONS = {
    "pre": (
        r"Eq. 2   $z'_\ell = \mathrm{MSA}(\mathrm{LN}(z_{\ell-1})) + z_{\ell-1}$",
        r"Eq. 3   $z_\ell = \mathrm{MLP}(\mathrm{LN}(z'_\ell)) + z'_\ell$",
    ),
    "post": (
        r"post-norm   $z'_\ell = \mathrm{LN}(\mathrm{MSA}(z_{\ell-1}) + z_{\ell-1})$",
        r"post-norm   $z_\ell = \mathrm{LN}(\mathrm{MLP}(z'_\ell) + z'_\ell)$",
    ),
}
STREAMS = {
    "pre": "the residual stream, (B, T, D) all the way",
    "post": "the residual stream, (B, T, D), normalised after each sum",
}
ORDERS = {
    "pre": "pre-norm, LayerNorm, then attention or MLP, then the sum",
    "post": "post-norm, attention or MLP, the sum, then LayerNorm",
}


@styled
def show_block(*norms: str) -> Figure:
    """Draw the block's two equations, one row for each of `norms`: "pre" (ViT), "post", or both.

    The thick line is the residual stream. Raises ValueError for another kind of norm, or none.
    """
    if not norms or any(norm not in EQUATIONS for norm in norms):
        raise ValueError(f'a block is drawn with its norm "pre" or "post", got {norms}')
    figure = panels.blank(WIDTH, 2.5 * len(norms), layout="none")
    figure.subplots_adjust(left=0, right=1, bottom=0, top=1, hspace=0)
    for axes, norm in zip(figure.subplots(len(norms), squeeze=False)[:, 0], norms, strict=True):
        axes.set(xlim=(0, 90), ylim=(0, 25), aspect="equal")
        axes.axis("off")
        axes.plot([8, 82], [STREAM_ROW, STREAM_ROW], color=style.STREAM, lw=4, solid_capstyle="butt", zorder=1)
        arrow(axes, (81.0, STREAM_ROW), (83.5, STREAM_ROW), lw=4.0)
        for x, above, name in ((4, 0, r"$z_{\ell-1}$"), (45.3, 2.6, r"$z'_\ell$"), (86, 0, r"$z_\ell$")):
            axes.text(x, STREAM_ROW + above, name, fontsize=15, ha="center", va="center")
        draw_sublayer(axes, 9.0, "attention\nbetween tokens", style.ATTENTION, norm)
        draw_sublayer(axes, 47.5, "MLP\neach token alone", style.MLP, norm)
        for x, equation in zip((9, 47.5), EQUATIONS[norm], strict=True):
            axes.text(x, 21.5, equation, fontsize=12, va="center")
        axes.text(45, 2.0, STREAMS[norm], color=style.CONTROL, ha="center", va="center")
    orders = listed(ORDERS[norm] for norm in norms)
    return describe(figure, f"Two branches leave the residual stream and are added to it: {orders}.")


def draw_sublayer(axes: Axes, left: float, name: str, colour: str, norm: str) -> None:
    """Draw one branch that leaves the stream, does its work, and is added to it."""
    plus = left + (33.0 if norm == "pre" else 21.5)
    start = left + 3.5
    arrow(axes, (left + 1, STREAM_ROW), (left + 1, BRANCH_ROW), head=False)
    arrow(axes, (left + 1, BRANCH_ROW), (start, BRANCH_ROW))
    if norm == "pre":
        box(axes, start, BRANCH_ROW, 9.5, "LayerNorm", style.NORM)
        arrow(axes, (start + 9.5, BRANCH_ROW), (start + 12, BRANCH_ROW))
        start += 12
    else:
        box(axes, left + 23.3, STREAM_ROW, 9.5, "LayerNorm", style.NORM)
    box(axes, start, BRANCH_ROW, 15.0, name, colour)
    arrow(axes, (start + 15, BRANCH_ROW), (plus, BRANCH_ROW), head=False)
    arrow(axes, (plus, BRANCH_ROW), (plus, STREAM_ROW + 1.4))
    axes.plot(plus, STREAM_ROW, "o", ms=17, color="white", mec=style.BLACK, mew=1.5, zorder=3)
    axes.text(plus, STREAM_ROW, "+", fontsize=15, ha="center", va="center_baseline", zorder=4)


def box(axes: Axes, left: float, y: float, width: float, text: str, colour: str) -> None:
    corner, shape = (left, y - BOX_HEIGHT / 2), "round,pad=0,rounding_size=0.8"
    look = {"facecolor": "white", "edgecolor": colour, "lw": 2.5, "zorder": 3}
    axes.add_patch(FancyBboxPatch(corner, width, BOX_HEIGHT, boxstyle=shape, **look))
    axes.text(left + width / 2, y, text, fontsize=10, ha="center", va="center", linespacing=1.3, zorder=4)


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], head: bool = True, lw: float = 1.5) -> None:
    look = {"arrowstyle": "-|>" if head else "-", "color": style.BLACK, "lw": lw, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", xy=end, xytext=start, arrowprops=look, zorder=2)


@styled
def show_layer_norm(
    before: Float[Tensor, "T D"], after: Float[Tensor, "T D"], names: Sequence[int], title: str = ""
) -> Figure:
    """Draw every value of each token as a point, with the token's mean and one standard deviation, over its name."""
    figure, (row,) = panels.panels(1, 2, WIDTH, 4.0, title)
    for axes, tokens, when in zip(row, (before, after), ("before", "after"), strict=True):
        for place, token in enumerate(tokens):
            dots = axes.plot([place] * len(token), to_numpy(token), ".", color=style.NORM, alpha=0.3, ms=5, zorder=1)
        mean, spread = to_numpy(tokens.mean(dim=1)), to_numpy(tokens.std(dim=1, correction=0))
        look = {"fmt": "o", "ms": 6, "color": style.BLACK, "lw": 2, "capsize": 5, "zorder": 2}
        bar = axes.errorbar(range(len(names)), mean, yerr=spread, **look)
        panels.zero(axes)
        axes.set(xlabel="token", ylabel="its values", title=f"{when} LayerNorm")
        axes.set_xticks(range(len(names)), names)
    figure.legend((*dots, bar), ("one value", "mean ± standard deviation"), loc="outside lower right", ncols=2)
    first, second = (span(tokens.std(dim=1, correction=0)) for tokens in (before, after))
    return describe(figure, f"Standard deviations of {len(names)} tokens: {first} before, {second} after.")


@styled
def show_skips(kept: Bool[Tensor, "B branches"], rates: Sequence[float], title: str = "") -> Figure:
    """Draw which images (rows) take part in which branches (columns): filled if it does, a cross if it skips.

    `rates` are the probabilities of skipping, one for each branch.
    """
    height, ratios = 1.6 + 0.26 * len(kept), (1, 0.21 * len(kept))
    figure, ((top,), (axes,)) = panels.panels(2, 1, WIDTH, height, title, sharex=True, height_ratios=ratios)
    columns = range(1, kept.shape[1] + 1)
    top.bar(columns, rates, color=style.CONTROL)
    top.set(ylabel="rate", yticks=(0, max(rates)), yticklabels=("0", f"{max(rates):g}"))
    looks = {"takes part": (kept, "s", style.TRAINED, 1), "skips": (~kept, "x", style.CONTROL, 2)}
    for label, (where, marker, colour, edge) in looks.items():
        rows, places = to_numpy(where.nonzero().T)
        axes.plot(places + 1, rows + 1, marker, color=colour, ms=8, mew=edge, label=label)
    axes.set(xlabel="branch (two to a block)", ylabel="image", xlim=(0.3, len(rates) + 0.7))
    axes.set(ylim=(len(kept) + 0.7, 0.3), xticks=columns)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=2)
    first, second = (int(half.sum()) for half in (~kept).chunk(2, dim=1))
    skips = f"{first} skips in the first half of the branches, {second} in the second"
    return describe(figure, f"{len(kept)} images, {len(rates)} branches, rates of {span(rates)}: {skips}.")
