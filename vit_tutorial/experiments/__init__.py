"""Comparisons over several seeds, and the tables that the notebooks read."""

from .from_scratch import Setting
from .moving import NewSize, NewTask
from .tables import EXPERIMENTS, SEEDS, load_results, main, run

__all__ = ["EXPERIMENTS", "SEEDS", "NewSize", "NewTask", "Setting", "load_results", "main", "run"]
