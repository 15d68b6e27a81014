"""What a trained model says of a photo."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float, UInt8
from torch import Tensor
from torchvision.transforms.functional import InterpolationMode, center_crop, pil_to_tensor, resize, to_pil_image

from ..config import to_pair
from ..data import load_photo
from ..data.photo import check_area, find_photo, read_picture
from ..model import VisionTransformer
from ..modes import eval_mode
from ..validation import check_positive, check_size
from .cards import PREPROCESSING

TOLERANCE = 0.25  # beyond [0, 1]: what bicubic resizing may add


class Prediction(NamedTuple):
    """A class and how probable the model finds it, from 0 to 1."""

    name: str
    probability: float


@torch.no_grad()
def predict(
    model: VisionTransformer, photo: str | Path | Float[Tensor, "3 H W"] | UInt8[Tensor, "3 H W"], top: int = 5
) -> list[Prediction]:
    """The `top` most probable classes of a photo, the most probable first.

    A photo is a name or a path for `load_photo`, fitted to the model's size in the way that its card asks for; or a
    tensor of floats in [0, 1], or of bytes, that has that size. Raises ValueError for another tensor, for a model
    without a card, since nobody knows then what its numbers mean, and for one whose answer is not finite.
    """
    check_positive("top", top)
    if getattr(model, "card", None) is None:
        raise ValueError(
            "this model has no card: it does not know the names of its classes, nor how its pixels were scaled"
        )
    image = photo if isinstance(photo, Tensor) else fit_photo(photo, model)
    check_photo(image, len(model.card.mean))
    weight = next(model.parameters())
    pixels = model.card.normalise(image[None].to(weight.device)).to(weight.dtype)
    with eval_mode(model):
        logits = model(pixels)[0]
    check_logits(logits, len(model.card.classes))
    probabilities = logits.softmax(dim=0)
    values, classes = probabilities.topk(min(top, len(probabilities)))
    return [Prediction(model.card.classes[i], p) for p, i in zip(values.tolist(), classes.tolist(), strict=True)]


def check_photo(image: Tensor, channels: int) -> None:
    """Raises ValueError unless these are pixels as `load_photo` gives them. The size, the model checks."""
    if image.layout != torch.strided or image.is_meta:
        raise ValueError(f"a photo is a dense tensor with values, got {image.layout} on {image.device}")
    if image.ndim != 3 or len(image) != channels or 0 in image.shape:
        raise ValueError(f"a photo for this model has shape ({channels}, H, W), got {tuple(image.shape)}")
    if image.dtype == torch.uint8:
        return
    if not image.is_floating_point():
        raise ValueError(f"a photo must hold floats, got {image.dtype}: for values from 0 to 255, photo.float() / 255")
    low, high = image.min().item(), image.max().item()
    if not -TOLERANCE <= low <= high <= 1 + TOLERANCE:  # nan, too
        raise ValueError(
            f"a photo holds floats from 0 to 1, got {low:.4g} to {high:.4g}: for values from 0 to 255, photo / 255"
        )


def check_logits(logits: Float[Tensor, " K"], num_classes: int) -> None:
    if len(logits) != num_classes:
        raise ValueError(f"the model gives {len(logits)} logits, but its card names {num_classes} classes")
    if not logits.isfinite().all():
        raise ValueError(
            f"{(~logits.isfinite()).sum()} of the model's {len(logits)} logits are not finite: look at its weights"
        )


def fit_photo(photo: str | Path, model: VisionTransformer) -> Float[Tensor, "3 H W"]:
    """The photo as the model's card asks for it: `load_photo`, unless those who trained the model did something else.

    "shorter side to 256, middle 224" leaves a margin, of the same share at another image size; "both sides" squeezes.
    """
    if not hasattr(model, "config"):
        raise ValueError(f"{type(model).__name__} does not say its image size: give `predict` a tensor of that size")
    height, width = to_pair(model.config.image_size)
    asked = model.card.about.get(PREPROCESSING)
    if asked is None or (height != width and asked.get("resize") != "both sides"):
        return load_photo(photo, model.config.image_size)
    try:
        both, way = asked["resize"] == "both sides", InterpolationMode(asked["interpolation"])
        before, after = asked.get("to", 1) if both else asked["resize"], asked.get("crop", 1)
        size = tuple(side * before // after for side in ((height, width) if both else (height, height)))
        check_size("size", size)
        check_area(*size)
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        raise ValueError(f"the model's card asks for a preprocessing that cannot be done: {asked}") from None
    picture = to_pil_image(read_picture(find_photo(photo), None))
    picture = resize(picture, size if both else size[:1], way)
    return pil_to_tensor(center_crop(picture, [height, width])).float() / 255
