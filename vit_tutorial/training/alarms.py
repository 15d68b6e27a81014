"""What should make you stop and look, told as warnings; and what must stop you, as an error."""

from __future__ import annotations

import math
import warnings

from jaxtyping import Float, Int64
from torch import Tensor

from .distributed import rank_and_world


class TrainingAlarm(UserWarning):
    """Something is probably wrong with a run, and what to look at."""


# Python tells a warning once for each line of code; a cell that is run again must raise its alarm again.
warnings.filterwarnings("always", category=TrainingAlarm, append=True)


def check_start(loss: float, num_classes: int) -> None:
    """Before any step a model knows nothing: its loss is ln K, give or take. Anything else is a mistake in wiring."""
    expected = math.log(num_classes)
    if abs(loss - expected) > 0.25 * expected:
        alarm(
            f"the first loss is {loss:.2f}, but {num_classes} equally likely classes cost ln {num_classes} = "
            f"{expected:.2f}. Look at the head (too large at the start? trained before?) and at the labels "
            "(0 to K-1?)."
        )


def check_learning(loss: float, num_classes: int) -> None:
    """After warm-up the loss must have left ln K."""
    expected = math.log(num_classes)
    if loss > 0.98 * expected:
        alarm(
            f"after warm-up the loss is still {loss:.2f}, and knowing nothing costs ln {num_classes} = {expected:.2f}. "
            "Look at the learning rate (too small, or so large that it broke the model?), at the pixels (all alike "
            "after normalising?), at the head (a softmax inside the model?) and at the labels (do they belong to "
            "these images?)."
        )


def check_answers(answers: Int64[Tensor, " K"], classes: tuple[str, ...]) -> None:
    """A model that gives one answer to everything has learned nothing about images. `answers` counts them by class."""
    share = (answers.max() / answers.sum()).item()
    if share > 0.95:
        alarm(
            f"after warm-up {classes[answers.argmax()]!r} is the answer to {share:.0%} of the images. Look at the "
            "learning rate (too large?), at the balance of the classes, and at whether different images give "
            "different features."
        )


def check_width(logits: Float[Tensor, "B K"], num_classes: int) -> None:
    """Raises ValueError unless each class has its logit: counted with a wrong K, wrong answers would look right."""
    if logits.shape[1] != num_classes:
        raise ValueError(f"the model gives {logits.shape[1]} logits, but the images have {num_classes} classes")


def check_finite(name: str, value: float, epoch: int, learning_rate: float) -> None:
    """Raises FloatingPointError for a value that is not a number any more: nothing good can follow."""
    if not math.isfinite(value):
        raise FloatingPointError(
            f"the {name} is {value} in epoch {epoch}, at a learning rate of {learning_rate:.1e}. Lower the learning "
            "rate, lengthen the warm-up or clip harder; with bf16, try fp32; look for images that are not finite."
        )


def alarm(message: str, calls: int = 6) -> None:
    """Tell it once, of several processes; as a warning about the line that called `fit`, so many calls up."""
    if rank_and_world()[0] == 0:
        warnings.warn(message, TrainingAlarm, stacklevel=calls)
