"""Convert models of transformers to ours."""

from __future__ import annotations

from PIL import Image
from torch import nn

from ..model import VisionTransformer
from ..saving import unwrapped
from .converting import convert_model, write_card


def from_transformers(model: nn.Module, processor: object | None = None) -> VisionTransformer:
    """Convert a `transformers.ViTForImageClassification`: equal logits, the same dtype and device, no dropout.

    A model in a wrapper (torch.compile, DataParallel) is taken out of it first.
    With its image `processor`, which knows the scale of the pixels, it gets a card.

    Raises ValueError that names what a VisionTransformer cannot have (the distillation token of every DeiT of
    transformers, LayerScale, …), or lists the tensors that do not fit.
    """
    model = unwrapped(model)
    ours, config = convert_model(model, "transformers", transformers_facts), model.config
    if processor is None:
        return ours
    names = [config.id2label[i] for i in range(ours.config.num_classes)]
    unnamed = names == [f"LABEL_{i}" for i in range(len(names))]
    scale = (processor.image_mean, processor.image_std) if processor.do_normalize else ([0.0] * 3, [1.0] * 3)
    source = f"from transformers {config.name_or_path}".strip()
    return write_card(ours, source, *scale, None if unnamed else names, processor_preprocessing(processor))


def transformers_facts(model: nn.Module) -> dict:
    return {"image_size": model.config.image_size, "num_heads": model.config.num_attention_heads}


def processor_preprocessing(processor: object) -> dict:
    """Return how the processor fits a photo: "shortest_edge" keeps its shape, "height" and "width" do not."""
    resized = processor.size.get("shortest_edge") or processor.size["height"]
    return {
        "resize": resized,
        "crop": processor.crop_size["height"] if getattr(processor, "do_center_crop", False) else resized,
        "squeeze": "shortest_edge" not in processor.size,
        "interpolation": Image.Resampling(processor.resample).name.lower(),
    }
