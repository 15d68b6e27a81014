"""Numbers on axes: curves, dots, the loss of a run while it goes on, a row made longer, differences by layer."""

import math
import time
from collections.abc import Mapping, Sequence
from itertools import cycle

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, LogLocator
from torch import Tensor

from . import panels, style
from .alt_text import amounts, brief, first_to_last, listed, lowest_to_highest, with_alt
from .style import WIDTH, Figure, Number, styled, to_numpy

Values = Sequence[Number] | Tensor
Curves = Mapping[str, Values]
Level = tuple[Number, str] | None  # a value to compare with, if there is one, and its text
Under = Mapping[Number, Tensor] | None  # a picture for each place of the x axis


@styled
def show_curves(
    x: Values, curves: Curves, xlabel: str, ylabel: str, title: str, log="", level: Level = None, pictures: Under = None
) -> Figure:
    """Draw curves over `x`, each under its name.

    A curve is (X,), or that of S runs, (S, X): then the line is their mean, in a band from the lowest to the highest.
    `log` names the logarithmic axes, "x" or "xy"; `pictures` stand under the x axis.
    """
    x = torch.as_tensor(x).tolist()
    runs = {name: np.atleast_2d(to_numpy(torch.as_tensor(values))) for name, values in curves.items()}  # (S, X)
    means = {name: values.mean(axis=0).tolist() for name, values in runs.items()}
    few = len(x) <= 20  # then each point has a marker, and its number under the axis
    figure, axes = panels.one(WIDTH, 3.6, title)
    for name, (colour, marker, dash) in style.looks(curves).items():
        axes.fill_between(x, runs[name].min(axis=0), runs[name].max(axis=0), color=colour, alpha=0.25, lw=0)
        axes.plot(x, means[name], dash, color=colour, marker=marker, ms=5 if few else 0, lw=2, label=name)
    heights = np.concatenate(list(runs.values()))  # (all runs, X)
    if level:
        level_where_free(axes, *level, x, heights)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    for name in log:
        make_logarithmic(getattr(axes, f"{name}axis"))
    if "y" not in log and 0 <= heights.min() < heights.max() / 2:
        axes.set_ylim(bottom=0)
    if few or pictures:
        places = list(pictures or x)
        axes.set_xticks(places, map(brief, places))
    for place, image in (pictures or {}).items():
        panels.under(axes, image, place)
    axes.minorticks_off()
    if len(curves) > 1:
        axes.legend(**panels.BESIDE if len(curves) > 2 else {})
    return with_alt(figure, f"{xlabel}: {brief(x[0])} to {brief(x[-1])}. {ylabel}: {first_to_last(means, x)}.")


def level_where_free(axes: Axes, value: Number, text: str, x: Sequence[Number], heights: np.ndarray) -> None:
    """Draw a level, its text at the end of the x axis where the curves' heights, (S, X), are farther from it."""
    to_first, to_last = (abs(heights[:, end] - value).min() for end in (0, -1))
    end, ha = (x[0], "left") if to_first > to_last else (x[-1], "right")
    panels.level(axes, value, text, end, ha)


def make_logarithmic(axis: Axis) -> None:
    """Make an axis logarithmic, with its numbers written out: 1, 10, 100 …, and on a short one 1, 2, 5, 10, 20 …"""
    low, high = axis.get_data_interval()
    axis.axes.set(**{f"{axis.axis_name}scale": "log"})
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 1000 * low else (1,)))
    axis.set_major_formatter("{x:g}")


@styled
def show_dots(rows: Mapping[str, Values | Number], xlabel: str, title: str, level: Level = None) -> Figure:
    """Draw each row's values as dots, and their mean as a bar; a single value is written beside its dot."""
    figure, axes = panels.one(WIDTH, 0.4 * len(rows) + 1.2, title)  # 0.4 inches for a row
    rows = {name: torch.as_tensor(values, dtype=torch.float32).flatten().tolist() for name, values in rows.items()}
    means = {name: sum(values) / len(values) for name, values in rows.items()}
    low, high = min(map(min, rows.values())), max(map(max, rows.values()))
    from_zero = 0 <= low < high / 2
    for height, (name, values) in enumerate(rows.items()):
        faint = 0.6 if len(values) <= 10 else 0.25  # where many dots are, it is darker
        axes.plot(values, [height] * len(values), "o", color=style.TRAINED, ms=8, alpha=faint, mec="none")
        if len(values) > 1:
            axes.vlines(means[name], height - 0.3, height + 0.3, color=style.BLACK, lw=2)
        else:
            axes.hlines(height, 0 if from_zero else means[name], means[name], color=style.TRAINED, lw=2, alpha=0.6)
            panels.beside(axes, brief(means[name]), (means[name], height))
    panels.row_names(axes, rows)
    axes.grid(axis="x", color="#DDDDDD", linewidth=0.8)
    axes.set(xlabel=xlabel)
    if from_zero:
        axes.set_xlim(left=0)
    if level:
        axes.axvline(level[0], color=style.CONTROL, lw=1, ls="--", zorder=0)
        panels.beside(axes, level[1], (level[0], -0.5), (0, 3), color=style.CONTROL, ha="center", va="bottom")
    return with_alt(figure, f"{xlabel}, means: {amounts(means)}.")


