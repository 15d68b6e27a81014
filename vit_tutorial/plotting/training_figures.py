"""The learning rate, a run while it goes on, and what came of one run or of many."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

import numpy as np

from ..training import Progress
from . import panels, style
from .alt_text import brief, listed, with_alt
from .style import WIDTH, Figure, styled


class LiveLoss:
    """Draw the loss while the model trains, in JupyterLab and in Colab: a `watch` for `fit`.

    The picture is replaced in place about every two seconds, or so seldom that it takes a twentieth of the time, with
    the epoch and the time left in its title; the last one keeps `title`.
    """

    def __init__(self, num_classes: int, title: str):
        self.num_classes, self.title = num_classes, title
        self.steps, self.losses, self.epoch, self.next, self.handle = [], [], 0, -math.inf, None

    def __call__(self, progress: Progress) -> None:
        if progress.finished is None or progress.epoch > self.epoch:  # an epoch too short for a report: its mean
            self.steps.append(progress.step)
            self.losses.append(progress.loss)
            self.epoch = progress.epoch
        over = progress.step == progress.steps and progress.finished is not None
        start = time.perf_counter()
        if over or start > self.next:
            left = f"epoch {progress.epoch} of {progress.epochs}, {progress.seconds_left:.0f} seconds left"
            title = self.title if over else left
            self.show(show_loss(self.steps, self.losses, progress.steps, self.num_classes, title))
            end = time.perf_counter()
            self.next = end + max(2, 20 * (end - start))  # on a busy computer a drawing takes long

    def show(self, figure: Figure) -> None:
        from IPython.display import display  # here, because the package draws without a notebook too

        if self.handle:
            self.handle.update(figure)
        else:
            self.handle = display(figure, display_id=True)


@styled
def show_loss(steps: Sequence[int], losses: Sequence[float], total: int, num_classes: int, title: str) -> Figure:
    """Draw the loss by step, on axes for all `total` steps, with the loss of a guess, ln K, as a dashed line."""
    chance = math.log(num_classes)
    figure, axes = panels.panel(WIDTH, 3.4, title)
    axes.plot(steps, losses, color=style.TRAINED, linewidth=2)
    panels.level(axes, chance, f"ln {num_classes}: every class equally likely", total)
    axes.set(xlim=(0, total), ylim=(0, 1.15 * max([chance, *losses])), xlabel="step", ylabel="loss")
    ends = f"from {losses[0]:.1f} to {losses[-1]:.1f}" if losses else "not yet known"
    return with_alt(figure, f"The loss over {total} steps, {ends}; a guess has {chance:.2f}.")


@styled
def show_by_images(
    results: Mapping[str, Mapping[int, Sequence[float]]], num_classes: int, title: str, errors: bool = False
) -> Figure:
    """Draw accuracy (from 0 to 1) by the number of training images: every seed, and a line through their means.

    `results[name][images]` are the accuracies of the seeds; a guess is a dashed line. With `errors` the wrong answers
    are drawn instead, on a logarithmic axis, where 98 % and 100 % lie far apart.
    """
    figure, axes = panels.panel(WIDTH, 3.8, title)
    counts = sorted({count for table in results.values() for count in table})
    what, told, drawn = "wrong answers" if errors else "test accuracy", [], []
    for name, (colour, marker, dash) in style.looks(results).items():
        seeds = {count: [100 * abs(errors - accuracy) for accuracy in table] for count, table in results[name].items()}
        points = [(count, percent) for count, table in seeds.items() for percent in table]
        axes.plot(*zip(*points, strict=True), marker, color=colour, alpha=0.5)
        means = [np.mean(table) for table in seeds.values()]
        axes.plot(list(seeds), means, dash, color=colour, linewidth=2, marker=marker, markersize=4, label=name)
        first, last = (brief(round(mean, 1)) for mean in (means[0], means[-1]))
        told.append(f"{name} {first} % with {min(seeds):,} and {last} % with {max(seeds):,}")
        drawn += [percent for _, percent in points]
    panels.level(axes, 100 * abs(errors - 1 / num_classes), "a guess", counts[-1])
    axes.set_xscale("log")
    axes.set_xticks(counts, [f"{count:,}" for count in counts])
    axes.set(ylim=(0, 103), xlabel="training images (log scale)", ylabel=f"{what}, %")
    if errors:
        panels.log_down_to_zero(axes, drawn)
        axes.set(ylabel=f"{what}, % (log scale)")
    axes.minorticks_off()
    panels.legend_at_right(axes)
    return with_alt(figure, f"Mean {what} by the number of training images: {listed(told)}.")
