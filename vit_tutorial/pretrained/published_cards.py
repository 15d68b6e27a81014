"""Write what others say about their weights on a model card: class names, scale of the pixels, preprocessing."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

from ..model import VisionTransformer
from ..model_card import PREPROCESSING, ModelCard

WHOLE_PHOTO = {"resize": "both sides", "interpolation": "bilinear"}


def write_card(
    model: VisionTransformer,
    weights: str,
    mean: Sequence[float] | None = None,
    std: Sequence[float] | None = None,
    classes: Sequence[str] | None = None,
    preprocessing: Mapping | None = None,
    **about: object,
) -> VisionTransformer:
    """Return the model, with a card if the scale of its pixels is known; classes without a name get a number.

    `weights` says where they come from. `preprocessing` tells `predict` how to fit a photo: the shorter side to
    "resize" pixels, then the central "crop" × "crop"; or "both sides" at once, "to" as many. Warns of a head of zeros.
    """
    config = model.config
    if not getattr(model.head, "classifier", model.head).weight.any():
        warnings.warn("the head is all zeros: all images get the same logits until it is trained", stacklevel=3)
    if mean is None or std is None or not len(mean) == len(std) == config.in_channels:
        return model
    if classes is None or len(classes) != config.num_classes:
        classes = [f"class {i}" for i in range(config.num_classes)]
    if preprocessing is not None:
        about[PREPROCESSING] = dict(preprocessing)
    model.card = ModelCard(tuple(classes), tuple(mean), tuple(std), {"weights": weights, **about})
    return model
