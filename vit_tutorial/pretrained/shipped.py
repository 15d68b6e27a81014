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
    """A trained model that ships with the package, with its card, ready to predict: "shapes" or "cifar10".

    `model.card.about` says how it was trained, on what, and how good it is. Raises ValueError for another name.
    """
    require_choice("checkpoint", name, (path.stem for path in sorted(CHECKPOINTS.glob("*.safetensors"))))
    return load_model(CHECKPOINTS / f"{name}.safetensors")


def load_positions(name: str) -> dict[int, Float[Tensor, "T D"]]:
    """The position embeddings of a shipped model on their way: {epochs of training: (1+N, D)}, from 0 to the last.

    Raises ValueError for a name that has none.
    """
    folder = CHECKPOINTS / "positions"
    require_choice("checkpoint", name, (path.stem for path in sorted(folder.glob("*.safetensors"))))
    tensors, _ = read(folder / f"{name}.safetensors")
    return {int(epoch): tensors[epoch] for epoch in sorted(tensors, key=int)}
