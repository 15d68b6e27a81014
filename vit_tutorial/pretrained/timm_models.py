"""Convert models of timm to ours."""

from __future__ import annotations

import math

from torch import Tensor, nn

from ..config import to_pair
from ..model import VisionTransformer
from ..saving import unwrapped
from .converting import convert_model, with_card

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
    return with_card(
        ours, f"from timm {source}".strip(), *scale, known.get("label_names"), timm_preprocessing(ours, known)
    )


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
