"""Watch a run: warn when it looks wrong, and tell how far it is."""

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

SECONDS_BETWEEN_REPORTS = 5


class TrainingAlarm(UserWarning):
    """Something is probably wrong with a run; the message says what to look at."""


class Epoch(NamedTuple):
    """The result of one epoch: `loss` is the mean over the batches as they were trained on, in this process."""

    number: int
    learning_rate: float
    loss: float
    seconds: float


class Progress(NamedTuple):
    """Where a run is. `epoch` is the current or just `finished` epoch, and `loss` its mean so far."""

    epoch: int
    epochs: int
    loss: float
    images_per_second: float
    seconds_left: float
    finished: Epoch | None = None


Watch = Callable[[Progress], None]


class Reporter:
    """Follow epoch `index` (from 0): tell watchers about it every five seconds and at its end, and raise alarms."""

    def __init__(self, watch: Iterable[Watch], recipe: Recipe, images: ImageSet, index: int):
        self.watch, self.recipe, self.images, self.index = watch, recipe, images, index
        self.steps = recipe.steps_per_epoch(len(images))
        self.losses: list[Tensor] = []  # of the batches; they stay on their device, since reading them waits for it
        self.started = self.told = time.perf_counter()

    def add(self, loss: Float[Tensor, ""]) -> None:
        """Count a batch, and tell watchers if it is time. Warn if the first of the run costs far more than ln K."""
        self.losses.append(loss)
        K = len(self.images.classes)
        # A loss far below is no alarm: a model that was trained before may be right from the start.
        if self.index == 0 and len(self.losses) == 1 and loss.item() > 1.25 * math.log(K):
            raise_alarm(
                f"the first loss is {loss.item():.2f}, but {K} equally likely classes cost ln {K} = {math.log(K):.2f}. "
                "Look at the head (too large at the start? trained before?) and at the labels (0 to K-1?)."
            )
        if time.perf_counter() - self.told > SECONDS_BETWEEN_REPORTS:
            self.tell(self.so_far())

    def so_far(self) -> Epoch:
        rate = self.recipe.learning_rate_at(self.index * self.steps + len(self.losses) - 1, self.steps)
        return Epoch(self.index + 1, rate, mean(self.losses), time.perf_counter() - self.started)

    def warn_if_nothing_is_learned(self) -> None:
        """After an epoch, warn if the loss of its second half is no better than guessing by how often each class comes.

        Only one epoch of a run is judged: the first whose second half lies after warm-up, or else the last.
        """
        if self.steps == 1 or self.index != min(math.ceil(self.recipe.warmup_epochs - 0.5), self.recipe.epochs - 1):
            return
        loss = mean(self.losses[self.steps // 2 :])
        K, smoothing = len(self.images.classes), self.recipe.label_smoothing
        shares = self.images.labels.bincount(minlength=K) / len(self.images)
        guess = torch.special.entr((1 - smoothing) * shares + smoothing / K).sum().item()  # 0 if all labels are one
        if loss > 0.98 * guess > 0:
            raise_alarm(
                f"after warm-up the loss is still {loss:.2f}, and knowing nothing but how often each class comes costs "
                f"{guess:.2f}. Look at the learning rate (too small, or so large that it broke the model?), at the "
                "pixels (all alike after normalising?), at the head (a softmax inside the model?) and at the labels "
                "(do they belong to these images?)."
            )

    def tell(self, epoch: Epoch, finished: bool = False) -> None:
        epochs, share = self.recipe.epochs, len(self.losses) / self.steps
        speed = share * len(self.images) / epoch.seconds
        seconds_left = epoch.seconds / share * (epochs - self.index - share)
        for watch in self.watch:
            watch(Progress(epoch.number, epochs, epoch.loss, speed, seconds_left, epoch if finished else None))
        self.told = time.perf_counter()


def mean(losses: list[Tensor]) -> float:
    return torch.stack(losses).mean().item()


def require_finite(epoch: Epoch, norm: float) -> None:
    """Raise FloatingPointError if the epoch's loss, or the norm of the weights after it, is nan or infinite."""
    if not math.isfinite(epoch.loss) or not math.isfinite(norm):
        raise FloatingPointError(
            f"in epoch {epoch.number} the loss is {epoch.loss} and the norm of all weights {norm}, at a learning rate "
            f"of {epoch.learning_rate:.1e}. Lower the learning rate, lengthen the warm-up or clip harder; with bf16, "
            "try fp32; look for images that are not finite."
        )


def raise_alarm(message: str) -> None:
    """Warn at the line that called `fit`, three calls up; again if the same cell runs again."""
    warnings.filterwarnings("always", category=TrainingAlarm, append=True)  # Python's default is once for each line
    warnings.warn(message, TrainingAlarm, stacklevel=4)


def print_progress(progress: Progress) -> None:
    """Print a line, which in a terminal is replaced until the epoch is over. For `fit(…, watch=[print_progress])`."""
    rate = progress.images_per_second
    speed = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
    left = timedelta(seconds=round(progress.seconds_left))
    line = f"epoch {progress.epoch}/{progress.epochs}  loss {progress.loss:.3f}  {speed} images/s  {left} left"
    replaced = sys.stdout.isatty() and not progress.finished
    print(f"{line:<79}", end="\r" if replaced else "\n", flush=True)
