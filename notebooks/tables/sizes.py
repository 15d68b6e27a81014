"""Make sizes.csv, for lesson 08: another size, with positions of all kinds, tuned there or not.

Takes about 25 minutes on two cores.
"""

from itertools import product

import torch
from common import SEEDS, right_answers, trained_at_home, write_table
from torch import Tensor
from vit_tutorial import Shapes, VisionTransformer
from vit_tutorial.experiments import move, tune
from vit_tutorial.experiments.sizes import MOVES, PARTS

SIZES = {"44×44": 44, "20×20": 20, "28×28": 28}  # pixels
WAYS = (*MOVES, "without positions")  # the last is another model, which was trained without any
REPLACED = ("in old order", "at random", "zero")


def is_measured(size: str, way: str, trained: str) -> bool:
    """Tell what is in the table.

    A model without positions has none to train. At 28×28 positions are not replaced, because the
    old ones fit; where they are, only they or everything is trained.
    """
    if way == "without positions":
        return trained != "positions"
    if way in REPLACED:
        return size != "28×28" and trained in ("nothing", "positions", "everything")
    return True


def tune_part(model: VisionTransformer, trained: str, seed: int) -> None:
    """Train a part of the model, or nothing.

    The class token keeps its own position, unless everything is trained.
    """
    if trained == "positions":
        with model.embeddings.position.table.register_hook(skip_class_token):
            tune(model, trained, seed)
    elif trained != "nothing":
        tune(model, trained, seed)


def skip_class_token(gradient: Tensor) -> Tensor:
    """Return the gradient of a table of positions with zeros for the class token, the first row."""
    return gradient.index_fill(0, torch.tensor([0]), 0)


def measure(size: str, seed: int) -> dict[tuple[str, str], tuple[int, int]]:
    """Return {(way, what was trained): (scenes, right)}, of the same scenes for all."""
    runs, test = {}, Shapes(3200, SIZES[size], seed=1)
    for trained, way in product(("nothing", *PARTS), WAYS):
        if not is_measured(size, way, trained):
            continue
        if way == "without positions":
            model = move("interpolated", SIZES[size], seed, trained_at_home("none", seed))
        else:
            model = move(way, SIZES[size], seed, trained_at_home("learned", seed))
        tune_part(model, trained, seed)
        runs[way, trained] = len(test), right_answers(model, test).sum().item()
    return runs


if __name__ == "__main__":
    lines = (
        (size, seed, *way_and_part, *run)
        for seed in SEEDS
        for size in SIZES
        for way_and_part, run in measure(size, seed).items()
    )
    write_table("sizes", ["size", "seed", "way", "trained", "scenes", "right"], lines)
