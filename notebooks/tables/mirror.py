"""Make mirror.safetensors, for lesson 07: positions learned from photos, flipped and turned.

Downloads CIFAR-10 (170 MB), then takes about an hour on two cores.
"""

from dataclasses import replace
from functools import partial

from common import SEEDS, train
from safetensors.torch import save_file
from torch import Tensor
from vit_tutorial import ImageSet, VisionTransformer, cifar10
from vit_tutorial.experiments.tables import RESULTS
from vit_tutorial.training import PRESETS, Recipe

RECIPE = Recipe(
    1, 64, learning_rate=1.5e-3, warmup_epochs=0.1, label_smoothing=0.1, precision="bf16"
)


def learned_positions(way: str, seed: int, photos: ImageSet) -> Tensor:
    """Train the CIFAR-10 model for one epoch, and return its position embeddings, (T, D).

    "half flipped" mirrors each photo in half of the cases, "as they are" never. "turned" exchanges
    the rows and columns of every photo, and flips none: the sky is on the left.
    """
    if way == "turned":
        photos = replace(photos, pixels=photos.pixels.transpose(2, 3).contiguous())
    config = replace(PRESETS["cifar10"].config, num_classes=len(photos.classes))
    recipe = replace(RECIPE, flip=way == "half flipped")
    model = train(partial(VisionTransformer, config), recipe, photos, seed)
    return model.embeddings.position().detach().clone()


if __name__ == "__main__":
    photos, found = cifar10(download=True), {}
    for seed in SEEDS:
        for way in ("half flipped", "as they are", "turned"):
            found[f"{way}, seed {seed}"] = learned_positions(way, seed, photos)
    save_file(found, RESULTS / "mirror.safetensors")
