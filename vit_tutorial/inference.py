"""Use a trained model: put it in eval mode for a while, and ask it what is in a photo."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn

from .config import Size, to_pair
from .data.photo import as_tensor, find_photo, open_picture, read_picture
from .errors import require_whole
from .model_card import PREPROCESSING, ModelCard

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
def logits_of(
    model: nn.Module, images: Float[Tensor, "B C H W"] | UInt8[Tensor, "B C H W"], batch_size: int = BATCH
) -> Float[Tensor, "B K"]:
    """Return the model's logits in eval mode for pixels in [0, 1], or bytes, scaled as its card asks: (B, K).

    Raises ValueError for a model without a card, or with a card for another number of classes.
    """
    card, weight = card_of(model), next(model.parameters())
    with eval_mode(model):
        batches = (card.normalise(batch.to(weight.device)) for batch in images.split(batch_size))
        logits = torch.cat([model(batch.to(weight.dtype)) for batch in batches])
    require_logits(logits, len(card.classes))
    return logits


def card_of(model: nn.Module) -> ModelCard:
    if card := getattr(model, "card", None):
        return card
    raise ValueError("the model has no card: nothing says what its classes are called, nor how pixels are scaled")


def require_logits(logits: Float[Tensor, "B K"], num_classes: int) -> None:
    if num_classes == 0:
        raise ValueError("the model has no classes, so it has no logits: `replace_head` gives it some, to be trained")
    if logits.shape[1] != num_classes:
        cure = f"`replace_head(model, {num_classes})` gives it a new head, to be trained"
        raise ValueError(f"the model gives {logits.shape[1]} logits for {num_classes} classes: {cure}")


class Prediction(NamedTuple):
    """A class and how probable the model finds it, from 0 to 1."""

    name: str
    probability: float


def predict(
    model: nn.Module, photo: str | Path | Float[Tensor, "3 H W"] | UInt8[Tensor, "3 H W"], top: int = 5
) -> list[Prediction]:
    """Return the `top` most probable classes of a photo, the most probable first. Any model with a card will do.

    A photo is a name or a path for `load_photo`, fitted to the model's size as its card asks; or a tensor of that
    size, floats in [0, 1] or bytes. Raises ValueError for another tensor, for a model without a card, which does not
    know what its logits mean, and for logits that are not finite.
    """
    top, card = require_whole("top", top), card_of(model)
    image = photo if isinstance(photo, Tensor) else fit_photo(photo, model)
    if image.ndim != 3:
        raise ValueError(f"a photo has shape (3, H, W), got {tuple(image.shape)}: for a batch, `logits_of`")
    low, high = image.min().item(), image.max().item()
    fits = image.is_floating_point() and -TOLERANCE <= low <= high <= 1 + TOLERANCE  # nan does not
    if not fits and image.dtype != torch.uint8:
        raise ValueError(
            f"a photo holds bytes, or floats from 0 to 1, got {image.dtype} from {low:.4g} to {high:.4g}: "
            "for values from 0 to 255, photo / 255. It is normalised here, and not before"
        )
    logits = logits_of(model, image[None])[0]
    if not logits.isfinite().all():
        raise ValueError("the model's logits are not finite: look at its weights")
    values, indices = logits.softmax(dim=0).topk(min(top, len(logits)))
    return [Prediction(card.classes[i], p) for p, i in zip(values.tolist(), indices.tolist(), strict=True)]


def fit_photo(photo: str | Path, model: nn.Module) -> Float[Tensor, "3 H W"]:
    """Load a photo as the model's card asks, in the model's size: (3, H, W), floats in [0, 1]."""
    if not hasattr(model, "config"):
        raise ValueError(f"{type(model).__name__} does not say its image size: give `predict` a tensor of that size")
    return read_fitted(find_photo(photo), model.config.image_size, model.card).float() / 255


def read_fitted(path: Path, size: Size, card: ModelCard | None) -> UInt8[Tensor, "3 H W"]:
    """Read a picture as the card asks: as `load_photo` does, unless those who trained the model did otherwise.

    {"resize": 256, "crop": 224, "squeeze": False, "interpolation": "bilinear"} leaves a margin around the centre, of
    the same share at another image size. Squeezed, both sides are resized, not the shorter one.
    """
    sides = to_pair(size)
    asked = card and card.about.get(PREPROCESSING)
    if asked is None or (sides[0] != sides[1] and not asked["squeeze"]):
        return read_picture(path, sides)
    from torchvision.transforms.functional import InterpolationMode, center_crop, resize

    size = [side * asked["resize"] // asked["crop"] for side in sides]
    picture = open_picture(path)
    picture = resize(picture, size if asked["squeeze"] else size[:1], InterpolationMode(asked["interpolation"]))
    return as_tensor(center_crop(picture, sides))
