"""A task that needs positions: in which quarter of the picture is the object?"""

from __future__ import annotations

from dataclasses import replace

import torch

from ..data import ImageSet, Shapes

QUARTERS = ("top left", "top right", "bottom left", "bottom right")


def quarters(count: int, seed: int = 0) -> ImageSet:
    """Draw `Shapes` of 28×28 pixels, labelled by the quarter in which the centre of the object's pixels lies."""
    scenes = Shapes(count, 28, seed)
    rows, columns = (scenes.masks.sum(dim=axis) @ torch.arange(28) / scenes.masks.sum(dim=(1, 2)) for axis in (2, 1))
    labels = 2 * (rows > 13.5).long() + (columns > 13.5).long()
    return replace(scenes, labels=labels, classes=QUARTERS)
