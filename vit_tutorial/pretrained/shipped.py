"""The trained models that ship with the package."""

from __future__ import annotations

from pathlib import Path

from jaxtyping import Float
from torch import Tensor

from ..errors import require_choice
from ..model import VisionTransformer
from ..saving import load_model, read

CHECKPOINTS = Path(__file__).with_name("shipped_files")


def load_checkpoint(name: str) -> VisionTransformer:
    """Load a trained model that ships with the package, with its card, ready to predict: "shapes" or "cifar10".

    `model.card.about` says how it was trained, on what, and how good it is. Raises ValueError for another name.
    """
    return load_model(find(CHECKPOINTS, name))


def load_positions(name: str) -> dict[int, Float[Tensor, "T D"]]:
    """Load a shipped model's position embeddings during training: {epochs: (1+N, D)}, from 0 epochs to the last.

    Raises ValueError for a name that has none.
    """
    tensors, _ = read(find(CHECKPOINTS / "positions", name))
    return {int(epoch): tensors[epoch] for epoch in sorted(tensors, key=int)}


def find(folder: Path, name: str) -> Path:
    require_choice("checkpoint", name, (path.stem for path in sorted(folder.glob("*.safetensors"))))
    return folder / f"{name}.safetensors"
