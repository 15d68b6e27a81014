"""Comparisons over several seeds, the tables that the notebooks read, and bugs planted into a model."""

from .blocks import measure_block
from .mirror import load_mirror_runs
from .planted_bugs import BUGS, bug_table, plant
from .rows import EXPERIMENTS, FINE_TUNING, Row, run
from .sizes import measure_size, move, tune
from .suspects import draw_scenes, kinds_of_patches, right_if, times_as_in
from .tables import SEEDS, load_block_runs, load_courses, load_head_costs, load_results, load_size_runs, load_suspects

__all__ = [
    "BUGS", "EXPERIMENTS", "FINE_TUNING", "SEEDS", "Row",
    "bug_table", "draw_scenes", "kinds_of_patches", "load_block_runs", "load_courses", "load_head_costs",
    "load_mirror_runs", "load_results", "load_size_runs", "load_suspects", "measure_block", "measure_size", "move",
    "plant", "right_if", "run", "times_as_in", "tune",
]  # fmt: skip
