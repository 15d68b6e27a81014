"""Convert models of torchvision, timm and transformers to ours: what each says of its sizes, names and pictures."""

from __future__ import annotations

import math
from enum import Enum

from jaxtyping import Float
from PIL import Image
from torch import Tensor, nn

from ..model import VisionTransformer
from ..model_card import PREPROCESSING
from .converting import convert_model, require_fields, with_card

POOL_NAMES = {"token": "cls", "avg": "mean"}
# Fields of an image processor that are read, and those that change no pixel of a colour photo.
READ = {"image_mean", "image_std", "size", "resample", "do_center_crop", "crop_size"}
AS_EVER = {"do_resize": True, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True}
HARMLESS = {"image_processor_type", "do_convert_rgb", "do_reduce_labels", "pad_size", "data_format", "auto_map"}
DINOV2_NAMES = {".encoder.layer.": ".layers.", ".norm1.": ".layernorm_before.", ".norm2.": ".layernorm_after."}


def from_torchvision(model: nn.Module, weights: Enum | None = None) -> VisionTransformer:
    """Convert a `torchvision.models.VisionTransformer`: equal logits, the same dtype and device, no dropout.

    Its `heads` may have been replaced by a linear layer.
    With `weights`, the member of torchvision's registry that the model was built from, it gets a card with class
    names, the scale of the pixels and the preprocessing for `predict`:

        weights = ViT_B_16_Weights.DEFAULT
        model = from_torchvision(vit_b_16(weights=weights), weights)

    Raises ValueError that names or lists the tensors that do not fit.
    """
    if isinstance(weights, str):
        member = "a member of torchvision's registry, such as ViT_B_16_Weights.DEFAULT"
        raise ValueError(f"weights must be {member}, got {weights!r}")
    ours = convert_model(model, "torchvision", torchvision_facts, lambda tensors, _: tensors)
    if weights is None:
        return ours
    transforms, facts = weights.transforms(), weights.meta
    preprocessing = {
        "resize": transforms.resize_size[0],
        "crop": transforms.crop_size[0],
        "squeeze": False,
        "interpolation": transforms.interpolation.value,
    }
    about = {"weights": f"torchvision, {weights}", "url": weights.url, "recipe": facts.get("recipe")}
    about |= {"metrics": facts["_metrics"], PREPROCESSING: preprocessing}
    return with_card(ours, facts["categories"], transforms.mean, transforms.std, about)


def torchvision_facts(model: nn.Module) -> dict:
    return {"image_size": model.image_size, "num_heads": model.encoder.layers[0].num_heads}


def from_timm(model: nn.Module) -> VisionTransformer:
    """Convert a `timm` VisionTransformer: equal logits, the same dtype and device, no dropout.

    LayerScale (DINOv2, DeiT III) is folded. Its card has the mean, the spread and the preprocessing of
    `model.pretrained_cfg`, where there is one.

    Raises ValueError that names what a VisionTransformer cannot have (registers, SwiGLU, …) or a card cannot say, or
    lists the tensors that do not fit.
    """
    ours = convert_model(model, "timm", timm_facts, timm_tensors)
    known = getattr(model, "pretrained_cfg", None) or {}
    if not known.get("mean") or len(known["mean"]) != ours.config.in_channels:
        return ours  # nothing says how its pixels are scaled
    from timm.data import ImageNetInfo, resolve_model_data_config

    asked = resolve_model_data_config(model)
    source = ".".join(filter(None, [known.get("architecture"), known.get("tag")]))
    about = {"weights": f"from timm {source}".strip(), PREPROCESSING: timm_preprocessing(asked)}
    names = known.get("label_names")
    if not names and source.endswith("in1k"):  # trained on the 1,000 classes of ImageNet
        names = ImageNetInfo().label_descriptions()
    return with_card(ours, names, asked["mean"], asked["std"], about)


def timm_preprocessing(asked: dict) -> dict:
    """Return how timm fits a photo: `crop_pct` is the share of the resized photo that the centre crop keeps."""
    _, height, width = asked["input_size"]
    fits = {
        "crop_mode": asked["crop_mode"] == "center",
        "interpolation": asked["interpolation"] != "random",
        "input_size": height == width,
    }
    require_fields(asked, fits, "pretrained_cfg (a model without one is converted, and has no card)")
    resized = math.floor(height / asked["crop_pct"])
    return {"resize": resized, "crop": height, "squeeze": False, "interpolation": asked["interpolation"]}


