"""Figures of the encoder block: its drawing, its norm, its activation, what happens over the depth of a stack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle

import matplotlib.pyplot as plt
from jaxtyping import Bool, Float
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from matplotlib.ticker import MaxNLocator, NullFormatter, NullLocator
from torch import Tensor

from .style import BLACK, BLUE, GREEN, GREY, ORANGE, PINK, WIDTH, styled, to_numpy

# The drawing's own units: tenths of an inch.
STREAM, BRANCH, BOX_HEIGHT = 7.0, 15.0, 4.4
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
STROKES = (("-", "o"), ("--", "s"), (":", "^"), ("-.", "D"))


@styled
def show_block(*norms: str) -> Figure:
    """The block's two equations as a drawing, one row for each of `norms`: "pre" (ViT), "post", or both.

    The thick line is the residual stream. Raises ValueError for another kind of norm, or none.
    """
    if not norms or any(norm not in ("pre", "post") for norm in norms):
        raise ValueError(f'a block is drawn with its norm "pre" or "post", got {norms}')
    figure, rows = plt.subplots(len(norms), figsize=(WIDTH, 2.5 * len(norms)), squeeze=False, layout="none")
    figure.subplots_adjust(left=0, right=1, bottom=0, top=1, hspace=0)
    for axes, norm in zip(rows[:, 0], norms, strict=True):
        axes.set(xlim=(0, 90), ylim=(0, 25), aspect="equal")
        axes.axis("off")
        axes.plot([8, 82], [STREAM, STREAM], color=BLACK, lw=4, solid_capstyle="butt", zorder=1)
        arrow(axes, (81.0, STREAM), (83.5, STREAM), lw=4.0)
        for x, name in ((4, r"$z_{\ell-1}$"), (45.3, r"$z'_\ell$"), (86, r"$z_\ell$")):
            above = 2.6 if x == 45.3 else 0
            axes.text(x, STREAM + above, name, fontsize=15, ha="center", va="center")
        draw_sublayer(axes, 9.0, "attention\nbetween tokens", BLUE, norm)
        draw_sublayer(axes, 47.5, "MLP\neach token alone", ORANGE, norm)
        for x, equation in zip((9, 47.5), EQUATIONS[norm], strict=True):
            axes.text(x, 21.5, equation, fontsize=12, va="center")
        axes.text(45, 2.0, STREAMS[norm], color=GREY, ha="center", va="center")
    return figure


def draw_sublayer(axes, left: float, name: str, colour: str, norm: str) -> None:
    """One branch that leaves the stream, does its work, and is added to it."""
    plus = left + (33.0 if norm == "pre" else 21.5)
    arrow(axes, (left + 1, STREAM), (left + 1, BRANCH), head=False)
    arrow(axes, (left + 1, BRANCH), (left + 3.5, BRANCH))
    if norm == "pre":
        box(axes, left + 3.5, BRANCH, 9.5, "LayerNorm", GREEN)
        arrow(axes, (left + 13, BRANCH), (left + 15.5, BRANCH))
        box(axes, left + 15.5, BRANCH, 15.0, name, colour)
        arrow(axes, (left + 30.5, BRANCH), (plus, BRANCH), head=False)
    else:
        box(axes, left + 3.5, BRANCH, 15.0, name, colour)
        arrow(axes, (left + 18.5, BRANCH), (plus, BRANCH), head=False)
        box(axes, left + 23.3, STREAM, 9.5, "LayerNorm", GREEN)
    arrow(axes, (plus, BRANCH), (plus, STREAM + 1.4))
    axes.plot(plus, STREAM, "o", ms=17, color="white", mec=BLACK, mew=1.5, zorder=3)
    axes.text(plus, STREAM, "+", fontsize=15, ha="center", va="center_baseline", zorder=4)


def box(axes, left: float, y: float, width: float, text: str, colour: str) -> None:
    shape = FancyBboxPatch(
        (left, y - BOX_HEIGHT / 2), width, BOX_HEIGHT, boxstyle="round,pad=0,rounding_size=0.8",
        facecolor="white", edgecolor=colour, lw=2, zorder=3,
    )  # fmt: skip
    axes.add_patch(shape)
    axes.text(left + width / 2, y, text, fontsize=10, ha="center", va="center", linespacing=1.3, zorder=4)


def arrow(axes, start: tuple[float, float], end: tuple[float, float], head: bool = True, lw: float = 1.5) -> None:
    style = {"arrowstyle": "-|>" if head else "-", "color": BLACK, "lw": lw, "shrinkA": 0, "shrinkB": 0}
    axes.annotate("", xy=end, xytext=start, arrowprops=style, zorder=2)


@styled
def show_layer_norm(
    before: Float[Tensor, "T D"], after: Float[Tensor, "T D"], names: Sequence[int], title: str = ""
) -> Figure:
    """Every number of each token as a point, with the token's mean and one standard deviation around it.

    `names` are the tokens' places in their image, written under them. Raises ValueError unless there is one for each.
    """
    if len(names) != len(before):
        raise ValueError(f"{len(names)} names for {len(before)} tokens")
    figure, panels = plt.subplots(1, 2, figsize=(WIDTH, 4.0))
    for axes, tokens, name in zip(panels, (before, after), ("before", "after"), strict=True):
        places = range(len(tokens))
        for place, token in zip(places, tokens, strict=True):
            axes.plot([place] * len(token), to_numpy(token), ".", color=BLUE, alpha=0.25, ms=5, zorder=1)
        spread = to_numpy(tokens.std(dim=1, correction=0))
        axes.errorbar(
            places, to_numpy(tokens.mean(dim=1)), yerr=spread, fmt="o", ms=6, color=BLACK, lw=2, capsize=5, zorder=2
        )
        axes.axhline(0, color=GREY, lw=0.8, zorder=0)
        axes.set(xlabel="token", ylabel="its numbers", title=f"{name} LayerNorm")
        axes.set_xticks(places, labels=[str(name) for name in names])
    dot = panels[0].plot([], [], ".", color=BLUE)[0]
    bar = panels[0].errorbar([], [], yerr=[], fmt="o", color=BLACK, lw=2, capsize=5)
    figure.legend((dot, bar), ("one number", "mean ± standard deviation"), loc="outside lower right", ncols=2)
    figure.suptitle(title, x=0.01, ha="left")
    return figure


@styled
def show_activations(
    x: Float[Tensor, " n"],
    values: Mapping[str, Float[Tensor, " n"]],
    slopes: Mapping[str, Float[Tensor, " n"]],
    title: str = "",
) -> Figure:
    """Activation functions (left) and their derivatives (right), one line style for each name."""
    figure, panels = plt.subplots(1, 2, figsize=(WIDTH, 3.4))
    for axes, curves, name in zip(panels, (values, slopes), ("output", "slope"), strict=True):
        for (label, curve), colour, (stroke, _) in zip(
            curves.items(), cycle((BLUE, ORANGE, GREEN)), cycle(STROKES), strict=False
        ):
            axes.plot(to_numpy(x), to_numpy(curve), stroke, color=colour, lw=2.2, label=label)
        axes.axhline(0, color=GREY, lw=0.8, zorder=0)
        axes.axvline(0, color=GREY, lw=0.8, zorder=0)
        axes.set(xlabel="input", ylabel=name)
    panels[0].legend(loc="upper left")
    figure.suptitle(title, x=0.01, ha="left")
    return figure


@styled
def show_spread(
    x: Sequence[int],
    panels: Mapping[str, Mapping[str, Float[Tensor, "S X"]]],
    xlabel: str,
    title: str = "",
    log: bool = False,
) -> Figure:
    """Curves over several runs, a panel for each y label: the line is the mean, the band runs from lowest to highest.

    `panels[ylabel][name]` is (runs, len(x)). `log` makes both axes logarithmic.
    Raises ValueError if a curve has another length than `x`.
    """
    figure, row = plt.subplots(1, len(panels), figsize=(WIDTH, 3.6), squeeze=False)
    names = dict.fromkeys(name for curves in panels.values() for name in curves)  # a name looks the same in each panel
    looks = dict(zip(names, cycle(zip((BLUE, ORANGE, GREEN, PINK), STROKES, strict=True)), strict=False))
    for axes, (ylabel, curves) in zip(row[0], panels.items(), strict=True):
        for name, runs in curves.items():
            colour, (stroke, marker) = looks[name]
            if runs.shape[-1] != len(x):
                raise ValueError(f"{name!r} has {runs.shape[-1]} values for {len(x)} places on the x axis")
            every = max(len(x) // 12, 1)
            axes.fill_between(x, to_numpy(runs.amin(0)), to_numpy(runs.amax(0)), color=colour, alpha=0.25, lw=0)
            axes.plot(
                x, to_numpy(runs.mean(0)), stroke, marker=marker, markevery=every, ms=5, color=colour, lw=2, label=name
            )
        axes.set(xlabel=xlabel, ylabel=ylabel)
        if log:
            axes.set(xscale="log", yscale="log")
            axes.set_xticks(x, labels=[str(place) for place in x])
            axes.xaxis.set_minor_locator(NullLocator())
            plain_ticks(axes, curves)
        else:
            axes.set_ylim(bottom=0)
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.legend(loc="best")
    figure.suptitle(title, x=0.01, ha="left")
    return figure


def plain_ticks(axes, curves: Mapping[str, Tensor]) -> None:
    """1, 2 and 5 times the powers of ten, written out, as far as the curves reach."""
    low = min(runs.min().item() for runs in curves.values())
    high = max(runs.max().item() for runs in curves.values())
    ticks = [step * 10.0**power for power in range(-6, 7) for step in (1, 2, 5)]
    ticks = [tick for tick in ticks if low / 1.5 <= tick <= high * 1.5]
    axes.set_yticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    axes.yaxis.set_minor_formatter(NullFormatter())


@styled
def show_skips(kept: Bool[Tensor, "B branches"], rates: Sequence[float], title: str = "") -> Figure:
    """Which images (rows) take part in which branches (columns): filled if it does, a cross if it skips.

    `rates` are the probabilities of skipping, one for each branch.
    Raises ValueError if there are not as many rates as branches.
    """
    if len(rates) != kept.shape[1]:
        raise ValueError(f"{len(rates)} rates for {kept.shape[1]} branches")
    figure, (top, axes) = plt.subplots(
        2, 1, figsize=(WIDTH, 1.6 + 0.26 * len(kept)), sharex=True, height_ratios=(1, 0.21 * len(kept))
    )
    columns = range(1, len(rates) + 1)
    top.bar(columns, rates, color=GREY)
    top.set(ylabel="rate", yticks=(0, max(rates)), yticklabels=("0", f"{max(rates):g}"))
    rows, places = kept.nonzero(as_tuple=True)
    axes.plot(to_numpy(places) + 1, to_numpy(rows) + 1, "s", color=BLUE, ms=8, label="takes part")
    rows, places = (~kept).nonzero(as_tuple=True)
    axes.plot(to_numpy(places) + 1, to_numpy(rows) + 1, "x", color=ORANGE, ms=8, mew=2, label="skips")
    axes.set(xlabel="branch (two to a block)", ylabel="image", xlim=(0.3, len(rates) + 0.7))
    axes.set(ylim=(len(kept) + 0.7, 0.3), xticks=columns)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=2)
    figure.suptitle(title, x=0.01, ha="left")
    return figure
