"""The rows of the tables: models trained from scratch, and the shipped Shapes model adapted to other classes.

Rows that adapt start from the same weights, and each seed tunes on scenes of its own. Their recipes were chosen on
scenes of other seeds, with an earlier checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

import torch
from torch import nn

from ..adapting import replace_head
from ..config import ViTConfig
from ..data import Shapes
from ..data.outlines import MORE_OUTLINES, OUTLINES
from ..hybrid import conv_stem, small_cnn
from ..model import VisionTransformer
from ..pretrained import load_checkpoint
from ..training import PRESETS, Recipe, Score, evaluate, fit
from ..training.progress import Watch
from .probe import fit_head

CONFIG = PRESETS["shapes"].config
WARMUP = 0.05  # of the run
FINE_TUNING = Recipe(epochs=1, batch_size=32, learning_rate=3e-4, warmup_epochs=WARMUP)
OWN_SCENES = 10  # the seed of the first ones to tune on; the shipped model was trained on seed 0 and tested on seed 1


@dataclass(frozen=True)
class Row:
    """Train `make(config)` on `scenes` drawings of Shapes (0 for no training), and test it on `test_scenes` others.

    Without a `recipe` the head alone is fitted, to convergence (`fit_head`).
    Without `own_scenes` all seeds train on the same ones.
    The scenes of `test_seed` 1 are the test scenes; those of another seed are for choosing.
    """

    make: Callable[[ViTConfig], nn.Module]
    config: ViTConfig
    recipe: Recipe | None
    scenes: int
    test_scenes: int = 3200
    outlines: Mapping[str, Callable] | None = None
    own_scenes: bool = True
    test_seed: int = 1


def run(row: Row, seed: int, watch: Iterable[Watch] = ()) -> Score:
    """Train one row with one seed and test it. The global random generator is left as it was."""
    test = Shapes(row.test_scenes, row.config.image_size, row.test_seed, row.outlines or OUTLINES)
    return evaluate(train_model(row, seed, watch), test)


def train_model(row: Row, seed: int, watch: Iterable[Watch] = ()) -> nn.Module:
    """Train one row with one seed; return the model."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = row.make(row.config)
        if row.scenes:
            own = OWN_SCENES + seed if row.own_scenes else 0
            images = Shapes(row.scenes, row.config.image_size, own, row.outlines or OUTLINES)
            if row.recipe is None:
                fit_head(model, images)
            else:
                fit(model, images, replace(row.recipe, seed=seed), watch=watch)
        return model


def new_head(config: ViTConfig) -> VisionTransformer:
    return replace_head(load_checkpoint("shapes"), config.num_classes)


def train_with(scenes: int = 28_000, make: Callable = VisionTransformer, **changes: object) -> Row:
    """Return a run of `python -m vit_tutorial.train --dataset shapes` with other fields of its config or its recipe.

    However many different scenes there are, 56,000 are shown: the same work for all.
    """
    epochs = 56_000 // scenes
    changes = {"epochs": epochs, "warmup_epochs": WARMUP * epochs} | changes
    of_config = {name: changes.pop(name) for name in list(changes) if hasattr(CONFIG, name)}
    recipe = replace(PRESETS["shapes"].recipe, **changes)
    return Row(make, replace(CONFIG, **of_config), recipe, scenes, 6400, own_scenes=False)


def retrain(examples: int) -> Row:
    """Return the shipped model tuned on `examples` of six other outlines; 6,400 images are shown in all."""
    epochs = 6400 // examples
    recipe = replace(FINE_TUNING, epochs=epochs, learning_rate=1e-3, warmup_epochs=WARMUP * epochs)
    return Row(new_head, replace(CONFIG, num_classes=len(MORE_OUTLINES)), recipe, examples, outlines=MORE_OUTLINES)


def from_scratch(examples: int) -> Row:
    """Return a new model, trained on as many examples for as long as the shipped one: up to 56,000 images are shown."""
    row = train_with(examples, num_classes=len(MORE_OUTLINES))
    return replace(row, outlines=MORE_OUTLINES, own_scenes=True, test_scenes=3200)


EXAMPLES = (25, 100, 400, 1600, 6400)

EXPERIMENTS: dict[str, dict[str, Row]] = {
    "ablations": {
        "as it is": train_with(),
        "no warm-up": train_with(warmup_epochs=0.0),
        "no decay of the rate": train_with(schedule="constant"),
        "no weight decay": train_with(weight_decay=0.0),
        "β₂ = 0.999": train_with(beta2=0.999),
        "no positions": train_with(position="none"),
        "sin-cos positions": train_with(position="sincos"),
        "factorized positions": train_with(position="factorized"),
        "mean of the patches": train_with(pool="mean"),
    },
    "images": {
        f"{name}, {scenes:,} images": train_with(scenes, make)
        for name, make in {"ViT": VisionTransformer, "CNN": lambda config: small_cnn(config.num_classes)}.items()
        for scenes in (100, 500, 2000, 8000, 28_000)
    },
    "rates": {
        f"{rate:g}": replace(train_with(learning_rate=rate), test_scenes=3200, test_seed=3)
        for rate in (2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2)
    },
    # The stem costs as much as a block. Patches of pixels with all four blocks are the first row of the ablations.
    "stem": {
        "convolutional stem, 3 blocks": train_with(make=lambda config: VisionTransformer(config, conv_stem()), depth=3),
        "patches of pixels, 3 blocks": train_with(depth=3),
    },
    "examples": {
        f"{way}, {examples:,} examples": make(examples)
        for way, make in {"full fine-tune": retrain, "from scratch": from_scratch}.items()
        for examples in EXAMPLES
    },
    "probe": {f"{examples:,} examples": replace(retrain(examples), recipe=None) for examples in EXAMPLES},
}
