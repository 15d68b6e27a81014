"""A training run of three seconds, in which a reader looks for a learning rate."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache

import torch

from ..data import ImageSet, Shapes
from ..model import VisionTransformer
from ..training import PRESETS, TrainingAlarm, evaluate, fit

STEPS, BATCH = 500, 32


@cache
def scenes() -> tuple[ImageSet, ImageSet]:
    """Return the scenes to train on, and new ones."""
    return Shapes(4_000, 16, seed=0), Shapes(2_000, 16, seed=3)


@cache  # the check, or a cell that runs again, may ask for the same run
def short_run(learning_rate: float, warmup_steps: int = 50, seed: int = 0) -> float:
    """Train a small model for 500 steps; return the share of 2,000 new scenes that it gets right, from 0 to 1.

    It has two blocks of width 32 and sees `Shapes` of 16×16 pixels; the recipe is that of PRESETS["shapes"] otherwise.
    `learning_rate` is the peak, which is reached after the warm-up. The seed decides the first weights and the order of
    the scenes. Raises ValueError for a rate that is not above 0, and FloatingPointError if the model breaks.
    """
    train, new = scenes()
    epochs = STEPS * BATCH // len(train)
    config, recipe = PRESETS["shapes"]
    config = replace(config, image_size=16, embed_dim=32, depth=2, mlp_dim=64)
    changes = {"learning_rate": learning_rate, "warmup_epochs": epochs * warmup_steps / STEPS, "seed": seed}
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingAlarm)  # what it warns of is what the run returns
        torch.manual_seed(seed)
        model = VisionTransformer(config)
        fit(model, train, replace(recipe, epochs=epochs, **changes))
    return evaluate(model, new).accuracy
