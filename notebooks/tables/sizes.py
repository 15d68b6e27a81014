"""Make sizes.csv, for lesson 08: another size, with positions of all kinds, tuned there or not.

Takes about 25 minutes on two cores.
"""

from contextlib import ExitStack
from itertools import product

import torch
from common import SEEDS, right_answers, trained_at_home, write_table
from torch import Tensor
from vit_tutorial import Shapes, VisionTransformer, change_resolution
from vit_tutorial.experiments import tune

SIZES = {"44×44": 44, "20×20": 20, "28×28": 28}  # pixels
REPLACED = ("in old order", "at random", "zero")
# The last is another model, which was trained without any.
WAYS = ("interpolated", *REPLACED, "without positions")
# For each part of the model that is trained, what its parameters have in their names, and the
# learning rate. Several were tried at 44×44 on scenes of other seeds (for the norms only this one),
# and this is the best, or nearly so, for all ways, with one exception: "everything" after "in old
# order" does two points better with 1e-3.
PARTS = {
    "head": ("head.", 1e-2),
    "one vector": ("patches.projection.bias", 3e-2),  # the same for all patches: the control
    "positions": ("position.table", 3e-2),
    "norms": ("norm", 1e-2),
    "everything": ("", 3e-4),
}


@torch.random.fork_rng(devices=[])
def move(way: str, size: int, seed: int, old: VisionTransformer) -> VisionTransformer:
    """Return a copy of a model for scenes of another size, not trained there.

    `way` says what becomes of its positions. "interpolated" resizes them like a picture. "in old
    order" takes them one after another, and starts again with the first if they are too few. "at
    random" replaces them by random ones, chosen by the seed and as large as the learned ones on
    average, and "zero" by zeros. The class token always keeps its own.
    """
    new = change_resolution(old, size)
    if way == "interpolated":
        return new
    before, after = (each.embeddings.position.table.data[1:] for each in (old, new))  # (N, D)
    match way:
        case "in old order":
            after.copy_(before[torch.arange(len(after)) % len(before)])
        case "at random":
            torch.manual_seed(seed)
            VisionTransformer(new.config)  # draws first, as it did when the tables were made
            after.normal_(std=before.std().item())
        case "zero":
            after.zero_()
    return new


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
    if trained == "nothing":
        return
    name, rate = PARTS[trained]
    with ExitStack() as hooks:
        if trained == "positions":
            table = model.embeddings.position.table
            hooks.enter_context(table.register_hook(skip_class_token))
        tune(model, name, seed, rate)


def skip_class_token(gradient: Tensor) -> Tensor:
    """Return the gradient of a table of positions with zeros for the class token, the first row."""
    return gradient.index_fill(0, torch.tensor([0]), 0)


def measure(size: str, seed: int) -> dict[tuple[str, str], tuple[int, int]]:
    """Return {(way, what was trained): (scenes, wrong answers)}, of the same scenes for all."""
    runs, test = {}, Shapes(3200, SIZES[size], seed=1)
    for trained, way in product(("nothing", *PARTS), WAYS):
        if not is_measured(size, way, trained):
            continue
        if way == "without positions":
            model = move("interpolated", SIZES[size], seed, trained_at_home("none", seed))
        else:
            model = move(way, SIZES[size], seed, trained_at_home("learned", seed))
        tune_part(model, trained, seed)
        runs[way, trained] = len(test), (~right_answers(model, test)).sum().item()
    return runs


if __name__ == "__main__":
    lines = (
        (size, seed, *way_and_part, *run)
        for seed in SEEDS
        for size in SIZES
        for way_and_part, run in measure(size, seed).items()
    )
    write_table("sizes", ["size", "seed", "way", "trained", "scenes", "wrong"], lines)
