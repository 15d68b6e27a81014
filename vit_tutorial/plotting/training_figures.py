"""Notebook 06: the images, the learning rate, a run while it goes on, and what came of one or of many."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Int64, UInt8
from matplotlib.figure import Figure
from torch import Tensor

from ..training import Progress
from .style import BLUE, GREY, MAGNITUDE, ORANGE, WIDTH, styled, to_numpy

SECONDS_BETWEEN_DRAWINGS = 2.0
DRAWING_SHARE = 0.05  # of the time, at most: on a busy computer a drawing takes long


class LiveLoss:
    """A `watch` for `fit` that draws the loss while the model trains, in JupyterLab and in Colab.

    The picture is replaced in place about every two seconds, with the epoch and the time left in its title;
    the last one keeps `title`. Drawing takes about a tenth of a second, and never more than a twentieth of the time.
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
            self.next = end + max(SECONDS_BETWEEN_DRAWINGS, (end - start) / DRAWING_SHARE)

    def show(self, figure: Figure) -> None:
        # Imported here: the package draws without a notebook too.
        from IPython.display import display

        if self.handle is None:
            self.handle = display(figure, display_id=True)
        else:
            self.handle.update(figure)


@styled
def show_loss(steps: Sequence[int], losses: Sequence[float], total: int, num_classes: int, title: str) -> Figure:
    """The loss against the step, on axes for all `total` steps, with the loss of a guess, ln K, as a dashed line."""
    chance = math.log(num_classes)
    figure, axes = plt.subplots(figsize=(WIDTH, 3.4))
    axes.plot(steps, losses, color=BLUE, linewidth=2)
    axes.axhline(chance, color=GREY, linestyle="--", linewidth=1)
    text = f"ln {num_classes}: every class equally likely"
    axes.annotate(text, (total, chance), (0, 2), textcoords="offset points", color=GREY, ha="right", va="bottom")
    axes.set(xlim=(0, total), ylim=(0, 1.15 * max([chance, *losses])), xlabel="step", ylabel="loss")
    axes.set_title(title)
    return figure


@styled
def show_confusion(confusion: Int64[Tensor, "K K"], classes: Sequence[str], title: str) -> Figure:
    """How often the images of each class (rows) are called each name (columns), in counts. Mistakes are coloured."""
    counts, mistakes = to_numpy(confusion), np.ma.masked_array(to_numpy(confusion), mask=np.eye(len(classes)))
    most = max(mistakes.max(), 1)  # a model without mistakes is drawn too
    size = 2.0 + 0.55 * len(classes)
    figure, axes = plt.subplots(figsize=(size + 1.0, size))
    axes.imshow(mistakes, cmap=MAGNITUDE, vmin=0, vmax=most)  # right answers, on white, would drown them
    for (row, column), count in np.ndenumerate(counts):
        dark = row != column and count < 0.6 * most
        weight, colour = "bold" if row == column else "normal", "white" if dark else "black"
        axes.text(column, row, f"{count:,}", ha="center", va="center", color=colour, fontsize=10, weight=weight)
    axes.set_xticks(range(len(classes)), classes, rotation=45, ha="right")
    axes.set_yticks(range(len(classes)), classes)
    axes.set(xlabel="called", ylabel="is", title=title)
    return figure


@styled
def show_scenes(pixels: UInt8[Tensor, "N 3 H W"], captions: Sequence[str], title: str, columns: int = 8) -> Figure:
    """Images in rows of `columns`, each under its caption. Raises ValueError unless each has one."""
    if len(captions) != len(pixels):
        raise ValueError(f"one caption for each image: {len(pixels)} images, {len(captions)} captions")
    rows = math.ceil(len(pixels) / columns)
    lines = 1 + max(caption.count("\n") for caption in captions)
    figure, grid = plt.subplots(rows, columns, figsize=(WIDTH, 0.5 + rows * (WIDTH / columns + 0.22 * lines)))
    for axes in (cells := np.ravel(grid)):
        axes.axis("off")
    for axes, image, caption in zip(cells, to_numpy(pixels), captions, strict=False):
        axes.imshow(image.transpose(1, 2, 0))
        axes.set_title(caption, fontsize=10, loc="center")
    figure.suptitle(title, x=0.01, ha="left")
    return figure


@styled
def show_schedule(shares: Sequence[float], warmup_steps: int, title: str) -> Figure:
    """The learning rate as a share of its peak, over the steps of a run; the warm-up is shaded."""
    figure, axes = plt.subplots(figsize=(WIDTH, 2.9))
    axes.axvspan(0, warmup_steps, color=ORANGE, alpha=0.25, linewidth=0)
    axes.text(warmup_steps, 0.04, f"  warm-up: {warmup_steps:,} steps", ha="left", va="bottom")
    axes.plot(range(len(shares)), shares, color=BLUE, linewidth=2)
    axes.set(xlim=(0, len(shares)), ylim=(0, 1.08), xlabel="step", ylabel="share of the peak rate")
    axes.set_title(title)
    return figure


@styled
def show_seeds(results: Mapping[str, Sequence[float]], title: str) -> Figure:
    """One row a setting: a dot for each seed's accuracy (from 0 to 1), a bar at their mean.

    The band is the range of the first row, with which the others are compared.
    """
    figure, axes = plt.subplots(figsize=(WIDTH, 1.3 + 0.4 * len(results)))
    first = 100 * np.array(next(iter(results.values())))
    axes.axvspan(first.min(), first.max(), color=ORANGE, alpha=0.25, linewidth=0)
    for row, accuracies in enumerate(results.values()):
        percent = 100 * np.array(accuracies)
        axes.plot(percent, np.full(len(percent), row), "o", color=BLUE, markersize=7, alpha=0.75)
        axes.plot(2 * [percent.mean()], [row - 0.3, row + 0.3], color="black", linewidth=2)
    axes.set_yticks(range(len(results)), results)
    axes.set(ylim=(len(results) - 0.5, -0.5), xlabel="test accuracy, %")
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#DDDDDD", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_title(title)
    return figure


@styled
def show_by_images(results: Mapping[str, Mapping[int, Sequence[float]]], num_classes: int, title: str) -> Figure:
    """Accuracy (from 0 to 1) against the number of different training images: a line through the means of the seeds.

    `results[name][images]` are the accuracies of the seeds, each a marker; a guess is a dashed line.
    """
    chance = 100 / num_classes
    figure, axes = plt.subplots(figsize=(WIDTH, 3.8))
    counts = sorted({count for table in results.values() for count in table})
    for (name, table), colour, marker, dash in zip(results.items(), (BLUE, ORANGE), "os", ("-", "--"), strict=True):
        points = [(count, 100 * accuracy) for count, accuracies in table.items() for accuracy in accuracies]
        axes.plot(*zip(*points, strict=True), marker, color=colour, alpha=0.75)
        means = [100 * sum(accuracies) / len(accuracies) for accuracies in table.values()]
        axes.plot(list(table), means, dash, color=colour, linewidth=2, marker=marker, markersize=3, label=name)
    axes.axhline(chance, color=GREY, linestyle=":", linewidth=1)
    axes.text(counts[-1], chance, "a guess", color=GREY, ha="right", va="bottom")
    axes.set_xscale("log")
    axes.set_xticks(counts, [f"{count:,}" for count in counts])
    axes.minorticks_off()
    axes.set(ylim=(0, 103), xlabel="different training images (log scale)", ylabel="test accuracy, %")
    axes.legend(loc="center right")
    axes.set_title(title)
    return figure
