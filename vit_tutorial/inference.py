"""Use a trained model: put it in eval mode for a while, and ask it what is in a photo."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Shaped, UInt8
from PIL import Image
from torch import Tensor, nn

from .config import Size, to_pair
from .data.photo import as_tensor, crop_to, find_photo, open_picture, to_rgb
from .errors import require_whole
from .model_card import PREPROCESSING, ModelCard
from .patchify import require_images
from .saving import find_card, unwrapped

Photo = str | Path | Image.Image | np.ndarray
BATCH = 100  # images at a time: with more of them the tokens do not stay in the processor's cache
TOLERANCE = 0.25  # beyond [0, 1]: what bicubic resizing may add


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Put a model in eval mode temporarily: no dropout. Afterwards every part is in the mode that it was in."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


@torch.no_grad()
def logits_of(model: nn.Module, images: Float[Tensor, "B C H W"] | UInt8[Tensor, "B C H W"]) -> Float[Tensor, "B K"]:
    """Return the model's logits in eval mode for pixels in [0, 1], or bytes, scaled as its card asks: (B, K).

    Raises ValueError for other pixels, and for a model without a card, or with a card for another number of classes.
    """
    require_pixels(images)
    card, weight = require_card(model), next(model.parameters())
    with eval_mode(model):
        batches = (card.normalise(batch.to(weight.device)) for batch in images.split(BATCH))
        logits = torch.cat([model(batch.to(weight.dtype)) for batch in batches])
    require_logits(logits, len(card.classes))
    return logits


def require_pixels(images: Shaped[Tensor, "B C H W"]) -> None:
    """Raise ValueError unless these are images for `logits_of`: bytes, or floats from 0 to 1."""
    require_images(images)
    if images.dtype == torch.uint8:
        return
    low, high = images.float().min().item(), images.float().max().item()  # of uint16 there is no minimum
    if not images.is_floating_point() or not -TOLERANCE <= low <= high <= 1 + TOLERANCE:  # nan is not less
        found = f"got {images.dtype} from {low:.4g} to {high:.4g}: for values from 0 to 255, divide them by 255"
        raise ValueError(f"pixels are bytes, or floats from 0 to 1, {found}. They are normalised here, and not before")


def require_card(model: nn.Module) -> ModelCard:
    """Return the model's card, or its wrapper's. Raises ValueError if it has none."""
    if card := find_card(model):
        return card
    raise ValueError("the model has no card: nothing says what its classes are called, nor how pixels are scaled")


def require_logits(logits: Float[Tensor, "B K"], num_classes: int) -> None:
    if num_classes == 0:
        raise ValueError("the model has no classes, so it has no logits: `replace_head` gives it some, to be trained")
    if logits.ndim != 2 or logits.shape[1] != num_classes:
        way = f"build it for {num_classes}, or give a ViT a new head with `replace_head(model, {num_classes})`"
        raise ValueError(f"the model gives {logits.shape[-1]} logits for {num_classes} classes: {way}")


class Prediction(NamedTuple):
    """A class and how probable the model finds it, from 0 to 1."""

    name: str
    probability: float


def predict(model: nn.Module, photo: Photo | Shaped[Tensor, "3 H W"], top: int = 5) -> list[Prediction]:
    """Return the `top` most probable classes of a photo, the most probable first. Any model with a card will do.

    A photo is a name or a path for `load_photo`, a picture of Pillow or an array (H, W, 3) of NumPy, fitted to the
    model's size as its card asks; or a tensor (3, H, W) of that size. Arrays and tensors hold bytes, or floats from 0
    to 1. Raises ValueError for other values and shapes, and for a model without a card.
    """
    top, card = require_whole("top", top), require_card(model)
    image = photo if isinstance(photo, Tensor) else fit_photo(photo, model)
    if image.ndim != 3:
        raise ValueError(f"a photo has shape (3, H, W), got {tuple(image.shape)}: for a batch, `logits_of`")
    logits = logits_of(model, image[None])[0]
    values, indices = logits.softmax(dim=0).topk(min(top, len(logits)))
    return [Prediction(card.classes[i], p) for p, i in zip(values.tolist(), indices.tolist(), strict=True)]


def fit_photo(photo: Photo, model: nn.Module) -> Float[Tensor, "3 H W"]:
    """Fit a photo, as `predict` takes it, to the model's size as its card asks: (3, H, W), floats in [0, 1]."""
    size = getattr(getattr(unwrapped(model), "config", None), "image_size", None)
    if size is None:
        raise ValueError(f"{type(model).__name__} does not say its image size: give `predict` a tensor of that size")
    if isinstance(photo, np.ndarray):
        if photo.ndim < 2 or photo.shape[2:] not in ((3,), (4,), ()):  # colours, and transparency; or grey
            raise ValueError(f"an array of a photo has shape (H, W, 3), got {photo.shape}")
        require_pixels(torch.tensor(np.ascontiguousarray(photo)).reshape(1, 1, len(photo), -1))
        photo = Image.fromarray(photo if photo.dtype == np.uint8 else np.uint8(np.rint(255 * photo.clip(0, 1))))
    picture = to_rgb(photo) if isinstance(photo, Image.Image) else open_picture(find_photo(photo))
    return resize_as_trained(picture, size, find_card(model)).float() / 255


def resize_as_trained(picture: Image.Image, size: Size, card: ModelCard | None) -> UInt8[Tensor, "3 H W"]:
    """Resize and crop a picture as `load_photo` does, unless the card says that the model was trained otherwise.

    {"resize": 256, "crop": 224, …} leaves a margin around the centre, of the same share at another image size.
    "squeeze" resizes both sides, not the shorter one.
    """
    sides = to_pair(size)
    preprocessing = card and card.about.get(PREPROCESSING)
    if preprocessing is None or (sides[0] != sides[1] and not preprocessing["squeeze"]):
        return crop_to(picture, sides)
    from torchvision.transforms.functional import InterpolationMode, center_crop, resize

    resized = [side * preprocessing["resize"] // preprocessing["crop"] for side in sides]
    if not preprocessing["squeeze"]:
        resized = resized[:1]  # the shorter side
    picture = resize(picture, resized, InterpolationMode(preprocessing["interpolation"]))
    return as_tensor(center_crop(picture, sides))
