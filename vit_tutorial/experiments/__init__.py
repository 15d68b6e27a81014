"""Comparisons over several seeds, and the tables that the notebooks read."""

from .planted_bugs import BUGS, bug_table, plant
from .rows import EXPERIMENTS, FINE_TUNING, Row, run
from .tables import SEEDS, load_head_costs, load_results

__all__ = [
    "BUGS", "EXPERIMENTS", "FINE_TUNING", "SEEDS", "Row",
    "bug_table", "load_head_costs", "load_results", "plant", "run",
]  # fmt: skip
