"""The trained models that ship with the package: two of our own, and DINOv2-S/14 (Oquab et al. 2023)."""

from pathlib import Path

from jaxtyping import Float
from torch import Tensor

from ..config import ViTConfig
from ..errors import require_choice
from ..model import VisionTransformer
from ..model_card import ModelCard
from ..saving import load_model, read_tensors
from .converting import convert_tensors, fold_layer_scale

CHECKPOINTS = Path(__file__).with_name("shipped_files")
DINOV2 = CHECKPOINTS / "dinov2-s14.safetensors"


def load_checkpoint(name: str) -> VisionTransformer:
    """Load a trained model that ships with the package, with its card: "shapes", "cifar10" or "dinov2-s14".

    `model.card.about` says how it was trained, on what, and how good it is. DINOv2 saw 142 million photos and not one
    label: it has no classes. Raises ValueError for another name.
    """
    path = find(CHECKPOINTS, name)
    if path != DINOV2:
        return load_model(path)
    tensors, about = read_tensors(path)
    folded = fold_layer_scale({name: tensor.float() for name, tensor in tensors.items()})
    model = convert_tensors(folded, "timm", ViTConfig(**about["config"]))  # timm has Meta's names
    model.card = ModelCard(**about["card"])
    return model


def load_positions(name: str) -> dict[int, Float[Tensor, "T D"]]:
    """Load a shipped model's position embeddings during training: {epochs: (1+N, D)}, from 0 epochs to the last."""
    tensors, _ = read_tensors(find(CHECKPOINTS / "positions", name))
    return {int(epoch): tensors[epoch] for epoch in sorted(tensors, key=int)}


def find(folder: Path, name: str) -> Path:
    require_choice("checkpoint", name, (path.stem for path in sorted(folder.glob("*.safetensors"))))
    return folder / f"{name}.safetensors"


def dinov2_tensors() -> dict[str, Tensor]:
    """Return DINOv2's 174 tensors in float32, under the names of Meta's own file, block after block, with LayerScale.

    They are stored in half precision. Source: Oquab et al. 2023 (arXiv 2304.07193), Apache License 2.0.
    """
    tensors, _ = read_tensors(DINOV2)  # in whatever order the file has them
    in_order = sorted(tensors, key=lambda name: [part.zfill(2) for part in name.split(".")])  # block 2 before block 10
    return {name: tensors[name].float() for name in in_order}
