"""Use a trained model: put it in eval mode for a while, and ask it what is in a photo."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float, UInt8
from torch import Tensor, nn
from torchvision.transforms.functional import InterpolationMode, center_crop, pil_to_tensor, resize, to_pil_image

from .config import to_pair
from .data import load_photo
from .data.photo import check_area, find_photo, read_picture
from .errors import require_positive, require_size
from .model import VisionTransformer
from .model_card import PREPROCESSING

OWNERS: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()  # the thread that is changing a module
LOCK = threading.Lock()
TOLERANCE = 0.25  # beyond [0, 1]: what bicubic resizing may add


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Put a model in eval mode inside the block: no dropout. Afterwards every part is in the mode that it was in.

    A model that is in eval mode already stays as it is, and any number of threads may use it. One in train mode is
    changed by one thread at a time: a second one gets a RuntimeError.
    """
    with LOCK:
        check_owner(model)
        modes = [(module, module.training) for module in model.modules()]
    if not any(training for _, training in modes):
        yield
        return
    with changing(model):
        model.eval()
        try:
            yield
        finally:
            for module, training in modes:
                module.training = training


@contextmanager
def changing(model: nn.Module) -> Iterator[None]:
    """Let this thread alone change the model inside the block, which may be nested.

    Raises RuntimeError if another thread is changing the model, or a part of it.
    """
    with LOCK:
        check_owner(model)
        modules = [module for module in model.modules() if module not in OWNERS]
        OWNERS.update(dict.fromkeys(modules, threading.get_ident()))
    try:
        yield
    finally:
        with LOCK:
            for module in modules:
                OWNERS.pop(module, None)


def check_owner(model: nn.Module) -> None:
    """Raise RuntimeError if another thread is changing the model, or a part of it."""
    for module in model.modules():
        check_thread(OWNERS.get(module, threading.get_ident()))


def check_thread(owner: int) -> None:
    """Raise RuntimeError in any thread but the owner. Compiled code does not ask."""
    if not torch.compiler.is_compiling() and threading.get_ident() != owner:
        raise RuntimeError(
            "another thread is training this model, recording or masking its attention, or has put it in eval mode for "
            "a while: "
            "give each thread a copy of its own, made before they start with copy.deepcopy(model)"
        )


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
    require_positive("top", top)
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
        require_size("size", size)
        check_area(*size)
    except (KeyError, TypeError, ValueError, ZeroDivisionError):
        raise ValueError(f"the model's card asks for a preprocessing that cannot be done: {asked}") from None
    picture = to_pil_image(read_picture(find_photo(photo), None))
    picture = resize(picture, size if both else size[:1], way)
    return pil_to_tensor(center_crop(picture, [height, width])).float() / 255
