"""What a model's inputs and outputs mean: class names, the scale of the pixels, the origin of the weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from .errors import check_fields, require_names
from .patchify import require_images

PREPROCESSING = "preprocessing"  # in `about`: how a photo is fitted to the model's size
STARTED_FROM = "started from"


@dataclass(frozen=True)
class ModelCard:
    """Say what a model's inputs and outputs mean, as `model.card` and beside its weights in a file.

    `classes` are the names of the logits; `mean` and `std` are those of the training images, one value per channel, for
    pixels in [0, 1]. `about` says in plain words and numbers where the weights come from; code reads "preprocessing".
    Raises ValueError for classes that are no names, and unless each channel has a mean and a standard deviation.
    """

    classes: Sequence[str]
    mean: Sequence[float]
    std: Sequence[float]
    about: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self):
        check_fields(self, require_names, "classes")
        if len(self.mean) != len(self.std):
            raise ValueError(f"a card has a mean and a std for each channel, got {len(self.mean)} and {len(self.std)}")
        # Tuples, of Python's floats: a card that comes back from a file is then equal to the one that was written.
        check_fields(self, lambda name, values: tuple(map(float, values)), "mean", "std")

    def normalise(self, images: Float[Tensor, "B C H W"] | UInt8[Tensor, "B C H W"]) -> Float[Tensor, "B C H W"]:
        """Scale pixels in [0, 1], or bytes from 0 to 255, to mean 0 and standard deviation 1 over the training images.

        A channel that was constant in all training images is only moved to mean 0.
        Raises ValueError for another number of channels, and for integers that are not bytes.
        """
        if not isinstance(images, Tensor):
            require_images(images)
        if images.shape[-3:-2] != (len(self.mean),) or not (images.dtype == torch.uint8 or images.is_floating_point()):
            found = f"got {images.dtype} of shape {tuple(images.shape)}"
            raise ValueError(f"this card is for images of {len(self.mean)} channels, bytes or floats, {found}")
        scale = 255 if images.dtype == torch.uint8 else 1
        std = [spread or 1.0 for spread in self.std]
        mean, std = torch.tensor([self.mean, std], device=images.device)[..., None, None] * scale  # each (C, 1, 1)
        return (images - mean) / std

    def with_classes(self, classes: Sequence[str]) -> ModelCard:
        """Return the card for a fine-tuned model; what this card says about its weights moves under "started from"."""
        kept = {name: value for name, value in self.about.items() if name in (PREPROCESSING, STARTED_FROM)}
        old = {name: value for name, value in self.about.items() if name not in kept}
        return replace(self, classes=classes, about={**kept, STARTED_FROM: old} if old else kept)
