"""Multiply all attention scores by one factor. Does a model at another size want sharper attention, or softer?"""

from __future__ import annotations

from copy import deepcopy

import torch

from ..data import Shapes
from ..model import VisionTransformer
from ..training import evaluate
from .sizes import SIZES, move

FACTORS = (0.7, 0.85, 1.0, 1.15, 1.3, 1.5, 1.75, 2.0)
MODELS = ("interpolated", "without positions")


@torch.no_grad()
def sharpen(model: VisionTransformer, factor: float) -> VisionTransformer:
    """Copy a model with queries that are `factor` times as long, and so all scores q·k are `factor` times as large."""
    sharper = deepcopy(model)
    for block in sharper.encoder:
        for parameter in (block.attention.qkv.weight, block.attention.qkv.bias):
            parameter[: model.config.embed_dim] *= factor  # the first third makes q
    return sharper


def measure_sharpness(way: str, size: str, seed: int, scenes: int = 1600) -> list[float]:
    """Return the accuracy with each of FACTORS of one of MODELS, moved to one of SIZES and not trained there."""
    model, test = move(way, SIZES[size], seed), Shapes(scenes, SIZES[size], seed=1)
    return [evaluate(sharpen(model, factor), test).accuracy for factor in FACTORS]
