"""What the lessons try out: stored tables over three seeds, planted bugs, and models moved to another size."""

from .blocks import try_stack
from .planted_bugs import BUGS, BrokenModel, bug_table, draw_bug, plant
from .quarter_task import quarters
from .secret_mistakes import MISTAKES, Suspect, sabotage, sabotaged
from .short_run import short_run
from .sizes import move, tune
from .suspects import answers, kinds_of_patches, weighted_attention
from .tables import (
    load_block_runs,
    load_causes,
    load_courses,
    load_mask_scores,
    load_mirror_runs,
    load_results,
    load_size_runs,
    load_trials,
)

__all__ = [
    "BUGS",
    "MISTAKES",
    "BrokenModel",
    "Suspect",
    "answers",
    "bug_table",
    "draw_bug",
    "kinds_of_patches",
    "load_block_runs",
    "load_causes",
    "load_courses",
    "load_mask_scores",
    "load_mirror_runs",
    "load_results",
    "load_size_runs",
    "load_trials",
    "move",
    "plant",
    "quarters",
    "sabotage",
    "sabotaged",
    "short_run",
    "try_stack",
    "tune",
    "weighted_attention",
]
