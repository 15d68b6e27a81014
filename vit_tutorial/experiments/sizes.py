"""Move a trained model to another size. Which positions does it need there, and what does a short fine-tune repair?"""

from __future__ import annotations

import warnings
from contextlib import ExitStack
from dataclasses import replace
from functools import cache
from itertools import product
from typing import NamedTuple

import torch

from ..analysis.heads import right_answers
from ..config import Size
from ..data import Shapes
from ..model import VisionTransformer
from ..pretrained import load_checkpoint
from ..training import TrainingAlarm, fit
from .rows import CONFIG, FINE_TUNING, OWN_SCENES, resized, train_model, train_with

SIZES = {"44×44": 44, "28×44": (28, 44), "20×20": 20, "28×28": 28}
WAYS = ("interpolated", "in old order", "at random", "zero", "without positions")
# What is trained, and the learning rate, chosen at 44×44 with seeds of other scenes: the best or nearly the best for
# all ways, except that everything after the old order gains two points more with 1e-3.
RATES = {"nothing": None, "positions": 3e-2, "everything": FINE_TUNING.learning_rate}


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
    """Return the model of a seed at another size, before any training there. `way` is one of WAYS."""
    position, way = ("none", "interpolated") if way == "without positions" else ("learned", way)
    with torch.random.fork_rng(devices=[]):
        model = model_at_28(position, seed)
        torch.manual_seed(seed)  # of positions at random
        return resized(replace(CONFIG, image_size=size), way, model)


def tune(model: VisionTransformer, trained: str, seed: int, scenes: int = 1600) -> None:
    """Train "everything", or the "positions" of the patches alone, on scenes of the model's size, each shown once."""
    recipe = replace(FINE_TUNING, learning_rate=RATES[trained], seed=seed)
    images = Shapes(scenes, model.config.image_size, OWN_SCENES + seed)
    with warnings.catch_warnings(), ExitStack() as afterwards:
        warnings.simplefilter("ignore", TrainingAlarm)  # the head was trained before
        if trained == "positions":
            table = model.requires_grad_(False).embeddings.position.table.requires_grad_(True)
            stay = table.register_hook(lambda gradient: gradient.index_fill(0, torch.tensor([0]), 0))  # class token
            afterwards.callback(stay.remove)
        fit(model, images, recipe)
    model.requires_grad_(True)


def measure_size(name: str, seed: int, scenes: int = 1600, test_scenes: int = 3200) -> dict[tuple[str, str], SizeRun]:
    """Return {(way, what was trained): its run} for all of WAYS and RATES at one of SIZES, on the same scenes.

    Left out is what cannot be: without positions there are none to train, and at 28×28 there are none to fill in.
    Raises KeyError for an unknown size.
    """
    size, runs = SIZES[name], {}
    test = Shapes(test_scenes, size, seed=1)
    for trained, way in product(RATES, WAYS):
        if (trained, way) == ("positions", "without positions") or (name == "28×28" and way in WAYS[1:4]):
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
