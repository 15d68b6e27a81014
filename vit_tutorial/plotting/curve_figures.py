"""Curves over anything: patch sizes, blocks, steps, patches covered."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import torch
from matplotlib.ticker import LogLocator, MaxNLocator
from torch import Tensor

from . import panels, style
from .alt_text import brief, courses, with_alt
from .style import WIDTH, Figure, Number, styled


@styled
def show_curves(
    x: Sequence[Number] | Tensor,
    measures: Mapping[str, Mapping[str, Sequence[Number] | Tensor]],
    xlabel: str,
    title: str,
    log: str = "",
    level: tuple[Number, str] | None = None,
    mistake: str = "",
) -> Figure:
    """Draw curves, one panel per y label.

    `measures[ylabel][name]` has one value for each x, (X,), or those of S runs, (S, X): then the line is their mean, in
    a band from the lowest to the highest; nan leaves a point out. `log` names the logarithmic axes ("x", "y" or "xy").
    `level` is a height and its text, a dashed line. `mistake` is the curve that is drawn as one.
    """
    x = torch.as_tensor(x).tolist()
    curves = {
        y: {name: torch.atleast_2d(torch.as_tensor(c, dtype=torch.float32).detach().cpu()) for name, c in named.items()}
        for y, named in measures.items()
    }
    look = style.looks((name for named in curves.values() for name in named), mistake)  # the same in each panel
    figure, (row,) = panels.panels(1, len(curves), WIDTH, 3.6, title)
    same_names = len({tuple(named) for named in curves.values()}) == 1
    dots = {"markevery": max(len(x) // 12, 1), "ms": 5 if len(x) <= 60 else 0}
    for axes, (ylabel, named) in zip(row, curves.items(), strict=True):
        for name, runs in named.items():
            panels.band(axes, x, runs, name, look[name], **dots)
        axes.set(xlabel=xlabel, ylabel=ylabel)
        if level:  # its text stands at the end from which the curves are farther
            left, right = (min(abs(runs[:, end] - level[0]).min() for runs in named.values()) for end in (0, -1))
            panels.level(axes, *level, *((x[0], "left") if left > right else (x[-1], "right")))
        heights = torch.cat([*(runs.flatten() for runs in named.values()), torch.tensor([level[0]] if level else [])])
        set_scales(axes, x, heights[heights.isfinite()], log, few=20 // len(row))
        if len(named) > 1 and not same_names:
            axes.legend()
    if len(named) > 1 and same_names:  # one legend for all panels
        axes.legend() if len(row) == 1 and len(named) == 2 else panels.legend_at_right(axes)
    means = {y: {name: runs.mean(dim=0) for name, runs in named.items()} for y, named in curves.items()}
    told = [f"{y}: {courses({name: c[c.isfinite()].tolist() for name, c in m.items()})}" for y, m in means.items()]
    return with_alt(figure, f"{xlabel}: {brief(x[0])} to {brief(x[-1])}. {'. '.join(told)}.")


def set_scales(axes, x: list[Number], values: Tensor, log: str, few: int) -> None:
    """Choose scales and ticks: at each x if there are only a `few`, without the labels that would run into the next."""
    if "x" in log:
        axes.set_xscale("log")
    if len(x) <= few:
        crowded = ["x" in log and after < 1.2 * place for place, after in pairwise([*x, math.inf])]
        axes.set_xticks(x, ["" if close else f"{place:g}" for place, close in zip(x, crowded, strict=True)])
        axes.minorticks_off()
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if "y" in log:
        axes.set_yscale("log")
        if values.max() / values.min() < 1000:  # 1, 2 and 5 times the powers of ten, written out
            axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_locator(LogLocator(subs=()))
    elif values.min() < 0:
        panels.zero(axes)
    elif values.min() < values.max() / 2:
        axes.set_ylim(bottom=0)
