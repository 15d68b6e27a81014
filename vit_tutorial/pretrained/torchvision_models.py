"""Convert models of torchvision, and load the weights that it publishes, from its cache or over the network."""

from __future__ import annotations

from enum import Enum
from pathlib import Path

import torch
from torch import nn

from ..config import ViTConfig
from ..data.download import fetch
from ..errors import require_choice
from ..model import VisionTransformer
from ..saving import unwrapped
from .converting import convert_model, convert_tensors, with_card

PUBLISHED = {"B/16": "vit_b_16", "B/32": "vit_b_32", "L/16": "vit_l_16", "L/32": "vit_l_32"}


def from_torchvision(model: nn.Module, weights: Enum | None = None) -> VisionTransformer:
    """Convert a `torchvision.models.VisionTransformer`: equal logits, the same dtype and device, no dropout.

    Its `heads` may have been replaced by a linear layer; a wrapper (torch.compile, DataParallel) is taken off first.
    With `weights`, the member of torchvision's registry that the model was built from, it gets a card with class
    names, the scale of the pixels and the preprocessing for `predict`.

    Raises ValueError that names what a VisionTransformer cannot have (a convolutional stem), or lists the tensors that
    do not fit.
    """
    if isinstance(weights, str):
        member = "a member of torchvision's registry, such as ViT_B_16_Weights.DEFAULT"
        raise ValueError(f"weights must be {member}, got {weights!r}")
    ours = convert_model(unwrapped(model), "torchvision", torchvision_facts)
    return with_card(ours, **registry_card(weights)) if weights else ours


def torchvision_facts(model: nn.Module) -> dict:
    return {"image_size": model.image_size, "num_heads": model.encoder.layers[0].num_heads}


def registry_card(weights: Enum) -> dict:
    """Return what torchvision's registry says, as arguments for `with_card`."""
    transforms = weights.transforms()
    return {
        "weights": f"torchvision, {weights}",
        "mean": transforms.mean,
        "std": transforms.std,
        "classes": weights.meta["categories"],
        "preprocessing": {
            "resize": transforms.resize_size[0],
            "crop": transforms.crop_size[0],
            "squeeze": False,
            "interpolation": transforms.interpolation.value,
        },
        "url": weights.url,
        "recipe": weights.meta.get("recipe"),
        "metrics": weights.meta["_metrics"],
    }


def load_pretrained(name: str, download: bool = True) -> VisionTransformer:
    """Load a model trained on ImageNet by torchvision's authors: "B/16", "B/32" (330 MB), "L/16" or "L/32" (1.2 GB).

    Its card has the 1000 class names, and the preprocessing for `predict`. The file is looked for where torchvision
    keeps its own (`torch.hub.get_dir()`), and downloaded to that place if it is missing or broken, with progress on
    stderr. The model is ready to predict (`eval`).

    Raises ValueError for another name, ConnectionError that says what to do if there is neither file nor connection,
    and FileNotFoundError if there is no file and `download` is False.
    """
    from torchvision.models import get_model_weights

    require_choice("published model", name, PUBLISHED)
    weights = get_model_weights(PUBLISHED[name]).IMAGENET1K_V1
    path = Path(torch.hub.get_dir(), "checkpoints", Path(weights.url).name)
    sha256 = path.stem.partition("-")[2]  # its start is part of the name: vit_b_16-c867db91.pth
    fetch(weights.url, path, sha256, round(weights.meta["_file_size"]), download)
    tensors = torch.load(path, map_location="cpu", weights_only=True)  # executes nothing
    # torchvision's MLP was two layers with names when these files were written.
    tensors = {name.replace("linear_1.", "0.").replace("linear_2.", "3."): t for name, t in tensors.items()}
    return with_card(convert_tensors(tensors, "torchvision", ViTConfig.named(name)), **registry_card(weights))
