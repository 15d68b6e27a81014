"""Models of transformers."""

from __future__ import annotations

from torch import nn

from ..config import Size, ViTConfig, to_pair
from ..model import VisionTransformer
from .cards import WHOLE_PHOTO, write_card
from .converting import convert_model
from .refusing import count_classes, norm_eps


def from_transformers(model: nn.Module, processor: object | None = None) -> VisionTransformer:
    """A `transformers.ViTForImageClassification` as ours, with equal logits, in its dtype and on its device.

    The class names are in the model, the scale of the pixels is in its image processor: with `processor` there is a
    card. Dropout takes no part in the logits, and is not carried over.

    Raises ValueError that names the part for what a VisionTransformer cannot be (the distillation token that every
    DeiT of transformers has, LayerScale, ...), or lists the tensors that do not fit. Warns of a head of zeros.
    """
    ours = convert_model(model, "transformers", read_config)
    names = [model.config.id2label[i] for i in range(ours.config.num_classes)]
    unnamed = names == [f"LABEL_{i}" for i in range(len(names))]
    return write_card(
        ours,
        f"from transformers {model.config.name_or_path}".strip(),
        getattr(processor, "image_mean", None),
        getattr(processor, "image_std", None),
        None if unnamed else names,
        WHOLE_PHOTO,
    )


def read_config(model: nn.Module) -> ViTConfig:
    config = model.config
    return ViTConfig(
        image_size=to_size(config.image_size),
        patch_size=to_size(config.patch_size),
        in_channels=config.num_channels,
        num_classes=count_classes(model.classifier),
        embed_dim=config.hidden_size,
        depth=config.num_hidden_layers,
        num_heads=config.num_attention_heads,
        mlp_dim=config.intermediate_size,
        norm_eps=norm_eps(model),
    )


def to_size(size: int | list[int] | tuple[int, ...]) -> Size:
    height, width = to_pair(size)
    return height if height == width else (height, width)
