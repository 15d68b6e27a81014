"""Watch a run: warn when it looks wrong, and tell how far it is."""

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

SECONDS_BETWEEN_REPORTS, SECONDS_BETWEEN_LINES = 0.5, 5
last_line = 0.0  # when `print_progress` last printed one


class TrainingAlarm(UserWarning):
    """Something is probably wrong with a run; the message says what to look at."""


class Epoch(NamedTuple):
    """The result of one epoch; accuracy is from 0 to 1.

    `loss` is the mean over the batches as they were trained on, which are cut evenly; if several processes share them,
    over this process's part. `validation_commonest` is the share of the commonest class among the validation images:
    one answer to all of them is right so often.
    """

    number: int
    learning_rate: float
    loss: float
    seconds: float
    validation_loss: float | None = None
    validation_accuracy: float | None = None
    validation_commonest: float | None = None


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
        self.watch, self.recipe, self.images, self.index = watch, recipe, images, index
        self.losses: list[Tensor] = []  # of the batches; they stay on their device, since reading them waits for it
        self.num_reported = 0
        self.started = self.reported = time.perf_counter()

    def add(self, loss: Float[Tensor, ""], learning_rate: float) -> None:
        """Count a batch. Raises FloatingPointError if it is time for a report and the loss is not finite."""
        self.losses.append(loss)
        self.learning_rate = learning_rate
        K, chance = len(self.images.classes), math.log(len(self.images.classes))
        # Only a loss far above: a model that was trained before may be right from the start.
        if self.index == 0 and len(self.losses) == 1 and loss.item() > 1.25 * chance:
            raise_alarm(
                f"the first loss is {loss.item():.2f}, but {K} equally likely classes cost ln {K} = {chance:.2f}. Look "
                "at the head (too large at the start? trained before?) and at the labels (0 to K-1?).",
                stacklevel=5,
            )
        if time.perf_counter() - self.reported > SECONDS_BETWEEN_REPORTS:
            self.report(self.mean_loss(self.num_reported))

    def summary(self) -> Epoch:
        """Return the epoch. Raise an alarm if it is the first after warm-up and has taught nothing but the counts.

        In a run that is shorter than that it is the last one, if more than half of it comes after warm-up.
        """
        loss, seconds = self.mean_loss(), time.perf_counter() - self.started
        warmup = self.recipe.warmup_epochs
        guess = guess_loss(self.images, self.recipe.label_smoothing)
        judged = self.index == min(math.ceil(warmup), self.recipe.epochs - 1) and warmup < self.index + 0.5
        if judged and self.mean_loss(len(self.losses) // 2) > 0.98 * guess > 0:
            raise_alarm(
                f"after warm-up the loss is still {loss:.2f}, and knowing nothing but how often each class comes costs "
                f"{guess:.2f}. Look at the learning rate (too small, or so large that it broke the model?), at the "
                "pixels (all alike after normalising?), at the head (a softmax inside the model?) and at the labels "
                "(do they belong to these images?).",
                stacklevel=5,
            )
        return Epoch(self.index + 1, self.learning_rate, loss, seconds)

    def mean_loss(self, first: int = 0) -> float:
        """Return the mean of this epoch's losses from batch `first` on."""
        loss = torch.stack(self.losses[first:]).mean().item()
        require_finite("loss", loss, self.index + 1, self.learning_rate)
        return loss

    def report(self, loss: float, finished: Epoch | None = None) -> None:
        """Tell all watchers where the run is, and of the epoch if it is finished."""
        epochs, steps = self.recipe.epochs, self.recipe.steps_per_epoch(len(self.images))
        step, share = self.index * steps + len(self.losses), len(self.losses) / steps
        seconds = finished.seconds if finished else time.perf_counter() - self.started
        seconds_left = seconds / share * (epochs - self.index - share)
        speed = share * len(self.images) / seconds
        for tell in self.watch:
            tell(Progress(step, epochs * steps, self.index + 1, epochs, loss, speed, seconds_left, finished))
        self.num_reported, self.reported = len(self.losses), time.perf_counter()


def guess_loss(images: ImageSet, label_smoothing: float) -> float:
    """Return the mean cross-entropy of a model that knows nothing but how often each class comes."""
    K = len(images.classes)
    shares = images.labels.bincount(minlength=K) / len(images)
    return torch.special.entr((1 - label_smoothing) * shares + label_smoothing / K).sum().item()


def raise_alarm(message: str, stacklevel: int) -> None:
    """Warn at the line that called `fit`, so many calls up; again if the same cell runs again."""
    warnings.filterwarnings("always", category=TrainingAlarm, append=True)  # Python's default is once for each line
    warnings.warn(message, TrainingAlarm, stacklevel=stacklevel)


def require_finite(name: str, value: float, epoch: int, learning_rate: float) -> None:
    """Raise FloatingPointError for nan and inf."""
    if not math.isfinite(value):
        raise FloatingPointError(
            f"the {name} is {value} in epoch {epoch}, at a learning rate of {learning_rate:.1e}. Lower the learning "
            "rate, lengthen the warm-up or clip harder; with bf16, try fp32; look for images that are not finite."
        )


def print_progress(progress: Progress) -> None:
    """Print a line that moves, in a terminal; anywhere else a line for each epoch, and one every five seconds.

    Pass it to `fit` as a `watch`.
    """
    global last_line
    moving, epoch, now = sys.stdout.isatty(), progress.finished, time.perf_counter()
    if not (moving or epoch) and now - last_line < SECONDS_BETWEEN_LINES:
        return
    last_line = now
    validated = ""
    if epoch and epoch.validation_loss is not None:
        validated = f"  validation {epoch.validation_accuracy:.1%} (commonest class {epoch.validation_commonest:.1%})"
    speed = progress.images_per_second
    line = (
        f"epoch {progress.epoch}/{progress.epochs}  loss {progress.loss:.3f}{validated}  "
        f"{speed:{',.0f' if speed >= 10 else '.2g'}} images/s  {timedelta(seconds=round(progress.seconds_left))} left"
    )
    print(f"\r{line:<79}" if moving else line, end="" if moving and not epoch else "\n", flush=True)
