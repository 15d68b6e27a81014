"""Curves over anything, the loss of a run while it goes on, accuracy by the number of images, a row made longer."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, LogLocator, MaxNLocator
from torch import Tensor

from ..training import Progress
from . import panels, style
from .alt_text import amounts, brief, courses, listed, with_alt
from .style import WIDTH, Figure, Number, styled

MISTAKE_MARKS = ("X", ":"), ("v", "--")  # markers and dashes; the colour of all mistakes is one


@styled
def show_curves(
    x: Sequence[Number] | Tensor,
    measures: Mapping[str, Mapping[str, Sequence[Number] | Tensor]],
    xlabel: str,
    title: str,
    log: str = "",
    level: tuple[Number, str] | None = None,
) -> Figure:
    """Draw curves over `x`; `measures` has the label of the y axis, and under it the curves by their names.

    A curve has one value for each x, (X,), or those of S runs, (S, X): then the line is their mean, in a band from the
    lowest to the highest. `log` names the logarithmic axes ("x", "y" or "xy"). `level` is a height and its text, a
    dashed line.
    """
    x, ((ylabel, named),) = torch.as_tensor(x).tolist(), measures.items()
    curves = {name: torch.as_tensor(curve, dtype=torch.float32).detach().cpu() for name, curve in named.items()}
    curves = {name: torch.atleast_2d(runs) for name, runs in curves.items()}
    figure, ((axes,),) = panels.panels(1, 1, WIDTH, 3.6, title)
    dots = {"markevery": max(len(x) // 12, 1), "ms": 5 if len(x) <= 60 else 0}
    for name, (colour, marker, dash) in style.looks(curves).items():
        runs = curves[name]
        if len(runs) > 1:
            axes.fill_between(x, runs.amin(0), runs.amax(0), color=colour, alpha=0.25, lw=0)
        axes.plot(x, runs.mean(0), dash, color=colour, marker=marker, lw=2, label=name, **dots)
    axes.set(xlabel=xlabel, ylabel=ylabel)
    heights = torch.cat(list(curves.values()))  # (all runs, X)
    low, high = (bound.item() for bound in heights.aminmax())
    if level:  # its text stands at the end from which the curves are farther
        left, right = (heights[:, [0, -1]] - level[0]).abs().amin(dim=0)
        panels.level(axes, *level, *((x[0], "left") if left > right else (x[-1], "right")))
        low, high = min(low, level[0]), max(high, level[0])
    set_scales(axes, x, low, high, log)
    if len(curves) > 1:
        axes.legend(**panels.BESIDE if len(curves) > 2 else {})
    means = {name: runs.mean(dim=0).tolist() for name, runs in curves.items()}
    return with_alt(figure, f"{xlabel}: {brief(x[0])} to {brief(x[-1])}. {ylabel}: {courses(means)}.")


def set_scales(axes: Axes, x: Sequence[Number], low: Number, high: Number, log: str) -> None:
    """Choose scales and ticks for heights from `low` to `high`: at each x if there are few."""
    if "x" in log:
        axes.set_xscale("log")
    if len(x) <= 20:
        axes.set_xticks(x, [f"{place:g}" for place in x])
        axes.minorticks_off()
    else:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    if "y" in log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))  # these times the powers of ten, written out
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_locator(LogLocator(subs=()))
    elif 0 <= low < high / 2:
        axes.set_ylim(bottom=0)


class LiveLoss:
    """Draw the loss while the model trains, in JupyterLab and in Colab: a `watch` for `fit`, or `add` it in a loop.

    The picture is replaced in place about every two seconds, or so seldom that it takes a twentieth of the time, with
    what is left to do in its title; the last one keeps `title`.
    """

    def __init__(self, num_classes: int, title: str):
        self.num_classes, self.title = num_classes, title
        self.steps, self.losses, self.epoch, self.next, self.handle = [], [], 0, -math.inf, None

    def __call__(self, progress: Progress) -> None:
        if progress.finished is None or progress.epoch > self.epoch:  # an epoch too short for a report: its mean
            self.note(progress.step, progress.loss)
            self.epoch = progress.epoch
        over = progress.step == progress.steps and progress.finished is not None
        left = f"epoch {progress.epoch} of {progress.epochs}, {progress.seconds_left:.0f} seconds left"
        self.redraw(progress.steps, over, left)

    def add(self, step: int, steps: int, losses: Sequence[float]) -> None:
        """Add the mean of the losses since the last call, after `step` of all `steps`."""
        self.note(step, sum(losses) / len(losses))
        self.redraw(steps, step == steps, f"step {step:,} of {steps:,}")

    def note(self, step: int, loss: float) -> None:
        self.steps.append(step)
        self.losses.append(loss)

    def redraw(self, steps: int, over: bool, left: str) -> None:
        """Draw if the run is over, or if the last picture is old enough."""
        start = time.perf_counter()
        if over or start > self.next:
            self.show(self.draw(steps, self.title if over else left))
            end = time.perf_counter()
            self.next = end + max(2, 20 * (end - start))  # on a busy computer a drawing takes long

    @styled
    def draw(self, total: int, title: str) -> Figure:
        """Draw the loss by step, on axes for all `total` steps, with the loss of a guess, ln K, as a dashed line."""
        chance = math.log(self.num_classes)
        figure, axes = panels.panel(WIDTH, 3.4, title)
        axes.plot(self.steps, self.losses, color=style.TRAINED, linewidth=2)
        panels.level(axes, chance, f"ln {self.num_classes}: every class equally likely", total)
        axes.set(xlim=(0, total), ylim=(0, 1.15 * max([chance, *self.losses])), xlabel="step", ylabel="loss")
        ends = f"from {self.losses[0]:.1f} to {self.losses[-1]:.1f}"
        return with_alt(figure, f"The loss over {total} steps, {ends}; a guess has {chance:.2f}.")

    def show(self, figure: Figure) -> None:
        from IPython.display import display  # here, because the package draws without a notebook too

        if self.handle:
            self.handle.update(figure)
        else:
            self.handle = display(figure, display_id=True)


@styled
def show_by_images(results: Mapping[str, Mapping[int, Sequence[float]]], num_classes: int, title: str) -> Figure:
    """Draw the wrong answers by the number of training images: every seed, and a line through their means.

    `results[name][images]` are the accuracies of the seeds, from 0 to 1; a guess is a dashed line. The axis is
    logarithmic down to 0.01 %, so that 98 % and 100 % right lie far apart.
    """
    figure, axes = panels.panel(WIDTH, 3.8, title)
    counts = sorted({count for table in results.values() for count in table})
    told = []
    for name, (colour, marker, dash) in style.looks(results).items():
        seeds = {count: [100 * (1 - accuracy) for accuracy in table] for count, table in results[name].items()}
        points = [(count, percent) for count, table in seeds.items() for percent in table]
        axes.plot(*zip(*points, strict=True), marker, color=colour, alpha=0.5)
        means = [np.mean(table) for table in seeds.values()]
        axes.plot(list(seeds), means, dash, color=colour, linewidth=2, marker=marker, markersize=4, label=name)
        first, last = (brief(round(mean, 1)) for mean in (means[0], means[-1]))
        told.append(f"{name} {first} % with {min(seeds):,} and {last} % with {max(seeds):,}")
    panels.level(axes, 100 * (1 - 1 / num_classes), "a guess", counts[-1])
    axes.set_xscale("log")
    axes.set_xticks(counts, [f"{count:,}" for count in counts])
    axes.set_yscale("symlog", linthresh=0.01, linscale=0.5)
    axes.yaxis.set_major_locator(FixedLocator((0, 0.01, 0.1, 1, 10, 100)))  # zero has a place of its own
    axes.yaxis.set_major_formatter("{x:g}")
    best = max(accuracy for table in results.values() for seeds in table.values() for accuracy in seeds)
    axes.set(ylim=(80 * (1 - best) - 0.003, 200), xlabel="training images (log scale)")
    axes.set_ylabel("wrong answers, % (log scale)")
    axes.minorticks_off()
    axes.legend(**panels.BESIDE)
    return with_alt(figure, f"Mean wrong answers by the number of training images: {listed(told)}.")


@styled
def show_row(old: Sequence[float], new: Mapping[str, Sequence[float]], title: str) -> Figure:
    """Draw a row of values at the centres of its cells, and what it becomes in rows of other lengths.

    All rows are as long as the picture. The axis counts old cells, with 0 at the centre of the first. Straight lines
    join the old values and go on level at both ends.
    """
    figure, axes = panels.panel(0.85 * WIDTH, 3.0, title)
    edges = (-0.5, len(old) - 0.5)
    places = range(len(old))
    axes.plot([edges[0], *places, edges[1]], [old[0], *old, old[-1]], color=style.CONTROL, lw=1.5, zorder=1)
    axes.plot(places, old, "s", color=style.BLACK, ms=11, label=f"{len(old)} old values", zorder=2)
    for name, (colour, marker, _) in style.looks(new).items():
        centres = [(j + 0.5) * len(old) / len(new[name]) - 0.5 for j in range(len(new[name]))]
        axes.plot(centres, new[name], marker, color=colour, ms=8, label=name, zorder=3)
        for point in zip(centres, new[name], strict=True):
            axes.annotate(f"{point[1]:g}", point, (0, 9), textcoords="offset points", ha="center", color=colour)
    axes.set(xlim=edges, xticks=places, ylabel="value")
    axes.set_xlabel("place $u$: 0 is the centre of the first old patch", **style.FORMULA)
    axes.margins(y=0.25)
    axes.legend(loc="upper left")
    rows = [f"{name}: {', '.join(f'{value:g}' for value in values)}" for name, values in {"old": old, **new}.items()]
    return with_alt(figure, f"A row of values before and after: {'; '.join(rows)}.")


@styled
def show_layer_differences(
    stages: Sequence[str],
    correct: Mapping[str, Sequence[float]],
    mistakes: Mapping[str, Sequence[float]],
    eps: float,
    title: str,
) -> Figure:
    """Draw the largest difference after each stage, as a share of the largest value there, on a logarithmic axis.

    Every line of `correct` models and of `mistakes` has one value for each stage; `eps` is the machine epsilon. Zero,
    which a logarithmic axis does not have, is the strip below it.
    """
    figure, ((upper,), (lower,)) = panels.panels(2, 1, WIDTH, 4.2, title, sharex=True, height_ratios=(6, 1))
    looks = style.looks(correct)
    looks |= {name: (style.MISTAKE, *look) for name, look in zip(mistakes, MISTAKE_MARKS, strict=False)}
    lines, last = {**correct, **mistakes}, len(stages) - 1
    for name, (colour, marker, dash) in looks.items():
        look = {"color": colour, "marker": marker, "markersize": 6, "label": name}
        upper.plot([value or math.nan for value in lines[name]], dash, **look)
        lower.plot([math.nan if value else 0 for value in lines[name]], dash, **look)
        place = {"textcoords": "offset points", "va": "center", "color": colour}
        (upper if lines[name][-1] else lower).annotate(name, (last, lines[name][-1]), (8, 0), **place)
    panels.level(upper, eps, "one rounding", -0.45, "left")
    upper.set(yscale="log", ylabel="largest difference\n(1 = largest value there)")
    upper.set_ylim(top=1)
    upper.tick_params(bottom=False)
    upper.spines["bottom"].set_visible(False)
    lower.set(xlim=(-0.5, last + 0.3 * len(stages)), ylim=(-0.5, 0.5), facecolor="#F2F2F2")
    lower.set_yticks([0], ["exactly 0"])
    lower.set_xticks(range(len(stages)), stages)
    for axes, height in ((upper, 0), (lower, 1)):  # the two strokes of a broken axis
        stroke = {"marker": [(-1, -0.6), (1, 0.6)], "markersize": 9, "color": style.BLACK, "clip_on": False}
        axes.plot(0, height, transform=axes.transAxes, **stroke)
    largest = amounts({name: max(values) for name, values in lines.items()})
    return with_alt(figure, f"Largest difference at any stage, with an epsilon of {brief(eps)}: {largest}.")
