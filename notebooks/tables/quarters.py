"""Make quarters.csv, for lesson 02: a task that needs positions, and tables of all sizes.

The drawings are those of lesson 06. The label is the quarter in which the object's centre lies.
Takes about 30 minutes on one core.
"""

from collections.abc import Callable
from functools import partial

from common import RECIPE, SEEDS, train, write_table
from torch import nn
from vit_tutorial.experiments import model_with_positions, quarters
from vit_tutorial.training import evaluate

SIZES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7)
KINDS = ("grid", "shuffled", "learned")


def measure(make: Callable[[], nn.Module], seed: int) -> float:
    """Train on 8,000 drawings, each shown twice, and return the accuracy on 6,400 others."""
    model = train(make, RECIPE, quarters(8_000), seed)
    return evaluate(model, quarters(6400, seed=1)).accuracy


if __name__ == "__main__":
    rows = {
        (kind, size): partial(model_with_positions, kind, size) for size in SIZES for kind in KINDS
    }
    lines = ((*row, seed, measure(make, seed)) for seed in SEEDS for row, make in rows.items())
    columns = ["positions", "size", "seed", "accuracy"]
    write_table("quarters", columns, lines)
