"""DINOv2-S/14: a Vision Transformer that saw 142 million photos, and not one label (Oquab et al. 2023)."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from ..config import ViTConfig
from ..data.download import fetch
from ..model import VisionTransformer
from ..model_card import ModelCard
from ..saving import read
from .converting import convert_tensors
from .tensor_names import fold_layer_scale

SHIPPED = Path(__file__).with_name("shipped_files") / "dinov2-s14.safetensors"
META = "https://dl.fbaipublicfiles.com/dinov2/dinov2_vits14/dinov2_vits14_pretrain.pth"
META_SHA256 = "b938bf1bc15cd2ec0feacfe3a1bb553fe8ea9ca46a7e1d8d00217f29aef60cd9"


def dinov2_tensors() -> dict[str, Tensor]:
    """Return the 174 tensors that ship, in float32, under the names of Meta's own file, with LayerScale.

    They are stored in half precision. Source: Oquab et al. 2023 (arXiv 2304.07193), Apache License 2.0.
    """
    return {name: tensor.float() for name, tensor in read(SHIPPED)[0].items()}


def load_dinov2() -> VisionTransformer:
    """Build our own model of the shipped tensors, for 518×518 pixels, with LayerScale folded, without classes."""
    tensors, about = read(SHIPPED)
    folded = fold_layer_scale({name: tensor.float() for name, tensor in tensors.items()})
    model = convert_tensors(folded, "timm", ViTConfig(**about["config"]))
    model.card = ModelCard(**about["card"])
    return model


def compare_with_meta(download: bool = True) -> dict[str, float]:
    """Return the largest difference between what ships and Meta's own file, rounded as ours is: {name: difference}.

    Our file came by another route (see its card), and was never compared: all are 0.0 if nothing was changed on the
    way. Meta's file (88 MB) is kept where torch.hub keeps its own; errors are those of `load_pretrained`.
    """
    path = Path(torch.hub.get_dir(), "checkpoints", Path(META).name)
    fetch(META, path, META_SHA256, 88, download)
    theirs = torch.load(path, map_location="cpu", weights_only=True)  # executes nothing
    return {name: (theirs[name].half() - ours).abs().max().item() for name, ours in read(SHIPPED)[0].items()}
