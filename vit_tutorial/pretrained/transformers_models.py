"""Convert models of transformers to ours."""

from __future__ import annotations

from jaxtyping import Float
from PIL import Image
from torch import Tensor, nn

from ..model import VisionTransformer
from ..saving import unwrapped
from .converting import convert_model, with_card


def from_transformers(model: nn.Module, processor: object | None = None) -> VisionTransformer:
    """Convert a `transformers.ViTForImageClassification`: equal logits, the same dtype and device, no dropout.

    A `Dinov2Model` becomes a model without classes, with its LayerScale folded.
    A model in a wrapper (torch.compile, DataParallel) is taken out of it first.
    With its image `processor`, which knows the scale of the pixels, it gets a card.

    Raises ValueError that names what a VisionTransformer cannot have (the distillation token of every DeiT of
    transformers, registers, SwiGLU, …), or lists the tensors that do not fit.
    """
    model = unwrapped(model)
    if type(model).__name__ == "Dinov2Model":
        model = Headless(model)
    ours, config = convert_model(model, "transformers", transformers_facts, vit_names), model.config
    if processor is None:
        return ours
    names = [config.id2label[i] for i in range(ours.config.num_classes)]
    unnamed = names == [f"LABEL_{i}" for i in range(len(names))]
    scale = (processor.image_mean, processor.image_std) if processor.do_normalize else ([0.0] * 3, [1.0] * 3)
    source = f"from transformers {config.name_or_path}".strip()
    return with_card(ours, source, *scale, None if unnamed else names, processor_preprocessing(processor))


class Headless(nn.Module):
    """An encoder of transformers where its ViT has one, with a place for the head that it lacks."""

    def __init__(self, encoder: nn.Module):
        super().__init__()
        self.config, self.vit, self.classifier = encoder.config, encoder, nn.Identity()

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D"]:
        return self.classifier(self.vit(images).pooler_output)


def vit_names(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Give the tensors of DINOv2 the names that ViT has for them."""
    words = {".encoder.layer.": ".layers.", ".norm1.": ".layernorm_before.", ".norm2.": ".layernorm_after."}
    renamed = {}
    for name, tensor in tensors.items():
        for word, vit_word in words.items():
            name = name.replace(word, vit_word)
        renamed[name] = tensor
    return renamed


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
