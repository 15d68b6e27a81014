"""Models of transformers."""

from __future__ import annotations

from collections.abc import Sequence

from PIL import Image
from torch import nn

from ..config import ViTConfig
from ..model import VisionTransformer
from .converting import convert_model
from .published_cards import write_card
from .unsupported import count_classes, norm_eps


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
    source, classes = f"from transformers {model.config.name_or_path}".strip(), None if unnamed else names
    if processor is None:
        return write_card(ours, source)
    mean, std = scale(processor)
    return write_card(ours, source, mean, std, classes, preprocessing(processor))


def scale(processor: object) -> tuple[Sequence[float], Sequence[float]]:
    """Mean and standard deviation of pixels in [0, 1]."""
    if not processor.do_normalize:
        return (0.0, 0.0, 0.0), (1.0, 1.0, 1.0)
    return processor.image_mean, processor.image_std


def preprocessing(processor: object) -> dict:
    """How the processor fits a photo: "shortest_edge" keeps its shape, "height" and "width" do not."""
    size, interpolation = processor.size, Image.Resampling(processor.resample).name.lower()
    crop = {"crop": processor.crop_size["height"]} if getattr(processor, "do_center_crop", False) else {}
    if "shortest_edge" in size:
        return {"resize": size["shortest_edge"], "crop": size["shortest_edge"], **crop, "interpolation": interpolation}
    to = {"to": size["height"], **crop} if crop else {}
    return {"resize": "both sides", **to, "interpolation": interpolation}


def read_config(model: nn.Module) -> ViTConfig:
    config = model.config
    return ViTConfig(
        image_size=config.image_size,
        patch_size=config.patch_size,
        in_channels=config.num_channels,
        num_classes=count_classes(model.classifier),
        embed_dim=config.hidden_size,
        depth=config.num_hidden_layers,
        num_heads=config.num_attention_heads,
        mlp_dim=config.intermediate_size,
        norm_eps=norm_eps(model),
    )
