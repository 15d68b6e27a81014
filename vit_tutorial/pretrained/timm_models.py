"""Models of timm, there and back."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor, nn

from ..config import ViTConfig, to_pair
from ..model import VisionTransformer
from .converting import convert_model
from .published_cards import PREPROCESSING, write_card
from .tensor_names import as_theirs
from .unsupported import count_classes, norm_eps

POOL_NAMES = {"token": "cls", "avg": "mean"}


def from_timm(model: nn.Module) -> VisionTransformer:
    """A `timm` VisionTransformer as ours, with equal logits, in its dtype and on its device.

    Its card has the mean, the spread and the preprocessing of `model.pretrained_cfg`, where there is one. Dropout
    takes no part in the logits, and is not carried over.

    Raises ValueError that names the part for what a VisionTransformer cannot be (LayerScale, registers, the norm after
    pooling, ...), or lists the tensors that do not fit. Warns of a head of zeros.
    """
    ours = convert_model(model, "timm", read_config, **with_class_position(model))
    known = getattr(model, "pretrained_cfg", None) or {}
    source = ".".join(filter(None, [known.get("architecture"), known.get("tag")]))
    classes = known.get("label_names")
    return write_card(
        ours, f"from timm {source}".strip(), known.get("mean"), known.get("std"), classes, preprocessing(ours, known)
    )


def with_class_position(model: nn.Module) -> dict[str, Tensor]:
    """Where only patches have positions (`no_embed_class`), the class token's position is zero."""
    position = getattr(model, "pos_embed", None)
    if position is None or not getattr(model, "no_embed_class", False):
        return {}
    return {"pos_embed": torch.cat([torch.zeros_like(position[:, :1]), position], dim=1).detach()}


def preprocessing(model: VisionTransformer, known: dict) -> dict | None:
    """timm's own: `crop_pct` is the part of the resized photo that the middle shows."""
    height, width = to_pair(model.config.image_size)
    mode, interpolation = known.get("crop_mode", "center"), known.get("interpolation", "bicubic")
    if mode not in ("center", "squash") or "crop_pct" not in known or (height != width and mode == "center"):
        return None
    to = {"crop": height, "interpolation": interpolation}
    resize = math.floor(height / known["crop_pct"])
    return {"resize": "both sides", "to": resize, **to} if mode == "squash" else {"resize": resize, **to}


def read_config(model: nn.Module) -> ViTConfig:
    if model.cls_token is None:
        raise ValueError("this model has no class token (cls_token): VisionTransformer always has one")
    if not isinstance(model.norm, nn.LayerNorm):
        raise ValueError(f"this model has no norm after the encoder (norm: {type(model.norm).__name__})")
    if model.global_pool not in POOL_NAMES:
        raise ValueError(f"this model pools by {model.global_pool!r} (global_pool): VisionTransformer cannot")
    if model.global_pool == "avg" and model.pool_include_prefix:
        raise ValueError("this model takes the class token into the mean (pool_include_prefix): ours does not")
    block = model.blocks[0]
    return ViTConfig(
        image_size=model.patch_embed.img_size,
        patch_size=model.patch_embed.patch_size,
        in_channels=model.patch_embed.proj.in_channels,
        num_classes=count_classes(model.head),
        embed_dim=model.embed_dim,
        depth=len(model.blocks),
        num_heads=block.attn.num_heads,
        mlp_dim=block.mlp.fc1.out_features,
        position="none" if model.pos_embed is None else "learned",
        pool=POOL_NAMES[model.global_pool],
        norm_eps=norm_eps(model),
    )


def to_timm(model: VisionTransformer) -> nn.Module:
    """Ours as a `timm` VisionTransformer, with equal logits, in its dtype and on its device, and its card's facts.

    Positions become learned ones, whatever they were. Raises ImportError without timm, ValueError for a
    representation layer or a backbone, which timm's has no place for.
    """
    try:
        from timm.layers import LayerNorm
        from timm.models.vision_transformer import VisionTransformer as TimmVisionTransformer
    except ImportError:
        raise ImportError("to_timm builds a model of timm, which is not installed: pip install timm") from None

    if hasattr(model.embeddings.patches, "backbone"):
        raise ValueError("this model has a backbone in front: a VisionTransformer of timm has no place for it")
    config = model.config
    tensors = model.state_dict() | {"embeddings.position.table": model.embeddings.position().detach()}
    tensors = {name: tensor for name, tensor in tensors.items() if "position" not in name or name.endswith("table")}
    named = as_theirs(tensors, "timm", config.num_heads)
    theirs = TimmVisionTransformer(
        img_size=to_pair(config.image_size),
        patch_size=to_pair(config.patch_size),
        in_chans=config.in_channels,
        num_classes=config.num_classes,
        global_pool={ours: theirs for theirs, ours in POOL_NAMES.items()}[config.pool],
        fc_norm=False,  # timm's mean is taken before the norm unless told; ours after it
        embed_dim=config.embed_dim,
        depth=config.depth,
        num_heads=config.num_heads,
        mlp_ratio=(config.mlp_dim + 0.5) / config.embed_dim,  # timm cuts the product off at the point
        norm_layer=partial(LayerNorm, eps=config.norm_eps),
        pos_drop_rate=config.dropout,
        proj_drop_rate=config.dropout,
        attn_drop_rate=config.attention_dropout,
        drop_path_rate=config.drop_path,
    ).to(next(model.parameters()))
    theirs.load_state_dict(named)
    if model.card:
        theirs.pretrained_cfg = theirs.default_cfg = describe(model)
    return theirs.train(model.training)


def describe(model: VisionTransformer) -> dict:
    """The card in timm's words, for `timm.data.resolve_model_data_config`."""
    size = (model.config.in_channels, *to_pair(model.config.image_size))
    facts = {"input_size": size, "num_classes": model.config.num_classes, "label_names": model.card.classes}
    asked = model.card.about.get(PREPROCESSING, {})
    both = asked.get("resize") == "both sides"
    crop = asked["crop"] / asked["to" if both else "resize"] if "crop" in asked else 1.0
    mode = "squash" if both else "center"
    facts |= {"crop_pct": crop, "crop_mode": mode, "interpolation": asked.get("interpolation", "bicubic")}
    return facts | {"mean": model.card.mean, "std": model.card.std}
