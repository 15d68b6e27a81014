"""Short trainings: a small model at one learning rate, the first steps of a new one, one part of a trained one."""

import warnings
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import clip_grad_norm_, parameters_to_vector
from torch.optim import AdamW, Optimizer

from ..data import ImageSet, Shapes
from ..model import VisionTransformer
from ..pretrained import load_checkpoint
from ..training import PRESETS, Recipe, TrainingAlarm, evaluate, fit

STEPS, BATCH = 500, 32
OWN_SCENES = 10  # added to a seed: the shipped model was trained on the scenes of seed 0 and tested on those of seed 1


@cache  # the check, or a cell that runs again, may ask for the same run
def short_run(learning_rate: float, seed: int = 0) -> float:
    """Train a small model for 500 steps; return the share of 2,000 new scenes that it gets right, from 0 to 1.

    It has two blocks of width 32 and sees `Shapes` of 16×16 pixels. `learning_rate` is the peak, after 50 steps of
    warm-up. The rest of the recipe is that of PRESETS["shapes"]. Raises FloatingPointError if the model breaks.
    """
    train, new = Shapes(4_000, 16, seed=0), Shapes(2_000, 16, seed=3)
    epochs = STEPS * BATCH // len(train)
    config, recipe = PRESETS["shapes"]
    config = replace(config, image_size=16, embed_dim=32, depth=2, mlp_dim=64)
    changes = {"epochs": epochs, "warmup_epochs": 0.1 * epochs, "learning_rate": learning_rate, "seed": seed}
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingAlarm)  # what it warns of is what the run returns
        torch.manual_seed(seed)
        model = VisionTransformer(config)
        fit(model, train, replace(recipe, **changes))
    return evaluate(model, new).accuracy


def train_once(model: nn.Module, optimizer: Optimizer, scenes: ImageSet, batch_size: int) -> Iterator[tuple]:
    """Train on each scene once, gradients clipped to length 1. Yield each step's loss, and its gradient's length."""
    pixels = load_checkpoint("shapes").card.normalise(scenes.pixels)
    for batch, labels in zip(pixels.split(batch_size), scenes.labels.split(batch_size), strict=True):
        loss = cross_entropy(model(batch), labels)
        optimizer.zero_grad()
        loss.backward()
        length = clip_grad_norm_(model.parameters(), 1.0)  # before it is clipped
        optimizer.step()
        yield loss.detach(), length


@torch.random.fork_rng(devices=[])
def first_steps(seed: int, count: int = 100) -> tuple[list[float], int]:
    """Train a new Shapes model for `count` steps at a learning rate of 1e-4, and measure how its weights move.

    Return how far they moved in each step, as a multiple of the rate, and how many gradients were clipped.
    """
    torch.manual_seed(seed)
    model, rate = VisionTransformer(PRESETS["shapes"].config), 1e-4
    optimizer = AdamW(model.parameters(), rate, betas=(0.9, 0.95), weight_decay=0.0)
    moved, clipped, before = [], 0, parameters_to_vector(model.parameters()).detach()
    for _, length in train_once(model, optimizer, Shapes(count * BATCH, 28, OWN_SCENES + seed), BATCH):
        after = parameters_to_vector(model.parameters()).detach()
        moved.append((after - before).norm().item() / rate)
        clipped += length.item() > 1
        before = after
    return moved, clipped


def tune(model: VisionTransformer, trained: str, seed: int, scenes: int = 1600) -> None:
    """Train the parameters with `trained` in their names on scenes of the model's size, each shown once.

    The others are frozen meanwhile; afterwards nothing is frozen.
    """
    images = Shapes(scenes, model.config.image_size, OWN_SCENES + seed)
    rate = 1e-2  # the best of those tried for the "head", or nearly so, and for every "norm"
    recipe = Recipe(epochs=1, batch_size=BATCH, learning_rate=rate, warmup_epochs=0.05, seed=seed)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(trained in name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TrainingAlarm)  # of a low first loss: the head was trained before
            fit(model, images, recipe)
    finally:  # a reader may have stopped it
        model.requires_grad_(True)
