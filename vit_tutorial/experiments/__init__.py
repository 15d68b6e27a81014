"""Comparisons over several seeds, the tables that the notebooks read, and bugs planted into a model."""

from .blocks import measure_block
from .mirror import load_mirror_runs
from .planted_bugs import BUGS, bug_table, plant
from .rows import EXPERIMENTS, FINE_TUNING, Row, run
from .sizes import SIZES, WAYS, measure_size, move, tune
from .tables import SEEDS, load_block_runs, load_courses, load_head_costs, load_results, load_size_runs

__all__ = [
    "BUGS", "EXPERIMENTS", "FINE_TUNING", "SEEDS", "SIZES", "WAYS", "Row",
    "bug_table", "load_block_runs", "load_courses", "load_head_costs", "load_mirror_runs", "load_results",
    "load_size_runs", "measure_block", "measure_size", "move", "plant", "run", "tune",
]  # fmt: skip
