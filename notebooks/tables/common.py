"""What the scripts of this folder share: lesson 06's training run, and how to write a table."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache, partial

import torch
from torch import Tensor, nn
from vit_tutorial import ImageSet, Shapes, VisionTransformer, load_checkpoint
from vit_tutorial.experiments import tables
from vit_tutorial.inference import logits_of
from vit_tutorial.training import PRESETS, Recipe, fit, print_progress

SEEDS = (0, 1, 2)
CONFIG, RECIPE = PRESETS["shapes"]  # of lesson 06: 28,000 scenes, each shown twice


def recipe_for(scenes: int) -> Recipe:
    """Return the recipe of lesson 06 for fewer scenes: 56,000 are shown in all, as there."""
    epochs = 56_000 // scenes
    return replace(RECIPE, epochs=epochs, warmup_epochs=0.05 * epochs)


def train(make: Callable[[], nn.Module], recipe: Recipe, images: ImageSet, seed: int) -> nn.Module:
    """Make a model with a seed's weights, train it on the images, and return it."""
    torch.manual_seed(seed)
    model = make()
    fit(model, images, replace(recipe, seed=seed), watch=[print_progress])
    return model


@cache
def trained_at_home(position: str, seed: int) -> VisionTransformer:
    """Return the model of lesson 06, trained on 28×28, with positions "learned" or "none"."""
    if (position, seed) == ("learned", 0):
        return load_checkpoint("shapes")  # trained in the same way
    config = replace(CONFIG, position=position)
    return train(partial(VisionTransformer, config), RECIPE, Shapes(28_000, 28), seed)


@torch.no_grad()
def right_answers(model: VisionTransformer, images: ImageSet) -> Tensor:
    """Return which images the model calls by their name, without dropout: (N,)."""
    return logits_of(model, images.pixels).argmax(dim=1) == images.labels


def cell(curve: Tensor) -> str:
    """Return the text of a curve in a table: numbers with spaces between them."""
    return " ".join(f"{value:.4g}" for value in curve.tolist())


def write_table(name: str, columns: Iterable[str], lines: Iterable[tuple]) -> None:
    """Print each line when it is made; write the table into the package after the last."""
    made = [tuple(columns)]
    for line in lines:
        print(", ".join(map(str, line))[:100], flush=True)
        made.append(line)
    with (tables.RESULTS / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(made)