@styled
def show_scatter(
    points: Mapping[str, Sequence[tuple[Number | Tensor, Number | Tensor]]],
    xlabel: str,
    ylabel: str,
    title: str,
    level: Level = None,
) -> Figure:
    """Draw a dot at each of the points (x, y) of every name."""
    figure, axes = panels.one(WIDTH, 3.6, title)
    told = []
    for name, (colour, marker, _) in style.looks(points).items():
        x, y = torch.tensor(points[name]).T
        axes.plot(x, y, marker, color=colour, ms=8, alpha=0.7, mec="none", label=name)
        told.append(f"{name}, {lowest_to_highest(x)} and {lowest_to_highest(y)}")
    axes.set(xlabel=xlabel, ylabel=ylabel)
    if level:
        panels.level(axes, *level, axes.dataLim.x1)  # up to the rightmost dot
    axes.legend(**panels.BESIDE)
    return with_alt(figure, f"{xlabel} and {ylabel}, from lowest to highest: {listed(told)}.")


class LiveLoss:
    """Draw the loss while a loop trains a model: a picture that is replaced in place about every two seconds."""

    def __init__(self, num_classes: int, title: str):
        self.num_classes, self.title = num_classes, title
        self.steps, self.losses, self.next, self.handle = [], [], 0.0, None

    def add(self, step: int, steps: int, losses: Sequence[float]) -> None:
        """Add the mean of the losses since the last call, after `step` of all `steps`, and draw if it is time."""
        from IPython.display import display  # here, because the package draws without a notebook too

        self.steps.append(step)
        self.losses.append(sum(losses) / len(losses))
        if step < steps and time.monotonic() < self.next:
            return
        figure = self.draw(steps, self.title if step == steps else f"step {step:,} of {steps:,}")
        if self.handle:
            self.handle.update(figure)
        else:
            self.handle = display(figure, display_id=True)
        self.next = time.monotonic() + 2

    @styled
    def draw(self, total: int, title: str) -> Figure:
        """Draw the loss by step, on axes for all `total` steps, with the loss of a guess, ln K, as a dashed line."""
        chance = math.log(self.num_classes)
        figure, axes = panels.one(WIDTH, 3.4, title)
        axes.plot(self.steps, self.losses, color=style.TRAINED, linewidth=2)
        panels.level(axes, chance, f"ln {self.num_classes}: every class equally likely", total)
        axes.set(xlim=(0, total), ylim=(0, 1.15 * max([chance, *self.losses])), xlabel="step", ylabel="loss")
        ends = f"from {self.losses[0]:.1f} to {self.losses[-1]:.1f}"
        return with_alt(figure, f"The loss over {total} steps, {ends}; a guess has {chance:.2f}.")


@styled
def show_by_images(results: Mapping[str, Mapping[int, Sequence[float]]], num_classes: int, title: str) -> Figure:
    """Draw wrong answers by the number of images, the same for all names; `results[name][images]` are accuracies."""
    wrong = {name: 100 * (1 - torch.tensor(list(table.values())).T) for name, table in results.items()}  # (S, X)
    counts = list(next(iter(results.values())))
    guess = (100 * (1 - 1 / num_classes), "a guess")
    figure = show_curves(
        counts, wrong, "training images (log scale)", "wrong answers, % (log scale)", title, "x", guess
    )
    figure.set_figheight(3.8)
    (axes,) = figure.axes
    axes.set_yscale("symlog", linthresh=0.01, linscale=0.5)  # so that 98 % and 100 % right lie far apart
    axes.set_ylim(0.8 * min(runs.min().item() for runs in wrong.values()) - 0.003, 200)
    axes.yaxis.set_major_locator(FixedLocator((0, 0.01, 0.1, 1, 10, 100)))  # zero has a place of its own
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    told = []
    for name, runs in wrong.items():
        first, *_, last = (brief(round(mean, 1)) for mean in runs.mean(dim=0).tolist())
        told.append(f"{name} {first} % with {counts[0]:,} and {last} % with {counts[-1]:,}")
    return with_alt(figure, f"Mean wrong answers by the number of training images: {listed(told)}.")


@styled
def show_row(old: Sequence[float], new: Curves, title: str) -> Figure:
    """Draw a row of values at the centres of its cells, joined by lines, and the other rows that were made of it."""
    figure, axes = panels.one(0.85 * WIDTH, 3.0, title)
    first, last, places = -0.5, len(old) - 0.5, range(len(old))
    axes.plot([first, *places, last], [old[0], *old, old[-1]], color=style.CONTROL, lw=1.5)
    axes.plot(places, old, "s", color=style.BLACK, ms=11, label=f"{len(old)} old values")
    for (name, (colour, marker, _)), offset in zip(style.looks(new).items(), cycle((-20, 9)), strict=False):
        centres = [(j + 0.5) * len(old) / len(new[name]) - 0.5 for j in range(len(new[name]))]
        axes.plot(centres, new[name], marker, color=colour, ms=8, label=name)
        for place in zip(centres, new[name], strict=True):
            panels.beside(axes, f"{place[1]:g}", place, (0, offset), color=colour, ha="center", va="baseline")
    axes.set(xlim=(first, last), xticks=places, ylabel="value")
    axes.set_xlabel("place $u$: 0 is the centre of the first old patch")
    axes.margins(y=0.25)
    axes.legend(loc="upper left")
    rows = [f"{name}: {', '.join(f'{value:g}' for value in values)}" for name, values in {"old": old, **new}.items()]
    return with_alt(figure, f"A row of values before and after: {'; '.join(rows)}.")
