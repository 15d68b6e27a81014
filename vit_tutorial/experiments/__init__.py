"""Comparisons over several seeds, and the tables that the notebooks read."""

from .adapted import NewSize, NewTask
from .from_scratch import Setting
from .tables import EXPERIMENTS, SEEDS, load_results, main, run

__all__ = ["EXPERIMENTS", "SEEDS", "NewSize", "NewTask", "Setting", "load_results", "main", "run"]
