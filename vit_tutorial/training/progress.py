"""Watch a run: count what it does, warn when it looks wrong, and tell how far it is."""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ..data import ImageSet
from .recipe import Recipe

SECONDS_BETWEEN_REPORTS = 0.5


class TrainingAlarm(UserWarning):
    """Something is probably wrong with a run; the message says what to look at."""


FIRST_LOSS = (
    "the first loss is {loss:.2f}, but {K} equally likely classes cost ln {K} = {chance:.2f}. Look at the head (too "
    "large at the start? trained before?) and at the labels (0 to K-1?)."
)
NOTHING_LEARNED = (
    "after warm-up the loss is still {loss:.2f}, and knowing nothing costs ln {K} = {chance:.2f}. Look at the learning "
    "rate (too small, or so large that it broke the model?), at the pixels (all alike after normalising?), at the head "
    "(a softmax inside the model?) and at the labels (do they belong to these images?)."
)
# By default Python shows a warning once for each line of code; a cell that runs again must raise its alarm again.
warnings.filterwarnings("always", category=TrainingAlarm, append=True)


class Epoch(NamedTuple):
    """The result of one epoch. `loss` is the mean over its batches as they were trained on; accuracy is from 0 to 1."""

    number: int
    learning_rate: float
    loss: float
    seconds: float
    validation_loss: float | None = None
    validation_accuracy: float | None = None


class Progress(NamedTuple):
    """Where a run is. `epoch` is the current or just `finished` epoch; `loss` is the mean since the last report."""

    step: int
    steps: int
    epoch: int
    epochs: int
    loss: float
    images_per_second: float
    seconds_left: float
    finished: Epoch | None = None


Watch = Callable[[Progress], None]


class Reporter:
    """Follow epoch `index` (from 0): tell watchers about it twice a second and at its end, and raise alarms."""

    def __init__(self, watch: Iterable[Watch], recipe: Recipe, images: ImageSet, index: int):
        self.watch, self.recipe, self.index = watch, recipe, index
        self.num_images, self.num_classes = len(images), len(images.classes)
        self.losses: list[Tensor] = []  # of the batches; they stay on their device, since reading them waits for it
        self.num_reported = 0
        self.started = self.reported = time.perf_counter()

    def add(self, loss: Float[Tensor, ""], learning_rate: float) -> None:
        """Count a batch. Raises FloatingPointError if it is time for a report and the loss is not finite."""
        self.losses.append(loss)
        self.learning_rate = learning_rate
        if self.index == 0 and len(self.losses) == 1:  # a model that was trained before may be right from the start
            self.alarm(FIRST_LOSS, loss.item(), above=1.25)
        if time.perf_counter() - self.reported > SECONDS_BETWEEN_REPORTS:
            self.report()

    def summary(self) -> Epoch:
        """Return the epoch, and judge it if it is the first without warm-up.

        In a run of nothing but warm-up the last epoch is judged, unless half of it or more is warm-up.
        """
        loss = self.mean_loss(self.losses)
        seconds = time.perf_counter() - self.started
        warmup = self.recipe.warmup_epochs
        if self.index == min(math.ceil(warmup), self.recipe.epochs - 1) and warmup < self.index + 0.5:
            self.alarm(NOTHING_LEARNED, loss, above=0.98)
        return Epoch(self.index + 1, self.learning_rate, loss, seconds)

    def alarm(self, message: str, loss: float, above: float) -> None:
        """Warn if the loss is above this share of a guess's; of the line that called `fit`, four calls up."""
        chance = math.log(self.num_classes)
        if loss > above * chance:
            text = message.format(loss=loss, K=self.num_classes, chance=chance)
            warnings.warn(text, TrainingAlarm, stacklevel=5)

    def mean_loss(self, losses: list[Tensor]) -> float:
        loss = torch.stack(losses).mean().item()
        require_finite("loss", loss, self.index + 1, self.learning_rate)
        return loss

    def report(self, finished: Epoch | None = None) -> None:
        """Tell all watchers where the run is, and of the epoch if it is finished."""
        epochs, steps = self.recipe.epochs, self.recipe.steps_per_epoch(self.num_images)
        step, share = self.index * steps + len(self.losses), len(self.losses) / steps
        loss = finished.loss if finished else self.mean_loss(self.losses[self.num_reported :])
        seconds = finished.seconds if finished else time.perf_counter() - self.started
        seconds_left = seconds / share * (epochs - self.index - share)
        speed = share * self.num_images / seconds
        for tell in self.watch:
            tell(Progress(step, epochs * steps, self.index + 1, epochs, loss, speed, seconds_left, finished))
        self.num_reported, self.reported = len(self.losses), time.perf_counter()


def require_finite(name: str, value: float, epoch: int, learning_rate: float) -> None:
    """Raise FloatingPointError for nan and inf."""
    if not math.isfinite(value):
        raise FloatingPointError(
            f"the {name} is {value} in epoch {epoch}, at a learning rate of {learning_rate:.1e}. Lower the learning "
            "rate, lengthen the warm-up or clip harder; with bf16, try fp32; look for images that are not finite."
        )


def print_progress(progress: Progress) -> None:
    """Print a line that moves, in a terminal, or a line for each epoch anywhere else. Pass it to `fit` as a `watch`."""
    moving, epoch = sys.stdout.isatty(), progress.finished
    if not (moving or epoch):
        return
    validated = f"  validation {epoch.validation_accuracy:.1%}" if epoch and epoch.validation_loss is not None else ""
    line = (
        f"epoch {progress.epoch}/{progress.epochs}  loss {progress.loss:.3f}{validated}  "
        f"{progress.images_per_second:,.0f} images/s  {timedelta(seconds=round(progress.seconds_left))} left"
    )
    print(f"\r{line:<79}" if moving else line, end="\n" if epoch else "", flush=True)
