"""A task that needs positions, and models whose positions have a kind and a size."""

from dataclasses import replace

import torch

from ..data import ImageSet, Shapes
from ..errors import require_choice
from ..model import VisionTransformer
from ..training import PRESETS

QUARTERS = ("top left", "top right", "bottom left", "bottom right")


def quarters(count: int, seed: int = 0) -> ImageSet:
    """Draw `Shapes` of 28×28 pixels, labelled by the quarter in which the centre of the object lies."""
    drawn = Shapes(count, 28, seed)
    centres = torch.stack([mask.nonzero().float().mean(dim=0) for mask in drawn.masks])  # row and column: (count, 2)
    below, right = (centres > 13.5).long().T  # 13.5 is the middle of 0 to 27
    return replace(drawn, labels=2 * below + right, classes=QUARTERS)


def model_with_positions(kind: str, size: float) -> VisionTransformer:
    """Build the small model for `quarters` with a table of positions of a kind and a size.

    "grid" is a fixed table of sines and cosines, "shuffled" the same with its rows in random order; "learned" is
    random, and will be trained. The size is the standard deviation of the patches' vectors around their mean.
    """
    require_choice("kind", kind, ("grid", "shuffled", "learned"))
    config, _ = PRESETS["shapes"]
    position = "learned" if kind == "learned" else "sincos"
    model = VisionTransformer(replace(config, num_classes=len(QUARTERS), position=position))
    table = model.embeddings.position.table.data
    if kind == "shuffled":
        table[1:] = table[1 + torch.randperm(len(table) - 1)]
    table *= size / (table[1:] - table[1:].mean(dim=0)).square().mean().sqrt()
    return model
