"""Make neighbours.csv, for lesson 02: how much of the grid a learned table of positions finds.

The task, the models and the drawings are those of quarters.py. Takes about 10 minutes on one core.
"""

from dataclasses import replace
from functools import partial
from itertools import product

import torch
from common import RECIPE, SEEDS, train, write_table
from torch import Tensor
from vit_tutorial import VisionTransformer
from vit_tutorial.analysis import position_similarity
from vit_tutorial.experiments import model_with_positions, quarters
from vit_tutorial.training import evaluate

SIZES = (0.02, 0.7)
EPOCHS = (2, 8)
PLACES = torch.cartesian_prod(torch.arange(7.0), torch.arange(7.0))
TOUCHING = torch.cdist(PLACES, PLACES, p=torch.inf) == 1


def neighbours_in(table: Tensor, model: VisionTransformer) -> int:
    """Count the rows that are most like one of the eight around them, without the mean row."""
    table = table.clone()
    table[1:] -= table[1:].mean(dim=0)
    alike = position_similarity(model, table).reshape(49, 49).fill_diagonal_(-1)
    return TOUCHING[range(49), alike.argmax(dim=1)].sum().item()


def accuracy(model: VisionTransformer) -> float:
    return evaluate(model, quarters(6400, seed=1)).accuracy


@torch.no_grad()
def lines():
    for size, epochs, seed in product(SIZES, EPOCHS, SEEDS):
        torch.manual_seed(seed)
        start = model_with_positions("learned", size).positions().clone()
        with torch.enable_grad():
            make = partial(model_with_positions, "learned", size)
            model = train(make, replace(RECIPE, epochs=epochs), quarters(8_000), seed)
        end, right = model.positions().clone(), accuracy(model)
        model.embeddings.position.table.copy_(start)
        counts = [neighbours_in(table, model) for table in (start, end, end - start)]
        yield size, epochs, seed, right, accuracy(model), *counts


if __name__ == "__main__":
    columns = ["size", "epochs", "seed", "accuracy", "start put back", "start", "end", "change"]
    write_table("neighbours", columns, lines())
