"""Models of torchvision, with the names and numbers of its weight registry."""

from __future__ import annotations

from torch import nn
from torchvision.models import WeightsEnum

from ..config import ViTConfig
from ..model import VisionTransformer
from .converting import convert_model
from .published_cards import write_card
from .unsupported import count_classes, norm_eps


def from_torchvision(model: nn.Module, weights: WeightsEnum | None = None) -> VisionTransformer:
    """A `torchvision.models.VisionTransformer` as ours, with equal logits, in its dtype and on its device.

    With `weights`, the member of torchvision's registry that the model was built from, there is a card: it has the
    class names and the scale of the pixels, and `predict` its preprocessing. Dropout takes no part in the logits, and
    is not carried over.

    Raises ValueError that names the part for what a VisionTransformer cannot be (a convolutional stem), or lists the
    tensors that do not fit. Warns of a head of zeros.
    """
    ours = convert_model(model, "torchvision", read_config)
    return write_card(ours, **(facts(weights) if weights else {"weights": "from torchvision"}))


def read_config(model: nn.Module) -> ViTConfig:
    return ViTConfig(
        image_size=model.image_size,
        patch_size=model.patch_size,
        in_channels=model.conv_proj.in_channels,
        num_classes=count_classes(model.heads.head),
        embed_dim=model.hidden_dim,
        depth=len(model.encoder.layers),
        num_heads=model.encoder.layers[0].num_heads,
        mlp_dim=model.mlp_dim,
        representation_size=model.heads.pre_logits.out_features if hasattr(model.heads, "pre_logits") else None,
        norm_eps=norm_eps(model),
    )


def facts(weights: WeightsEnum) -> dict:
    """What torchvision's registry has for a card."""
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
