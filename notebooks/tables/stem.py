"""Make stem.csv, for lesson 06: patches of a small CNN's feature map, or of pixels.

The stem costs as much as a block. In the control's stem each patch sees its own pixels only.
Patches of pixels with all four blocks are the first row of ablations.csv. Takes about 15 minutes
on two cores.
"""

from dataclasses import replace

from common import CONFIG, RECIPE, SEEDS, train, write_table
from torch import nn
from vit_tutorial import Shapes, VisionTransformer
from vit_tutorial.hybrid import Backbone, conv_stem
from vit_tutorial.training import evaluate

THREE_BLOCKS = replace(CONFIG, depth=3)


def own_patch_stem() -> Backbone:
    """Build a stem that never looks across a cut: (B, 3, H, W) → (B, 52, H/4, W/4)."""
    layers = []
    for channels, side in ((3, 4), (52, 1), (52, 1)):
        convolution = nn.Conv2d(channels, 52, kernel_size=side, stride=side, bias=False)
        layers += [convolution, nn.BatchNorm2d(52), nn.ReLU()]
    return Backbone(nn.Sequential(*layers), channels=52, stride=4)


ROWS = {
    "convolutional stem, 3 blocks": lambda: VisionTransformer(THREE_BLOCKS, conv_stem()),
    "stem within each patch, 3 blocks": lambda: VisionTransformer(THREE_BLOCKS, own_patch_stem()),
    "patches of pixels, 3 blocks": lambda: VisionTransformer(THREE_BLOCKS),
}


def measure(row: str, seed: int) -> float:
    model = train(ROWS[row], RECIPE, Shapes(28_000, 28), seed)
    return evaluate(model, Shapes(6400, 28, seed=1)).accuracy


if __name__ == "__main__":
    lines = ((row, seed, measure(row, seed)) for seed in SEEDS for row in ROWS)
    write_table("stem", ["row", "seed", "accuracy"], lines)
