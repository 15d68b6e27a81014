"""Make scarce.csv, for lesson 06: few scenes, shown again and again, with augmentation or without.

Takes about 45 minutes on two cores.
"""

from dataclasses import replace

import torch
from common import CONFIG, SEEDS, cell, recipe_for, write_table
from vit_tutorial import Shapes, VisionTransformer
from vit_tutorial.experiments.tables import Course
from vit_tutorial.training import Progress, evaluate, fit, print_progress

SCENES = (500, 2000)
AUGMENTATIONS = {
    "none": {},
    "flips and shifts": {"flip": True, "crop": 4},
    "RandAugment": {"randaugment": True},
    "mixup": {"mixup": 0.8},
    "CutMix": {"cutmix": 1.0},
}


def measure(scenes: int, augmentation: str, seed: int) -> Course:
    """Train on the first scenes of lesson 06; look 14 times at 500 of them and at 1,600 new ones.

    The new ones are validation scenes: their seed, 3, neither trains nor tests.
    """
    images, known, new = Shapes(scenes, 28), Shapes(500, 28), Shapes(1600, 28, seed=3)
    recipe = replace(recipe_for(scenes), seed=seed, **AUGMENTATIONS[augmentation])
    found = []

    def look(progress: Progress) -> None:
        if progress.finished and progress.epoch % (progress.epochs // 14) == 0:
            score = evaluate(model, new)
            found.append((progress.epoch, evaluate(model, known).loss, score.loss, score.accuracy))

    torch.manual_seed(seed)
    model = VisionTransformer(CONFIG)
    fit(model, images, recipe, watch=[look, print_progress])
    return Course(*torch.tensor(found).T)


if __name__ == "__main__":
    lines = (
        (scenes, augmentation, seed, *map(cell, measure(scenes, augmentation, seed)))
        for seed in SEEDS
        for scenes in SCENES
        for augmentation in AUGMENTATIONS
    )
    write_table("scarce", ["scenes", "augmentation", "seed", *Course._fields], lines)
