"""Make quarters.csv, for lesson 02: a task that needs positions, and tables of all sizes.

The drawings are those of lesson 06. The label is the quarter in which the object's centre lies.
Takes about 40 minutes on one core.
"""

from collections.abc import Callable
from functools import partial

import torch
from common import RECIPE, SEEDS, train, write_table
from torch import nn
from vit_tutorial.experiments import model_with_positions, quarters
from vit_tutorial.training import evaluate

SIZES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7)
KINDS = ("grid", "shuffled", "learned")
# The grid again, with tokens that are so many times as large, and stay so: (tokens, size)
TOKENS = ((1.0, 0.03), (0.1, 0.03), (1.0, 0.5), (10.0, 0.5), (10.0, 5.0))


@torch.no_grad()
def grid_beside_tokens(tokens: float, size: float) -> nn.Module:
    """Build the model with a grid; its projection has so many times its weights, and is frozen."""
    model = model_with_positions("grid", size)
    projection = model.embeddings.patches.projection.requires_grad_(False)
    for parameter in projection.parameters():
        parameter *= tokens
    return model


def measure(make: Callable[[], nn.Module], seed: int) -> float:
    """Train on 8,000 drawings, each shown twice, and return the accuracy on 6,400 others."""
    model = train(make, RECIPE, quarters(8_000), seed)
    return evaluate(model, quarters(6400, seed=1)).accuracy


if __name__ == "__main__":
    rows = {
        (kind, size): partial(model_with_positions, kind, size) for size in SIZES for kind in KINDS
    }
    rows |= {(f"tokens x {t:g}", size): partial(grid_beside_tokens, t, size) for t, size in TOKENS}
    lines = ((*row, seed, measure(make, seed)) for seed in SEEDS for row, make in rows.items())
    columns = ["positions", "size", "seed", "accuracy"]
    write_table("quarters", columns, lines)
