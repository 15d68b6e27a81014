"""Convert models of torchvision, timm and transformers to ours: what each says of its sizes, names and pictures."""

import math
import re
from collections.abc import Mapping, Sequence
from enum import Enum

from PIL import Image
from torch import Tensor, nn

from ..model import VisionTransformer
from ..model_card import PREPROCESSING, ModelCard
from .converting import convert_model

POOL_NAMES = {"token": "cls", "avg": "mean"}
# Fields of an image processor: read, with the one value that we know, and without effect on a colour photo.
READ = {"image_mean", "image_std", "size", "resample", "do_center_crop", "crop_size"}
AS_EVER = {"do_resize": True, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True}
HARMLESS = {"image_processor_type", "do_convert_rgb", "do_reduce_labels", "pad_size", "data_format", "auto_map"}
DINOV2_NAMES = {".encoder.layer.": ".layers.", ".norm1.": ".layernorm_before.", ".norm2.": ".layernorm_after."}


def from_torchvision(model: nn.Module, weights: Enum | None = None) -> VisionTransformer:
    """Convert a `torchvision.models.VisionTransformer`: equal logits, the same dtype and device, no dropout.

    Its `heads` may have been replaced by a linear layer. With the `weights` that it was built from, such as
    `ViT_B_16_Weights.DEFAULT`, it gets a card: class names, the scale of the pixels, the preprocessing for `predict`.
    Raises ValueError that names or lists the tensors that do not fit.
    """
    ours = convert_model(model, "torchvision", read_torchvision)
    if weights is None:
        return ours
    transforms = weights.transforms()
    size = transforms.crop_size[0]
    if size != ours.config.image_size:
        raise ValueError(f"{weights} is for images of {size}, this model of {ours.config.image_size}")
    preprocessing = {"resize": transforms.resize_size[0], "crop": size, "squeeze": False}
    preprocessing["interpolation"] = transforms.interpolation.value
    about = {"weights": f"torchvision, {weights}", "url": weights.url, PREPROCESSING: preprocessing}
    return with_card(ours, weights.meta["categories"], transforms.mean, transforms.std, about)


def read_torchvision(model: nn.Module, tensors: dict[str, Tensor]) -> tuple[dict, dict[str, Tensor]]:
    # A layer in the place of `heads` gets the name of the one inside.
    tensors = {re.sub(r"^heads\.(weight|bias)$", r"heads.head.\1", name): tensor for name, tensor in tensors.items()}
    return {"image_size": model.image_size, "num_heads": model.encoder.layers[0].num_heads}, tensors


def from_timm(model: nn.Module) -> VisionTransformer:
    """Convert a `timm` VisionTransformer: equal logits, the same dtype and device, no dropout.

    LayerScale (DINOv2, DeiT III) is folded. Its card is made of `model.pretrained_cfg`, where there is one. Raises
    ValueError that names what has no place in our model (registers, SwiGLU, …) or on its card, or does not fit.
    """
    ours = convert_model(model, "timm", read_timm)
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
    fits = {"crop_mode": asked["crop_mode"] == "center", "interpolation": asked["interpolation"] != "random"}
    fits["input_size"] = height == width
    require_fields(asked, fits, "pretrained_cfg (a model without one is converted, and has no card)")
    resized = math.floor(height / asked["crop_pct"])
    return {"resize": resized, "crop": height, "squeeze": False, "interpolation": asked["interpolation"]}


def read_timm(model: nn.Module, tensors: dict[str, Tensor]) -> tuple[dict, dict[str, Tensor]]:
    if model.global_pool not in POOL_NAMES:
        raise ValueError(f"this model pools by {model.global_pool!r} (global_pool): VisionTransformer cannot")
    if model.no_embed_class:  # the class token has no position: add zeros
        tensors["pos_embed"] = nn.functional.pad(tensors["pos_embed"], (0, 0, 1, 0))
    sizes = {"image_size": model.patch_embed.img_size, "num_heads": model.blocks[0].attn.num_heads}
    return {**sizes, "pool": POOL_NAMES[model.global_pool]}, tensors


def from_transformers(model: nn.Module, processor: object | None = None) -> VisionTransformer:
    """Convert a `transformers.ViTForImageClassification`: equal logits, the same dtype and device, no dropout.

    A `ViTModel` or a `Dinov2Model` becomes a model without classes; LayerScale is folded, and a pooler left out.
    With its image `processor` (`AutoImageProcessor.from_pretrained`) it gets a card. Errors are those of `from_timm`.
    """
    ours, config = convert_model(model, "transformers", read_transformers), model.config
    if processor is None:
        return ours
    names = [config.id2label[i] for i in range(ours.config.num_classes)]
    about = {"weights": f"from transformers {config.name_or_path}".strip(), PREPROCESSING: read_processor(processor)}
    return with_card(ours, names, processor.image_mean, processor.image_std, about)


def read_transformers(model: nn.Module, tensors: dict[str, Tensor]) -> tuple[dict, dict[str, Tensor]]:
    if not hasattr(model, "vit"):  # an encoder alone
        tensors = {f"vit.{name}": tensor for name, tensor in tensors.items()}
    for piece, vit_piece in DINOV2_NAMES.items():  # DINOv2 gets the names that ViT has for its tensors
        tensors = {name.replace(piece, vit_piece): tensor for name, tensor in tensors.items()}
    return {"image_size": model.config.image_size, "num_heads": model.config.num_attention_heads}, tensors


def read_processor(processor: object) -> dict:
    """Return how an image processor fits a photo. Raises ValueError for fields that no card can say."""
    asked = processor.to_dict()
    size, cropped, keeps_shape = asked["size"], asked.get("do_center_crop"), "shortest_edge" in asked["size"]
    resized = [size.get("shortest_edge") or size.get(side) or 0 for side in ("height", "width")]
    kept = [asked["crop_size"][side] for side in ("height", "width")] if cropped else resized
    # A field that we do not know changes nothing where it is off.
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


def with_card(
    model: VisionTransformer, classes: Sequence[str] | None, mean: Sequence[float], std: Sequence[float], about: Mapping
) -> VisionTransformer:
    """Return the model with a card. Classes without a name get a number."""
    K = model.config.num_classes
    if classes is None or len(classes) != K:
        classes = [f"class {number}" for number in range(K)]
    model.card = ModelCard(classes, mean, std, about)
    return model


def require_fields(asked: Mapping, fits: Mapping[str, bool], source: str) -> None:
    """Raise ValueError that lists the fields of a library's preprocessing that do not fit into a card."""
    unread = [f"{field}={asked.get(field)!r}" for field, value in fits.items() if not value]
    if unread:
        raise ValueError(f"{source}: these fields change pixels and are not read: {', '.join(unread)}")
