"""What the lessons try out: stored tables over three seeds, planted bugs, and models moved to another size."""

from .blocks import try_stack
from .planted_bugs import BUGS, BrokenModel, bug_table, draw_bug, plant
from .quarter_task import quarters
from .secret_mistakes import MISTAKES, Suspect, sabotage, sabotaged
from .sizes import move, tune
from .suspects import draw_scenes, kinds_of_patches, right_if, times_as_in
from .tables import (
    load_block_runs,
    load_courses,
    load_mask_scores,
    load_mirror_runs,
    load_results,
    load_size_runs,
    load_suspects,
)

__all__ = [
    "BUGS",
    "MISTAKES",
    "BrokenModel",
    "Suspect",
    "bug_table",
    "draw_bug",
    "draw_scenes",
    "kinds_of_patches",
    "load_block_runs",
    "load_courses",
    "load_mask_scores",
    "load_mirror_runs",
    "load_results",
    "load_size_runs",
    "load_suspects",
    "move",
    "plant",
    "quarters",
    "right_if",
    "sabotage",
    "sabotaged",
    "times_as_in",
    "try_stack",
    "tune",
]
