"""Make images.csv, for lesson 06: a ViT and a CNN, by the number of training scenes.

Takes about 40 minutes on two cores.
"""

from functools import partial

from common import CONFIG, SEEDS, recipe_for, train, write_table
from vit_tutorial import Shapes, VisionTransformer
from vit_tutorial.hybrid import small_cnn
from vit_tutorial.training import evaluate

NETWORKS = {
    "ViT": partial(VisionTransformer, CONFIG),
    "CNN": partial(small_cnn, CONFIG.num_classes),
}
SCENES = (100, 500, 2000, 8000, 28_000)


def measure(network: str, scenes: int, seed: int) -> float:
    model = train(NETWORKS[network], recipe_for(scenes), Shapes(scenes, 28), seed)
    return evaluate(model, Shapes(6400, 28, seed=1)).accuracy


if __name__ == "__main__":
    lines = (
        (f"{network}, {scenes:,} images", seed, measure(network, scenes, seed))
        for seed in SEEDS
        for network in NETWORKS
        for scenes in SCENES
    )
    write_table("images", ["row", "seed", "accuracy"], lines)
