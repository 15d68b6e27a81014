"""The trained models that ship with the package."""

from __future__ import annotations

from pathlib import Path

from jaxtyping import Float
from torch import Tensor

from ..errors import require_choice
from ..model import VisionTransformer
from ..saving import load_model, read
from .dinov2 import SHIPPED, load_dinov2

CHECKPOINTS = SHIPPED.parent


def load_checkpoint(name: str) -> VisionTransformer:
    """Load a trained model that ships with the package, with its card: "shapes", "cifar10" or "dinov2-s14".

    `model.card.about` says how it was trained, on what, and how good it is. The first two are ready to predict; DINOv2
    (Oquab et al. 2023) has no classes, and is for photos of 518×518 pixels, or of another size after
    `change_resolution`. Raises ValueError for another name.
    """
    path = find(CHECKPOINTS, name)
    return load_dinov2() if path == SHIPPED else load_model(path)


def load_positions(name: str) -> dict[int, Float[Tensor, "T D"]]:
    """Load a shipped model's position embeddings during training: {epochs: (1+N, D)}, from 0 epochs to the last.

    Raises ValueError for a name that has none.
    """
    tensors, _ = read(find(CHECKPOINTS / "positions", name))
    return {int(epoch): tensors[epoch] for epoch in sorted(tensors, key=int)}


def find(folder: Path, name: str) -> Path:
    require_choice("checkpoint", name, (path.stem for path in sorted(folder.glob("*.safetensors"))))
    return folder / f"{name}.safetensors"
