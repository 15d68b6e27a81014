"""The shipped Shapes model moved: to another size, its positions in one way or another; to classes it has not seen.

The weights that a row starts from are always the same. The seed decides which scenes it is tuned on and their
order, and what is random; the test scenes are the same for all. The recipes were chosen on scenes of other seeds,
with an earlier checkpoint.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import torch

from ..adapting import change_resolution, replace_head
from ..config import Size
from ..data import Shapes
from ..data.outlines import MORE_OUTLINES
from ..model import VisionTransformer
from ..pretrained import load_checkpoint
from ..training import Recipe, Score, TrainingAlarm, evaluate, fit
from ..training.progress import Watch

TEST_SCENES = 3200
IMAGES_SHOWN = 6400  # by every row of "examples", however few different ones there are
FIRST_SEED = 10  # of the scenes to tune on; the shipped model was trained on those of seed 0 and tested on seed 1
WARMUP = 0.05  # of the run
FINE_TUNING = Recipe(epochs=1, batch_size=32, learning_rate=3e-4, warmup_epochs=WARMUP)


def in_old_order(model: VisionTransformer, size: Size) -> VisionTransformer:
    """The rows of the old table in their order: from the first again where they do not suffice, cut where they do."""
    moved = change_resolution(model, size)
    new, old = (m.embeddings.position.table.data[1:] for m in (moved, model))
    new.copy_(old[torch.arange(len(new)) % len(old)])
    return moved


def at_random(model: VisionTransformer, size: Size) -> VisionTransformer:
    """Random positions, as large as the learned ones."""
    moved = change_resolution(model, size)
    new, old = (m.embeddings.position.table.data[1:] for m in (moved, model))
    new.normal_(std=old.std().item())
    return moved


def from_scratch(model: VisionTransformer, size: Size) -> VisionTransformer:
    """Nothing is kept but the card."""
    new = VisionTransformer(replace(model.config, image_size=size))
    new.card = model.card
    return new


# Each way, and the learning rate that suits it.
WAYS: dict[str, tuple[Callable[[VisionTransformer, Size], VisionTransformer], float]] = {
    "interpolated": (change_resolution, 3e-4),
    "repeated": (in_old_order, 1e-3),
    "cut": (in_old_order, 1e-3),
    "random": (at_random, 1e-3),
    "from scratch": (from_scratch, 2e-3),
}


@dataclass(frozen=True)
class NewSize:
    """The model at another size, before any training (0 scenes) or tuned on some, each shown once."""

    size: Size
    positions: str = "interpolated"
    scenes: int = 0

    def run(self, seed: int, watch: Iterable[Watch] = ()) -> Score:
        torch.manual_seed(seed)
        move, rate = WAYS[self.positions]
        model = move(load_checkpoint("shapes"), self.size)
        if self.scenes:
            recipe = replace(FINE_TUNING, learning_rate=rate, seed=seed)
            images = Shapes(self.scenes, self.size, seed=FIRST_SEED + seed)
            with warnings.catch_warnings():
                # Of a first loss that is not ln K: the head was trained before.
                warnings.simplefilter("ignore", TrainingAlarm)
                fit(model, images, recipe, watch=watch)
        return evaluate(model, Shapes(TEST_SCENES, self.size, seed=1))


@dataclass(frozen=True)
class NewTask:
    """The model with a new head for six other outlines, tuned on `examples` of them."""

    way: str
    examples: int

    def run(self, seed: int, watch: Iterable[Watch] = ()) -> Score:
        torch.manual_seed(seed)
        model = replace_head(load_checkpoint("shapes"), len(MORE_OUTLINES))
        if self.way == "from scratch":
            model = from_scratch(model, model.config.image_size)
        epochs = IMAGES_SHOWN // self.examples
        recipe = replace(FINE_TUNING, epochs=epochs, warmup_epochs=WARMUP * epochs, seed=seed, **TASKS[self.way])
        size = model.config.image_size
        fit(model, Shapes(self.examples, size, FIRST_SEED + seed, MORE_OUTLINES), recipe, watch=watch)
        return evaluate(model, Shapes(TEST_SCENES, size, 1, MORE_OUTLINES))


TASKS = {
    "linear probe": {"learning_rate": 1e-2, "trained": "head"},
    "full fine-tune": {"learning_rate": 1e-3},
    "from scratch": {"learning_rate": 2e-3},
}

SIZES = {
    (28, 28): ("interpolated",),  # its own size: nothing to interpolate
    (44, 44): ("interpolated", "repeated", "random", "from scratch"),
    (28, 44): ("interpolated", "repeated", "random", "from scratch"),
    (20, 20): ("interpolated", "cut", "random"),
}
MOVING = {
    "resolution": {
        f"{h}×{w}, {positions}, {scenes:,} scenes": NewSize((h, w), positions, scenes)
        for (h, w), ways in SIZES.items()
        for positions in ways
        for scenes in (0, 1600)
        if scenes or positions != "from scratch"
    },
    "examples": {
        f"{way}, {examples:,} examples": NewTask(way, examples)
        for way in TASKS
        for examples in (25, 100, 400, 1600, 6400)
    },
}
