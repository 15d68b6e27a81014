"""Notebook 06: a run while it goes on, and what came of it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Int64
from matplotlib.figure import Figure
from torch import Tensor

from ..training import Progress
from .style import BLUE, GREY, MAGNITUDE, WIDTH, styled, to_numpy

SECONDS_BETWEEN_DRAWINGS = 2.0


class LiveLoss:
    """A `watch` for `fit` that draws the loss while the model trains, in JupyterLab and in Colab.

    The picture is replaced in place about every two seconds, with the epoch and the time left in its title;
    the last one keeps `title`. Drawing takes about a tenth of a second.
    """

    def __init__(self, num_classes: int, title: str):
        self.num_classes, self.title = num_classes, title
        self.steps, self.losses, self.drawn, self.handle = [], [], -math.inf, None

    def __call__(self, progress: Progress) -> None:
        if progress.finished is None:
            self.steps.append(progress.step)
            self.losses.append(progress.loss)
        over = progress.step == progress.steps and progress.finished is not None
        if over or time.perf_counter() - self.drawn > SECONDS_BETWEEN_DRAWINGS:
            left = f"epoch {progress.epoch} of {progress.epochs}, {progress.seconds_left:.0f} seconds left"
            title = self.title if over else left
            self.show(show_loss(self.steps, self.losses, progress.steps, self.num_classes, title))

    def show(self, figure: Figure) -> None:
        # Imported here: the package draws without a notebook too.
        from IPython.display import display

        if self.handle is None:
            self.handle = display(figure, display_id=True)
        else:
            self.handle.update(figure)
        self.drawn = time.perf_counter()


@styled
def show_loss(steps: Sequence[int], losses: Sequence[float], total: int, num_classes: int, title: str) -> Figure:
    """The loss against the step, on axes for all `total` steps, with the loss of a guess, ln K, as a dashed line."""
    chance = math.log(num_classes)
    figure, axes = plt.subplots(figsize=(WIDTH, 3.4))
    axes.plot(steps, losses, color=BLUE, linewidth=2)
    axes.axhline(chance, color=GREY, linestyle="--", linewidth=1)
    axes.text(total, chance, f"ln {num_classes}: every class equally likely", color=GREY, ha="right", va="bottom")
    axes.set(xlim=(0, total), ylim=(0, 1.15 * max([chance, *losses])), xlabel="step", ylabel="loss")
    axes.set_title(title)
    return figure


@styled
def show_confusion(confusion: Int64[Tensor, "K K"], classes: Sequence[str], title: str) -> Figure:
    """How often the images of each class (rows) are called each name (columns), in counts."""
    counts = to_numpy(confusion)
    size = 2.0 + 0.55 * len(classes)
    figure, axes = plt.subplots(figsize=(size + 1.0, size))
    shares = counts / counts.sum(axis=1, keepdims=True)
    axes.imshow(shares, cmap=MAGNITUDE, vmin=0, vmax=1)
    for (row, column), share in np.ndenumerate(shares):
        colour = "white" if share < 0.6 else "black"
        axes.text(column, row, f"{counts[row, column]:,}", ha="center", va="center", color=colour, fontsize=10)
    axes.set_xticks(range(len(classes)), classes, rotation=45, ha="right")
    axes.set_yticks(range(len(classes)), classes)
    axes.set(xlabel="called", ylabel="is", title=title)
    return figure
