"""Watch a run: count what it does, warn when it looks wrong, and tell how far it is."""

from __future__ import annotations

import math
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ..data import ImageSet
from ..model import VisionTransformer
from ..saving import read, write
from .distributed import rank_and_world, sum_over_processes
from .recipe import Recipe

SECONDS_BETWEEN_REPORTS = 0.5
HERE = str(Path(__file__).parent)


class TrainingAlarm(UserWarning):
    """Something is probably wrong with a run; the message says what to look at."""


# By default Python shows a warning once for each line of code; a cell that runs again must raise its alarm again.
warnings.filterwarnings("always", category=TrainingAlarm, append=True)


def alarm(message: str, category: type[Warning] = TrainingAlarm) -> None:
    """Warn on rank 0 only, about the line outside this folder that led here: usually the caller of `fit`."""
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_code.co_filename.startswith(HERE):
        level, frame = level + 1, frame.f_back
    if rank_and_world()[0] == 0:
        warnings.warn(message, category, stacklevel=level)


def require_finite(name: str, value: float, epoch: int, learning_rate: float) -> None:
    """Raise FloatingPointError for nan and inf."""
    if not math.isfinite(value):
        raise FloatingPointError(
            f"the {name} is {value} in epoch {epoch}, at a learning rate of {learning_rate:.1e}. Lower the learning "
            "rate, lengthen the warm-up or clip harder; with bf16, try fp32; look for images that are not finite."
        )


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
            self.judge_first_loss(loss.item())
        now = time.perf_counter()
        if now - self.reported > SECONDS_BETWEEN_REPORTS:
            recent_loss = self.losses[1].item() / (self.images - self.images_reported)
            require_finite("loss", recent_loss, self.index + 1, learning_rate)
            self.report(recent_loss, self.images * rank_and_world()[1] / (now - self.started))
            self.losses[1], self.images_reported, self.reported = 0, self.images, time.perf_counter()

    def judge_first_loss(self, loss: float) -> None:
        K, expected = len(self.classes), math.log(len(self.classes))
        if abs(loss - expected) > 0.25 * expected:
            alarm(
                f"the first loss is {loss:.2f}, but {K} equally likely classes cost ln {K} = {expected:.2f}. "
                "Look at the head (too large at the start? trained before?) and at the labels (0 to K-1?)."
            )

    def summary(self) -> Epoch:
        """Return the epoch, counted over all processes, and judge it if it is the first without warm-up.

        In a run of nothing but warm-up the last epoch is judged, unless half of it or more is warm-up.
        """
        loss = sum_over_processes(self.losses)[0].item() / self.num_images
        seconds = time.perf_counter() - self.started  # after `item`, which has waited for the device
        require_finite("loss", loss, self.index + 1, self.learning_rate)
        warmup = self.recipe.warmup_epochs
        if self.index == min(math.ceil(warmup), self.recipe.epochs - 1) and warmup < self.index + 0.5:
            self.judge_learning(loss)
        return Epoch(self.index + 1, self.learning_rate, loss, seconds)

    def judge_learning(self, loss: float) -> None:
        """Warn of a loss as good as a guess, and of one class for nearly all images."""
        K, answers = len(self.classes), sum_over_processes(self.answers).cpu()
        share = (answers.max() / answers.sum()).item()
        if loss > 0.98 * math.log(K):
            alarm(
                f"after warm-up the loss is still {loss:.2f}, and knowing nothing costs ln {K} = {math.log(K):.2f}. "
                "Look at the learning rate (too small, or so large that it broke the model?), at the pixels (all alike "
                "after normalising?), at the head (a softmax inside the model?) and at the labels (do they belong to "
                "these images?)."
            )
        if share > 0.95:
            alarm(
                f"after warm-up {self.classes[answers.argmax()]!r} is the answer to {share:.0%} of the images. Look at "
                "the learning rate (too large?), at the balance of the classes, and at whether different images give "
                "different features."
            )

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


def save_positions(model: VisionTransformer, path: Path) -> Watch:
    """Return a `watch` for `fit` that saves the position embeddings after up to nine epochs, most of them early ones.

    The file names them by the number of epochs that the model has seen; "0" is the model as it is now. The first epoch
    replaces the file of an earlier run. A file that cannot be read or written costs a warning, not the run.
    """
    untrained = model.embeddings.position().detach().clone()

    def watch(progress: Progress) -> None:
        if progress.finished and progress.epoch in {round(progress.epochs ** (i / 8)) for i in range(9)}:
            try:
                before = read(path)[0] if progress.epoch > 1 and path.is_file() else {"0": untrained}
                write(path, before | {str(progress.epoch): model.embeddings.position()}, {})
            except (ValueError, OSError) as error:
                alarm(f"{error}. The positions of epoch {progress.epoch} are not saved.", UserWarning)

    return watch
