"""Where a run is: added up step by step, told to those who watch, and the alarms it should raise."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from .alarms import check_answers, check_finite, check_learning, check_start
from .distributed import rank_and_world, sum_over_processes
from .recipe import Recipe

SECONDS_BETWEEN_REPORTS = 0.5


class Epoch(NamedTuple):
    """What one epoch came to. `loss` is the mean over its images as they were trained on; accuracy is from 0 to 1."""

    number: int
    learning_rate: float
    loss: float
    seconds: float
    validation_loss: float | None = None
    validation_accuracy: float | None = None


class Progress(NamedTuple):
    """Where a run is. `epoch` is the epoch under way or just `finished`; `loss` is the mean since the report before."""

    step: int
    steps: int
    epoch: int
    epochs: int
    loss: float
    images_per_second: float
    seconds_left: float
    finished: Epoch | None = None


Watch = Callable[[Progress], None]


class Meter:
    """A mean over images, and the time it took. The sum stays on its device: to read it is to wait for the device."""

    def __init__(self, device: torch.device):
        self.sum, self.images, self.started = torch.zeros((), device=device), 0, time.perf_counter()

    def add(self, mean: Tensor, images: int) -> None:
        self.sum.add_(mean, alpha=images)
        self.images += images

    def mean(self) -> float:
        return self.sum.item() / max(self.images, 1)

    def seconds(self) -> float:
        return time.perf_counter() - self.started


class Reporter:
    """Adds up a run's steps, tells those who watch about twice a second and after each epoch, and raises alarms."""

    def __init__(self, watch: Iterable[Watch], recipe: Recipe, num_images: int, classes: tuple[str, ...]):
        self.rank, self.world = rank_and_world()
        self.watch = tuple(watch) if self.rank == 0 else ()
        self.recipe, self.num_images, self.classes = recipe, num_images, classes

    def start(self, index: int, device: torch.device) -> None:
        """Before the first step of epoch `index`, counted from 0."""
        self.index, self.step, self.rate = index, 0, 0.0
        self.whole, self.recent = Meter(device), Meter(device)
        self.numbers = torch.arange(len(self.classes), device=device)
        self.answers = torch.zeros_like(self.numbers)

    def add(self, loss: Float[Tensor, ""], logits: Float[Tensor, "b K"], rate: float) -> None:
        """After a step: its mean loss, what the model answered, the learning rate."""
        self.whole.add(loss, len(logits))
        self.recent.add(loss, len(logits))
        self.answers += (logits.argmax(dim=1, keepdim=True) == self.numbers).sum(dim=0)  # bincount would wait for a GPU
        self.step, self.rate = self.step + 1, rate
        if self.index == 0 and self.step == 1:
            check_start(loss.item(), len(self.classes))
        if self.recent.seconds() > SECONDS_BETWEEN_REPORTS:
            check_finite("loss", self.recent.mean(), self.index + 1, rate)
            self.tell()
            self.recent = Meter(loss.device)

    def summary(self) -> Epoch:
        """After the last step: the epoch, over all processes."""
        loss = sum_over_processes(self.whole.sum).item() / self.num_images
        check_finite("loss", loss, self.index + 1, self.rate)
        if self.index == first_epoch_to_judge(self.recipe):
            check_learning(loss, len(self.classes))
            check_answers(sum_over_processes(self.answers).cpu(), self.classes)
        return Epoch(self.index + 1, self.rate, loss, self.whole.seconds())

    def tell(self, finished: Epoch | None = None) -> None:
        """How far the run is, to everyone who watches."""
        steps, epochs = self.recipe.steps_per_epoch(self.num_images), self.recipe.epochs
        done, total = self.index * steps + self.step, epochs * steps
        seconds = finished.seconds if finished else self.whole.seconds()  # to validate is not to train
        speed = self.whole.images * self.world / seconds
        left = (1 - done / total) * epochs * self.num_images / speed
        loss = finished.loss if finished else self.recent.mean()
        progress = Progress(done, total, self.index + 1, epochs, loss, speed, left, finished)
        for told in self.watch:
            told(progress)


def first_epoch_to_judge(recipe: Recipe) -> int | None:
    """The first epoch, from 0, without warm-up; if there is none, the last, unless half of it or more is warm-up."""
    without = math.ceil(recipe.warmup_epochs)
    if without < recipe.epochs:
        return without
    return recipe.epochs - 1 if recipe.warmup_epochs < recipe.epochs - 0.5 else None


def print_progress(progress: Progress) -> None:
    """A `watch` for `fit`: a line that moves, in a terminal; a line for each epoch, everywhere."""
    moving, epoch = sys.stdout.isatty(), progress.finished
    if not (moving or epoch):
        return
    validated = f"  validation {epoch.validation_accuracy:.1%}" if epoch and epoch.validation_loss is not None else ""
    line = (
        f"epoch {progress.epoch}/{progress.epochs}  loss {progress.loss:.3f}{validated}  "
        f"{progress.images_per_second:,.0f} images/s  {clock(progress.seconds_left)} left"
    )
    print(f"\r{line:<79}" if moving else line, end="\n" if epoch else "", flush=True)


def clock(seconds: float) -> str:
    """65 → 1:05, 3700 → 1:01:40."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"
