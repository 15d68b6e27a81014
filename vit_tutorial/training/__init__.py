"""One honest training loop: a recipe, batches, an optimizer, counting, alarms, and checkpoints that go on."""

from .alarms import TrainingAlarm
from .evaluation import Score, evaluate
from .loop import fit
from .optimizer import parameter_groups, warmup_cosine
from .presets import PRESETS, Preset
from .progress import Epoch, Progress, print_progress
from .recipe import Recipe
from .resuming import resume, save_checkpoint

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
    "resume",
    "save_checkpoint",
    "warmup_cosine",
]
