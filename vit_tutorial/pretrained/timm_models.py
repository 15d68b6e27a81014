"""Convert models of timm."""

from __future__ import annotations

import math

from torch import Tensor, nn

from ..config import to_pair
from ..model import VisionTransformer
from ..saving import unwrapped
from .converting import convert_model, write_card

POOL_NAMES = {"token": "cls", "avg": "mean"}


def from_timm(model: nn.Module) -> VisionTransformer:
    """Convert a `timm` VisionTransformer: equal logits, the same dtype and device, no dropout.

    A model in a wrapper (torch.compile, DataParallel) is taken out of it first. LayerScale (DINOv2, DeiT III) is
    folded. Its card has the mean, the spread and the preprocessing of `model.pretrained_cfg`, where there is one.

    Raises ValueError that names what a VisionTransformer cannot have (registers, SwiGLU, a norm after pooling, …), or
    lists the tensors that do not fit.
    """
    model = unwrapped(model)

    def with_class_position(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        if getattr(model, "no_embed_class", False) and model.pos_embed is not None:  # the class token has no position
            tensors["pos_embed"] = nn.functional.pad(tensors["pos_embed"], (0, 0, 1, 0))
        return tensors

    ours = convert_model(model, "timm", timm_facts, with_class_position)
    known = getattr(model, "pretrained_cfg", None) or {}
    source = ".".join(filter(None, [known.get("architecture"), known.get("tag")]))
    scale = known.get("mean"), known.get("std")
    names = known.get("label_names") or imagenet_names(ours.config.num_classes, known)
    return write_card(ours, f"from timm {source}".strip(), *scale, names, timm_preprocessing(ours, known))


def imagenet_names(count: int, known: dict) -> list[str] | None:
    """Return the names of ImageNet's 1,000 classes for weights whose tag says that they were trained on them."""
    if count != 1000 or not str(known.get("tag")).endswith("in1k"):
        return None
    from timm.data import ImageNetInfo

    info = ImageNetInfo()
    return [info.index_to_description(number) for number in range(count)]


def timm_preprocessing(model: VisionTransformer, known: dict) -> dict | None:
    """Return how timm fits a photo: `crop_pct` is the share of the resized photo that the centre crop keeps."""
    height, width = to_pair(model.config.image_size)
    mode, interpolation = known.get("crop_mode", "center"), known.get("interpolation", "bicubic")
    if mode not in ("center", "squash") or "crop_pct" not in known or (height != width and mode == "center"):
        return None
    resized = math.floor(height / known["crop_pct"])
    return {"resize": resized, "crop": height, "squeeze": mode == "squash", "interpolation": interpolation}


def timm_facts(model: nn.Module) -> dict:
    if model.global_pool not in POOL_NAMES:
        raise ValueError(
            f"this model pools by {model.global_pool!r} (global_pool), which a VisionTransformer cannot do"
        )
    return {
        "image_size": model.patch_embed.img_size,
        "num_heads": model.blocks[0].attn.num_heads,
        "position": "none" if model.pos_embed is None else "learned",
        "pool": POOL_NAMES[model.global_pool],
    }
