"""Comparisons over several seeds, and the tables that the notebooks read."""

from .rows import EXPERIMENTS, FINE_TUNING, Row, run
from .tables import SEEDS, load_block_runs, load_head_costs, load_results

__all__ = ["EXPERIMENTS", "FINE_TUNING", "SEEDS", "Row", "load_block_runs", "load_head_costs", "load_results", "run"]
