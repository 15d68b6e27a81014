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
from .distributed import sum_over_processes
from .recipe import Recipe

SECONDS_BETWEEN_REPORTS = 0.5


class TrainingAlarm(UserWarning):
    """Something is probably wrong with a run; the message says what to look at."""


# By default Python shows a warning once for each line of code; a cell that runs again must raise its alarm again.
warnings.filterwarnings("always", category=TrainingAlarm, append=True)


class Epoch(NamedTuple):
    """The result of one epoch. `loss` is the mean over its images as they were trained on; accuracy is from 0 to 1."""

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
    """Count the steps of epoch `index` (from 0), report about twice a second and after the epoch, and raise alarms."""

    def __init__(self, watch: Iterable[Watch], recipe: Recipe, images: ImageSet, index: int, device: torch.device):
        self.watch, self.recipe, self.index, self.num_classes = watch, recipe, index, len(images.classes)
        self.num_images, self.steps = len(images), recipe.steps_per_epoch(len(images))
        self.step = self.step_reported = 0
        self.started = self.reported = time.perf_counter()
        # Sums stay on their device, since reading them waits for it: over images, and over steps since the last report.
        self.loss, self.recent_loss = torch.zeros(2, device=device)

    def add(self, loss: Float[Tensor, ""], batch_size: int, learning_rate: float) -> None:
        """Count a step. Raises FloatingPointError if it is time for a report and the loss is not finite."""
        self.step, self.learning_rate = self.step + 1, learning_rate
        self.loss += loss * batch_size
        self.recent_loss += loss
        if self.index == 0 and self.step == 1:
            judge_first_loss(loss.item(), self.num_classes)
        if time.perf_counter() - self.reported > SECONDS_BETWEEN_REPORTS:
            recent_loss = self.recent_loss.item() / (self.step - self.step_reported)
            require_finite("loss", recent_loss, self.index + 1, learning_rate)
            self.report(recent_loss, time.perf_counter() - self.started)
            self.recent_loss.zero_()
            self.step_reported, self.reported = self.step, time.perf_counter()

    def summary(self) -> Epoch:
        """Return the epoch, counted over all processes, and judge it if it is the first without warm-up.

        In a run of nothing but warm-up the last epoch is judged, unless half of it or more is warm-up.
        """
        loss = sum_over_processes(self.loss).item() / self.num_images
        seconds = time.perf_counter() - self.started  # after `item`, which has waited for the device
        require_finite("loss", loss, self.index + 1, self.learning_rate)
        warmup = self.recipe.warmup_epochs
        if self.index == min(math.ceil(warmup), self.recipe.epochs - 1) and warmup < self.index + 0.5:
            judge_learning(loss, self.num_classes)
        return Epoch(self.index + 1, self.learning_rate, loss, seconds)

    def report(self, loss: float, seconds: float, finished: Epoch | None = None) -> None:
        """Tell all watchers where the run is, so many seconds after the epoch began."""
        epochs, share = self.recipe.epochs, self.step / self.steps
        step, steps = self.index * self.steps + self.step, epochs * self.steps
        seconds_left = seconds / share * (epochs - self.index - share)
        speed = share * self.num_images / seconds
        for tell in self.watch:
            tell(Progress(step, steps, self.index + 1, epochs, loss, speed, seconds_left, finished))


def require_finite(name: str, value: float, epoch: int, learning_rate: float) -> None:
    """Raise FloatingPointError for nan and inf."""
    if not math.isfinite(value):
        raise FloatingPointError(
            f"the {name} is {value} in epoch {epoch}, at a learning rate of {learning_rate:.1e}. Lower the learning "
            "rate, lengthen the warm-up or clip harder; with bf16, try fp32; look for images that are not finite."
        )


def judge_first_loss(loss: float, num_classes: int) -> None:
    """Warn of a model that is sure of wrong answers. (One that was trained before may be right from the start.)"""
    chance = math.log(num_classes)
    if loss > 1.25 * chance:
        alarm(
            f"the first loss is {loss:.2f}, but {num_classes} equally likely classes cost ln {num_classes} = "
            f"{chance:.2f}. Look at the head (too large at the start? trained before?) and at the labels (0 to K-1?)."
        )


def judge_learning(loss: float, num_classes: int) -> None:
    """Warn of a loss as good as a guess."""
    chance = math.log(num_classes)
    if loss > 0.98 * chance:
        alarm(
            f"after warm-up the loss is still {loss:.2f}, and knowing nothing costs ln {num_classes} = {chance:.2f}. "
            "Look at the learning rate (too small, or so large that it broke the model?), at the pixels (all alike "
            "after normalising?), at the head (a softmax inside the model?) and at the labels (do they belong to "
            "these images?)."
        )


def alarm(message: str) -> None:
    """Warn about the line that called `fit`: train_epoch, a Reporter's method and `judge_…` lie in between."""
    warnings.warn(message, TrainingAlarm, stacklevel=6)


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
