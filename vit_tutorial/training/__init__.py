"""One honest training loop: a recipe, batches, an optimizer, progress, alarms, and runs that can be resumed."""

from .evaluation import Score, evaluate
from .loop import fit
from .optimizer import parameter_groups, warmup_cosine
from .progress import Epoch, Progress, TrainingAlarm, print_progress
from .recipe import FINE_TUNING, PRESETS, Recipe

__all__ = [
    "FINE_TUNING",
    "PRESETS",
    "Epoch",
    "Progress",
    "Recipe",
    "Score",
    "TrainingAlarm",
    "evaluate",
    "fit",
    "parameter_groups",
    "print_progress",
    "warmup_cosine",
]
