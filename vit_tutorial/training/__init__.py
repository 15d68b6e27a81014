"""One honest training loop: a recipe, batches, an optimizer, counting, alarms, and checkpoints that go on."""

from .alarms import TrainingAlarm
from .checkpoints import resume, save_checkpoint
from .evaluating import Score, evaluate
from .loop import fit
from .optimizer import parameter_groups, warmup_cosine
from .progress import Epoch, Progress, print_progress
from .recipe import Recipe

__all__ = [
    "Epoch",
    "Progress",
    "Recipe",
    "Score",
    "TrainingAlarm",
    "evaluate",
    "fit",
    "parameter_groups",
    "print_progress",
    "resume",
    "save_checkpoint",
    "warmup_cosine",
]
