"""Make stem.csv, for lesson 06: patches of a small CNN's feature map, or of pixels.

The stem costs as much as a block. Patches of pixels with all four blocks are the first row of
ablations.csv. Takes about 10 minutes on two cores.
"""

from dataclasses import replace

from common import CONFIG, RECIPE, SEEDS, train, write_table
from vit_tutorial import Shapes, VisionTransformer
from vit_tutorial.hybrid import conv_stem
from vit_tutorial.training import evaluate

THREE_BLOCKS = replace(CONFIG, depth=3)
ROWS = {
    "convolutional stem, 3 blocks": lambda: VisionTransformer(THREE_BLOCKS, conv_stem()),
    "patches of pixels, 3 blocks": lambda: VisionTransformer(THREE_BLOCKS),
}


def measure(row: str, seed: int) -> float:
    model = train(ROWS[row], RECIPE, Shapes(28_000, 28), seed)
    return evaluate(model, Shapes(6400, 28, seed=1)).accuracy


if __name__ == "__main__":
    lines = ((row, seed, measure(row, seed)) for seed in SEEDS for row in ROWS)
    write_table("stem", ["row", "seed", "accuracy"], lines)
