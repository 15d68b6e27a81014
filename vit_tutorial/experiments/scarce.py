"""Few scenes, shown again and again: when does a model begin to memorise, and does augmentation help?"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from ..data import Shapes
from ..model import VisionTransformer
from ..training import PRESETS, evaluate, fit
from ..training.progress import Progress

SHOWN = 56_000  # scenes in all, as in the main run of lesson 06
SCENES = (500, 2000)
POINTS = 14  # of a curve
NEW = 1600  # validation scenes
AUGMENTATIONS = {
    "none": {},
    "flips and shifts": {"flip": True, "crop": 4},
    "RandAugment": {"randaugment": True},
    "mixup": {"mixup": 0.8},
    "CutMix": {"cutmix": 1.0},
}


class Course(NamedTuple):
    """A run at equal distances, (14,) each. Losses and accuracy are of scenes as they are, without augmentation."""

    epochs: Tensor
    training_loss: Tensor
    validation_loss: Tensor
    validation_accuracy: Tensor


def measure_course(scenes: int, augmentation: str, seed: int, points: int = POINTS) -> Course:
    """Train on the first `scenes` scenes of lesson 06, and look every few epochs at 500 of them and at 1,600 new ones.

    The new ones are validation scenes, of a seed that neither trains nor tests. Raises KeyError for an unknown way.
    """
    config, recipe = PRESETS["shapes"]
    epochs = SHOWN // scenes
    recipe = replace(recipe, epochs=epochs, warmup_epochs=0.05 * epochs, seed=seed, **AUGMENTATIONS[augmentation])
    images, validation = Shapes(scenes, config.image_size, 0), Shapes(NEW, config.image_size, 3)
    found: list[tuple[float, ...]] = []

    def look(progress: Progress) -> None:
        if progress.finished and progress.epoch % (epochs // points) == 0:
            known, new = evaluate(model, images.subset(range(min(scenes, 500)))), evaluate(model, validation)
            found.append((progress.epoch, known.loss, new.loss, new.accuracy))

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = VisionTransformer(config)
        fit(model, images, recipe, watch=[look])
    return Course(*torch.tensor(found).T)
