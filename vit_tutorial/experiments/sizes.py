"""Move a trained model to another size. Which positions does it need there, and what does a short fine-tune repair?"""

from __future__ import annotations

import warnings
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from itertools import product
from typing import NamedTuple

import torch
from torch import nn

from ..adapting import change_resolution
from ..analysis.heads import right_answers
from ..config import Size
from ..data import Shapes
from ..model import VisionTransformer
from ..pretrained import load_checkpoint
from ..training import TrainingAlarm, fit
from .rows import FINE_TUNING, OWN_SCENES, train_model, train_with

SIZES = {"44×44": 44, "28×44": (28, 44), "20×20": 20, "28×28": 28}
WAYS = ("interpolated", "in old order", "at random", "zero", "without positions")
# What is trained, and the learning rate, chosen at 44×44 on scenes of other seeds. Of those tried it is the best, or
# nearly so, for all ways, except that everything after the old order does two points better with 1e-3. For norms only
# one was tried.
RATES = {
    "nothing": None,
    "one vector": 3e-2,  # which all patches share: the control for positions
    "positions": 3e-2,
    "norms": 1e-2,
    "everything": FINE_TUNING.learning_rate,
}


class SizeRun(NamedTuple):
    """Count test scenes: all, those that the model gets right, and how its answers differ from another model's.

    The other one has interpolated positions, and the same size, seed and training. `gained` are scenes that only this
    model gets right, `lost` those that only the other one does.
    """

    scenes: int
    right: int
    gained: int
    lost: int

    @property
    def accuracy(self) -> float:
        return self.right / self.scenes

    @property
    def lead(self) -> float:
        """By how much the accuracy is above that of the other one, from -1 to 1."""
        return (self.gained - self.lost) / self.scenes

    @property
    def spread(self) -> float:
        """Half the width of the lead's 95 % interval. The scenes are the same ones, so only those that differ count."""
        return 1.96 * (((self.gained + self.lost) / self.scenes - self.lead**2) / self.scenes) ** 0.5


@cache
def model_at_28(position: str, seed: int) -> VisionTransformer:
    """Train on 28×28 as in lesson 06, with "learned" positions or "none". The shipped model is the first, of seed 0."""
    shipped = (position, seed) == ("learned", 0)
    return load_checkpoint("shapes") if shipped else train_model(train_with(position=position), seed)


def move(way: str, size: Size, seed: int) -> VisionTransformer:
    """Return the model of a seed at another size, before any training there. `way` is one of WAYS.

    Positions "in old order" are repeated where there are too few, and cut off where there are too many; those
    "at random" are as large as the learned ones; "zero" are none. The class token keeps its own.
    """
    with torch.random.fork_rng(devices=[]):
        model = model_at_28("none" if way == "without positions" else "learned", seed)
        torch.manual_seed(seed)  # of positions at random
        moved = change_resolution(model, size)
        new, old = (each.embeddings.position.table.data[1:] for each in (moved, model))  # (M, D) and (N, D)
        if way == "in old order":
            new.copy_(old[torch.arange(len(new)) % len(old)])
        elif way == "at random":
            new.normal_(std=old.std().item())
        elif way == "zero":
            new.zero_()
        return moved


def part(model: VisionTransformer, trained: str) -> list[nn.Parameter]:
    """Return the parameters that are trained; all others are frozen."""
    match trained:
        case "one vector":
            return [model.embeddings.patches.projection.bias]
        case "positions":
            return [model.embeddings.position.table]
        case "norms":
            return [p for layer in model.modules() if isinstance(layer, nn.LayerNorm) for p in layer.parameters()]
    return list(model.parameters())


def tune(model: VisionTransformer, trained: str, seed: int, scenes: int = 1600) -> None:
    """Train a part of the model, one of RATES, on scenes of its size, each shown once.

    Of the positions only those of patches move, and not the class token's.
    """
    recipe = replace(FINE_TUNING, learning_rate=RATES[trained], seed=seed)
    images = Shapes(scenes, model.config.image_size, OWN_SCENES + seed)
    model.requires_grad_(False)
    with warnings.catch_warnings(), ExitStack() as afterwards:
        warnings.simplefilter("ignore", TrainingAlarm)  # the head was trained before
        for parameter in part(model, trained):
            parameter.requires_grad_(True)
            if trained == "positions":
                hook = parameter.register_hook(lambda gradient: gradient.index_fill(0, torch.tensor([0]), 0))
                afterwards.callback(hook.remove)
        fit(model, images, recipe)
    model.requires_grad_(True)


def measure_size(name: str, seed: int, scenes: int = 1600, test_scenes: int = 3200) -> dict[tuple[str, str], SizeRun]:
    """Return {(way, what was trained): its run} for all of WAYS and RATES at one of SIZES, on the same scenes.

    Left out is what cannot be (without positions there are none to train, and at 28×28 there are none to fill in) and,
    after a table that was filled in anyhow, one vector and norms. Raises KeyError for an unknown size.
    """
    size, runs = SIZES[name], {}
    test = Shapes(test_scenes, size, seed=1)
    for trained, way in product(RATES, WAYS):
        filled_in = way in WAYS[1:4]
        if (trained, way) == ("positions", "without positions"):
            continue
        if filled_in and (name == "28×28" or trained in ("one vector", "norms")):
            continue
        model = move(way, size, seed)
        if trained != "nothing":
            tune(model, trained, seed, scenes)
        right = right_answers(model, test)
        if way == "interpolated":
            base = right
        counts = (right, right & ~base, base & ~right)
        runs[way, trained] = SizeRun(test_scenes, *(int(count.sum()) for count in counts))
    return runs
