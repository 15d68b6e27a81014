"""One honest training loop: a recipe, batches, an optimizer, progress, alarms, and runs that can be resumed."""

from .evaluation import Score, evaluate
from .loop import fit
from .progress import Epoch, Progress, TrainingAlarm, print_progress
from .recipe import FINE_TUNING, HEAD_ALONE, PRESETS, Recipe, parameter_groups, warmup_cosine
