"""Read models of torchvision, and what its weight registry says about them."""

from __future__ import annotations

from torch import nn
from torchvision.models import WeightsEnum

from ..model import VisionTransformer
from .converting import convert_model
from .published_cards import write_card


def from_torchvision(model: nn.Module, weights: WeightsEnum | None = None) -> VisionTransformer:
    """Convert a `torchvision.models.VisionTransformer`: equal logits, the same dtype and device, no dropout.

    With `weights`, the member of torchvision's registry that the model was built from, it gets a card with class
    names, the scale of the pixels and the preprocessing for `predict`.

    Raises ValueError that names what a VisionTransformer cannot have (a convolutional stem), or lists the tensors that
    do not fit. Warns of a head of zeros.
    """
    ours = convert_model(model, "torchvision", read_facts)
    return write_card(ours, **(card_of(weights) if weights else {"weights": "from torchvision"}))


def read_facts(model: nn.Module) -> dict:
    return {"image_size": model.image_size, "num_heads": model.encoder.layers[0].num_heads}


def card_of(weights: WeightsEnum) -> dict:
    """Return what torchvision's registry says, as arguments for `write_card`."""
    transforms = weights.transforms()
    size = {"resize": transforms.resize_size[0], "crop": transforms.crop_size[0]}
    return {
        "weights": f"torchvision, {weights}",
        "mean": transforms.mean,
        "std": transforms.std,
        "classes": weights.meta["categories"],
        "preprocessing": size | {"interpolation": transforms.interpolation.value},
        "url": weights.url,
        "recipe": weights.meta.get("recipe"),
        "metrics": weights.meta["_metrics"],
    }
