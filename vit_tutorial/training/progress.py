"""Count what a run does, tell those who watch it, and raise the alarms."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ..data import ImageSet
from .alarms import require_finite, warn_of_first_loss, warn_of_no_learning
from .distributed import rank_and_world, sum_over_processes
from .recipe import Recipe

SECONDS_BETWEEN_REPORTS = 0.5


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
        self.watch, self.recipe, self.index, self.classes = watch, recipe, index, images.classes
        self.num_images, self.steps = len(images), recipe.steps_per_epoch(len(images))
        self.step = self.images = self.images_reported = 0
        self.started = self.reported = time.perf_counter()
        # Sums stay on their device, since reading them waits for it. Losses: of the epoch, and since the last report.
        self.losses = torch.zeros(2, device=device)
        self.labels = torch.arange(len(self.classes), device=device)
        self.answers = torch.zeros_like(self.labels)

    def add(self, loss: Float[Tensor, ""], logits: Float[Tensor, "b K"], learning_rate: float) -> None:
        self.step, self.images, self.learning_rate = self.step + 1, self.images + len(logits), learning_rate
        self.losses += loss * len(logits)
        self.answers += (logits.argmax(dim=1, keepdim=True) == self.labels).sum(dim=0)  # bincount would wait for a GPU
        if self.index == 0 and self.step == 1:
            warn_of_first_loss(loss.item(), len(self.classes))
        now = time.perf_counter()
        if now - self.reported > SECONDS_BETWEEN_REPORTS:
            recent_loss = self.losses[1].item() / (self.images - self.images_reported)
            require_finite("loss", recent_loss, self.index + 1, learning_rate)
            self.report(recent_loss, self.images * rank_and_world()[1] / (now - self.started))
            self.losses[1], self.images_reported, self.reported = 0, self.images, time.perf_counter()

    def summary(self) -> Epoch:
        """Return the epoch, counted over all processes, and judge it if it is the first without warm-up.

        In a run of nothing but warm-up the last epoch is judged, unless half of it or more is warm-up.
        """
        loss = sum_over_processes(self.losses)[0].item() / self.num_images
        seconds = time.perf_counter() - self.started  # after `item`, which has waited for the device
        require_finite("loss", loss, self.index + 1, self.learning_rate)
        warmup = self.recipe.warmup_epochs
        if self.index == min(math.ceil(warmup), self.recipe.epochs - 1) and warmup < self.index + 0.5:
            warn_of_no_learning(loss, sum_over_processes(self.answers).cpu(), self.classes)
        return Epoch(self.index + 1, self.learning_rate, loss, seconds)

    def report(self, loss: float, speed: float, finished: Epoch | None = None) -> None:
        epochs, done = self.recipe.epochs, self.index * self.steps + self.step
        seconds_left = (epochs - done / self.steps) * self.num_images / speed
        if rank_and_world()[0] == 0:
            for tell in self.watch:
                tell(Progress(done, epochs * self.steps, self.index + 1, epochs, loss, speed, seconds_left, finished))


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
