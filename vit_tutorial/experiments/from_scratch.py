"""Models trained from the start: what a part of model or recipe is worth, or a number of images."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import nn

from ..config import ViTConfig
from ..data import Shapes
from ..hybrid import conv_stem, small_cnn
from ..model import VisionTransformer
from ..training import PRESETS, Score, evaluate, fit
from ..training.presets import TEST_SCENES
from ..training.progress import Watch

IMAGES_SHOWN = 56_000  # in every run, however many different ones there are: the same work for all
WARMUP = 0.05  # of the run

MODELS = {
    "ViT": VisionTransformer,
    "ViT on a convolutional stem": lambda config: VisionTransformer(config, conv_stem()),
    "CNN": lambda config: small_cnn(config.num_classes),
}


@dataclass(frozen=True)
class Setting:
    """One row of a table: what it changes of `python -m vit_tutorial.train --dataset shapes`.

    The seed decides the weights at the start and the order of the images; the images are the same for every seed.
    """

    scenes: int = 28_000
    model: str = "ViT"
    config: Mapping[str, object] = field(default_factory=dict)
    recipe: Mapping[str, object] = field(default_factory=dict)

    def build(self) -> tuple[nn.Module, ViTConfig]:
        config = replace(PRESETS["shapes"].config, **self.config)
        return MODELS[self.model](config), config

    def run(self, seed: int, watch: Iterable[Watch] = ()) -> Score:
        epochs = IMAGES_SHOWN // self.scenes
        recipe = replace(PRESETS["shapes"].recipe, epochs=epochs, warmup_epochs=WARMUP * epochs, seed=seed)
        torch.manual_seed(seed)
        model, config = self.build()
        fit(model, Shapes(self.scenes, config.image_size, seed=0), replace(recipe, **self.recipe), watch=watch)
        return evaluate(model, Shapes(TEST_SCENES, config.image_size, seed=1))


FROM_SCRATCH = {
    "ablations": {
        "as it is": Setting(),
        "no warm-up": Setting(recipe={"warmup_epochs": 0.0}),
        "no decay of the rate": Setting(recipe={"schedule": "constant"}),
        "no weight decay": Setting(recipe={"weight_decay": 0.0}),
        "β₂ = 0.999": Setting(recipe={"beta2": 0.999}),
        "no positions": Setting(config={"position": "none"}),
        "sin-cos positions": Setting(config={"position": "sincos"}),
        "factorized positions": Setting(config={"position": "factorized"}),
        "mean of the patches": Setting(config={"pool": "mean"}),
    },
    "images": {
        f"{name}, {scenes:,} images": Setting(scenes, name)
        for name in ("ViT", "CNN")
        for scenes in (100, 500, 2000, 8000, 28_000)
    },
    # The stem costs as much as a block. Patches of pixels with all four blocks are the first row of "ablations".
    "stem": {
        "convolutional stem, 3 blocks": Setting(model="ViT on a convolutional stem", config={"depth": 3}),
        "patches of pixels, 3 blocks": Setting(config={"depth": 3}),
    },
}
