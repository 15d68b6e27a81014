"""What the lessons try out: stored tables over three seeds, planted bugs, and models moved to another size."""

from .blocks import try_stack
from .planted_bugs import BUGS, bug_table, plant
from .quarter_task import quarters
from .secret_mistakes import MISTAKES, Suspect, sabotage, sabotaged
from .size_causes import draw_scenes, kinds_of_patches, right_if, times_as_in
from .sizes import move, tune
from .tables import (
    load_block_runs,
    load_courses,
    load_mask_scores,
    load_mirror_runs,
    load_results,
    load_size_causes,
    load_size_runs,
)

__all__ = [
    "BUGS",
    "MISTAKES",
    "Suspect",
    "bug_table",
    "draw_scenes",
    "kinds_of_patches",
    "load_block_runs",
    "load_courses",
    "load_mask_scores",
    "load_mirror_runs",
    "load_results",
    "load_size_causes",
    "load_size_runs",
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
