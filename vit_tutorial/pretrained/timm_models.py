"""Convert models of timm to ours, and ours to timm's."""

from __future__ import annotations

import math
from functools import partial

from torch import Tensor, nn

from ..config import GELUS, to_pair
from ..model import VisionTransformer
from ..model_card import PREPROCESSING
from ..saving import as_vit, unwrapped
from .converting import convert_model, with_card
from .tensor_names import POSITION, as_theirs

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
    return with_card(ours, f"from timm {source}".strip(), *scale, names, timm_preprocessing(ours, known))


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


def to_timm(model: VisionTransformer) -> nn.Module:
    """Build a `timm` VisionTransformer with equal logits, in the model's dtype and on its device, with its card.

    Positions become learned ones, whatever they were. Raises ImportError without timm, ValueError for a
    representation layer or a backbone, for which timm's has no place.
    """
    try:
        from timm.layers import LayerNorm
        from timm.models.vision_transformer import VisionTransformer as TimmVisionTransformer
    except ImportError as error:  # timm itself, or torchvision, which it needs
        raise ImportError(f"to_timm builds a model of timm: {error}. pip install timm") from None

    model = as_vit(model)
    if hasattr(model.embeddings.patches, "backbone"):
        raise ValueError("this model has a backbone in front: a VisionTransformer of timm has no place for it")
    config = model.config
    tensors = {name: tensor for name, tensor in model.state_dict().items() if ".position." not in name}
    tensors[POSITION] = model.embeddings.position().detach()
    named = as_theirs(tensors, "timm")
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
        mlp_ratio=(config.mlp_dim + 0.5) / config.embed_dim,  # timm rounds the product down
        norm_layer=partial(LayerNorm, eps=config.norm_eps),
        act_layer=partial(nn.GELU, approximate=GELUS[config.gelu]),
        pos_drop_rate=config.dropout,
        proj_drop_rate=config.dropout,
        attn_drop_rate=config.attention_dropout,
        drop_path_rate=config.drop_path,
    ).to(next(model.parameters()))
    theirs.load_state_dict(named)
    if model.card:
        theirs.pretrained_cfg = theirs.default_cfg = timm_cfg(model)
    return theirs.train(model.training)


def timm_cfg(model: VisionTransformer) -> dict:
    """Return the card in timm's words, for `timm.data.resolve_model_data_config`."""
    plain = {"resize": 1, "crop": 1, "squeeze": False, "interpolation": "bicubic"}
    asked = model.card.about.get(PREPROCESSING, plain)
    return {
        "input_size": (model.config.in_channels, *to_pair(model.config.image_size)),
        "num_classes": model.config.num_classes,
        "label_names": model.card.classes,
        "mean": model.card.mean,
        "std": model.card.std,
        "crop_pct": asked["crop"] / asked["resize"],
        "crop_mode": "squash" if asked["squeeze"] else "center",
        "interpolation": asked["interpolation"],
    }