def timm_facts(model: nn.Module) -> dict:
    if model.global_pool not in POOL_NAMES:
        raise ValueError(f"this model pools by {model.global_pool!r} (global_pool): VisionTransformer cannot")
    return {
        "image_size": model.patch_embed.img_size,
        "num_heads": model.blocks[0].attn.num_heads,
        "pool": POOL_NAMES[model.global_pool],
    }


def timm_tensors(tensors: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    if model.no_embed_class:  # the class token has no position: add zeros
        tensors["pos_embed"] = nn.functional.pad(tensors["pos_embed"], (0, 0, 1, 0))
    return tensors


def from_transformers(model: nn.Module, processor: object | None = None) -> VisionTransformer:
    """Convert a `transformers.ViTForImageClassification`: equal logits, the same dtype and device, no dropout.

    A `ViTModel` or a `Dinov2Model` becomes a model without classes; LayerScale is folded, and a pooler left out.
    With its image `processor`, which knows how a photo is fitted and its pixels are scaled, it gets a card.

    Raises ValueError that names what a VisionTransformer cannot have (the distillation token of every DeiT of
    transformers, registers, SwiGLU, …) or a card cannot say, or lists the tensors that do not fit.
    """
    if type(model).__name__ in ("ViTModel", "Dinov2Model"):
        model = Headless(model)
    ours, config = convert_model(model, "transformers", transformers_facts, transformers_tensors), model.config
    if processor is None:
        return ours
    names = [config.id2label[i] for i in range(ours.config.num_classes)]
    about = {"weights": f"from transformers {config.name_or_path}".strip(), PREPROCESSING: read_processor(processor)}
    return with_card(ours, names, processor.image_mean, processor.image_std, about)


class Headless(nn.Module):
    """An encoder of transformers where its ViT has one, with a place for the head that it lacks."""

    def __init__(self, encoder: nn.Module):
        super().__init__()
        self.config, self.vit, self.classifier = encoder.config, encoder, nn.Identity()

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D"]:
        return self.classifier(self.vit(images).last_hidden_state[:, 0])


def transformers_tensors(tensors: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """Give the tensors of DINOv2 the names that ViT has for them."""
    for name in list(tensors):
        renamed = name
        for piece, vit_piece in DINOV2_NAMES.items():
            renamed = renamed.replace(piece, vit_piece)
        tensors[renamed] = tensors.pop(name)
    return tensors


def transformers_facts(model: nn.Module) -> dict:
    return {"image_size": model.config.image_size, "num_heads": model.config.num_attention_heads}


def read_processor(processor: object) -> dict:
    """Return how a photo is fitted. Raises ValueError for what is no image processor, or does what no card can say."""
    if not hasattr(processor, "image_mean"):
        made = f"AutoImageProcessor.from_pretrained({processor!r:.80})"
        raise ValueError(f"processor is an image processor, such as {made} makes, got {type(processor).__name__}")
    asked = processor.to_dict()
    size, cropped, keeps_shape = asked["size"], asked.get("do_center_crop"), "shortest_edge" in asked["size"]
    resized = [size.get("shortest_edge") or size.get(side) or 0 for side in ("height", "width")]
    kept = [asked["crop_size"][side] for side in ("height", "width")] if cropped else resized
    others = {field: not value for field, value in asked.items() if field not in READ | HARMLESS and field[0] != "_"}
    fits = {
        "image_mean": isinstance(asked["image_mean"], (list, tuple)),  # for each channel
        "size": set(size) in ({"shortest_edge"}, {"height", "width"}),
        "do_center_crop": cropped or not keeps_shape,  # else every photo has its own size
        "crop_size": resized[0] * kept[1] == resized[1] * kept[0],  # the same share of height and width
    }
    as_ever = {field: asked[field] == value for field, value in AS_EVER.items()}
    require_fields(asked, others | as_ever | fits, type(processor).__name__)
    interpolation = Image.Resampling(asked["resample"]).name.lower()
    return {"resize": resized[0], "crop": kept[0], "squeeze": not keeps_shape, "interpolation": interpolation}
