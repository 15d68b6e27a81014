"""One honest training loop: a recipe, batches, an optimizer, progress, alarms, and runs that can be resumed."""

from .alarms import TrainingAlarm
from .evaluation import Score, evaluate
from .loop import fit
from .optimizer import parameter_groups, warmup_cosine
from .presets import PRESETS, Preset
from .progress import Epoch, Progress, print_progress
from .recipe import Recipe

__all__ = [
    "PRESETS",
    "Epoch",
    "Preset",
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
