"""Warn when a run looks wrong; stop it when nothing good can follow."""

from __future__ import annotations

import math
import sys
import warnings
from pathlib import Path

from jaxtyping import Int64
from torch import Tensor

from .distributed import rank_and_world

HERE = str(Path(__file__).parent)


class TrainingAlarm(UserWarning):
    """Something is probably wrong with a run; the message says what to look at."""


# By default Python shows a warning once for each line of code; a cell that runs again must raise its alarm again.
warnings.filterwarnings("always", category=TrainingAlarm, append=True)


def warn_of_first_loss(loss: float, num_classes: int) -> None:
    expected = math.log(num_classes)
    if abs(loss - expected) > 0.25 * expected:
        alarm(
            f"the first loss is {loss:.2f}, but {num_classes} equally likely classes cost ln {num_classes} = "
            f"{expected:.2f}. Look at the head (too large at the start? trained before?) and at the labels (0 to K-1?)."
        )


def warn_of_no_learning(loss: float, answers: Int64[Tensor, " K"], classes: tuple[str, ...]) -> None:
    """Warn of a loss as good as a guess, and of one class for nearly all images. `answers` counts them by class."""
    K, share = len(classes), (answers.max() / answers.sum()).item()
    if loss > 0.98 * math.log(K):
        alarm(
            f"after warm-up the loss is still {loss:.2f}, and knowing nothing costs ln {K} = {math.log(K):.2f}. "
            "Look at the learning rate (too small, or so large that it broke the model?), at the pixels (all alike "
            "after normalising?), at the head (a softmax inside the model?) and at the labels (do they belong to "
            "these images?)."
        )
    if share > 0.95:
        alarm(
            f"after warm-up {classes[answers.argmax()]!r} is the answer to {share:.0%} of the images. Look at the "
            "learning rate (too large?), at the balance of the classes, and at whether different images give "
            "different features."
        )


def require_finite(name: str, value: float, epoch: int, learning_rate: float) -> None:
    """Raise FloatingPointError for nan and inf."""
    if not math.isfinite(value):
        raise FloatingPointError(
            f"the {name} is {value} in epoch {epoch}, at a learning rate of {learning_rate:.1e}. Lower the learning "
            "rate, lengthen the warm-up or clip harder; with bf16, try fp32; look for images that are not finite."
        )


def alarm(message: str, category: type[Warning] = TrainingAlarm) -> None:
    """Warn on rank 0 only, about the line outside this folder that led here: usually the caller of `fit`."""
    level, frame = 1, sys._getframe()
    while frame.f_back and frame.f_code.co_filename.startswith(HERE):
        level, frame = level + 1, frame.f_back
    if rank_and_world()[0] == 0:
        warnings.warn(message, category, stacklevel=level)
