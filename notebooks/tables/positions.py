"""Make positions/shapes.safetensors: the shipped Shapes model's positions while it is trained.

Takes about two minutes on two cores. It is the run of `python -m vit_tutorial.train --dataset
shapes`, and on one machine both end with the same positions. Those of the CIFAR-10 model, which
lesson 07 shows, were kept in the same way.
"""

import torch
from common import CONFIG, RECIPE
from safetensors.torch import save_file
from torch import Tensor
from vit_tutorial import ImageSet, Shapes, VisionTransformer
from vit_tutorial.pretrained import CHECKPOINTS
from vit_tutorial.training import Progress, Recipe, fit, print_progress


def positions_in_training(
    model: VisionTransformer, images: ImageSet, recipe: Recipe
) -> dict[str, Tensor]:
    """Train the model; return its positions, (T, D), before it and after up to nine of its epochs.

    Most of these are early ones, when the positions move most.
    """
    moments = {round(recipe.epochs ** (i / 8)) for i in range(9)}
    kept = {"0": model.embeddings.position().detach().clone()}

    def keep(progress: Progress) -> None:
        if progress.finished and progress.epoch in moments:
            kept[str(progress.epoch)] = model.embeddings.position().detach().clone()

    fit(model, images, recipe, watch=[print_progress, keep])
    return kept


if __name__ == "__main__":
    torch.manual_seed(RECIPE.seed)
    found = positions_in_training(VisionTransformer(CONFIG), Shapes(28_000, 28), RECIPE)
    save_file(found, CHECKPOINTS / "positions" / "shapes.safetensors")
