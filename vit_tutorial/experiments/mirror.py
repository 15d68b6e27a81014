"""Learned positions of photos resemble their mirror image, left to right. Is training with flipped photos the cause?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from ..data import ImageSet
from ..model import VisionTransformer
from ..saving import read
from ..training import PRESETS, Recipe, fit, print_progress

RECIPE = Recipe(1, 64, learning_rate=1.5e-3, warmup_epochs=0.1, label_smoothing=0.1, precision="bf16")
WAYS = ("half flipped", "as they are", "turned")
MAPS = Path(__file__).parent / "results" / "mirror.safetensors"


def train_positions(way: str, seed: int, photos: ImageSet) -> Float[Tensor, "T D"]:
    """Train the CIFAR-10 model for one epoch, and return its position embeddings.

    With "half flipped" each photo is mirrored in half of the cases; "as they are" they never are. "turned" exchanges
    the rows and columns of every photo, and flips none: the sky is on the left.
    """
    if way == "turned":
        photos = replace(photos, pixels=photos.pixels.transpose(2, 3).contiguous())
    torch.manual_seed(seed)
    model = VisionTransformer(replace(PRESETS["cifar10"].config, num_classes=len(photos.classes)))
    fit(model, photos, replace(RECIPE, flip=way == "half flipped", seed=seed), watch=[print_progress])
    return model.embeddings.position().detach().clone()


def load_mirror_runs(path: Path = MAPS) -> dict[str, Float[Tensor, "S T D"]]:
    """Return the stored position embeddings of each way to train, one for each seed that was run."""
    tables, _ = read(path)
    return {way: torch.stack([tables[name] for name in sorted(tables) if name.startswith(way)]) for way in WAYS}
