"""Labelled images in memory: what every data set of this package is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int64, UInt8
from torch import Tensor
from torch.utils.data import Dataset

from ..errors import require_names, require_whole, to_whole


@dataclass(frozen=True, eq=False, repr=False)
class ImageSet(Dataset):
    """Hold N images of one size, each with the number of its class.

    pixels: (N, 3, H, W), bytes, red, green, blue. labels: (N,), from 0. classes: their names.
    masks: (N, H, W), true on the object; None if nobody knows where it is.

    `images[i]` is `(image, label)`: floats in [0, 1] of shape (3, H, W), and an int, so a `DataLoader`
    takes it as it is; `images[2:5]` is an ImageSet. A training loop may cut whole batches out of `pixels` instead.

    Raises ValueError if these do not fit together.
    """

    pixels: UInt8[Tensor, "N 3 H W"]
    labels: Int64[Tensor, " N"]
    classes: Sequence[str]
    masks: Bool[Tensor, "N H W"] | None = None

    def __post_init__(self):
        require_tensor("pixels", self.pixels, torch.uint8, ("N", 3, "H", "W"))
        count, _, height, width = self.pixels.shape
        require_tensor("labels", self.labels, torch.int64, (count,))
        if self.masks is not None:
            require_tensor("masks", self.masks, torch.bool, (count, height, width))
        require_names("classes", self.classes)
        object.__setattr__(self, "classes", tuple(self.classes))  # as in a card, so that the two can be compared
        if len(set(self.classes)) < len(self.classes):
            raise ValueError(f"each class has a name of its own, got {self.classes!r:.200}")
        low, high, K = self.labels.min().item(), self.labels.max().item(), len(self.classes)
        if low < 0 or high >= K:
            raise ValueError(f"{K} classes have the labels 0 to {K - 1}, got {low} to {high}")

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int | slice) -> tuple[Float[Tensor, "3 H W"], int] | ImageSet:
        if isinstance(index, slice):
            return self.subset(torch.tensor(range(len(self))[index], dtype=torch.int64))
        if to_whole(index) is None:
            raise TypeError("images[…] takes a number or a slice: for a mask, or several places, images.subset(…)")
        return self.pixels[index].float() / 255, int(self.labels[index])

    def __repr__(self) -> str:
        (height, width), images = self.pixels.shape[2:], "image" if len(self) == 1 else "images"
        return f"ImageSet: {len(self):,} {images} of {height}×{width} in {len(self.classes)} classes"

    def subset(self, indices: Sequence[int] | Tensor) -> ImageSet:
        """Return the images at these places, in this order; or, given a True or False for each, those with a True.

        Raises IndexError for places that are not there, ValueError if none is chosen, and for a mask of 0 and 1.
        """
        indices = torch.as_tensor(indices)
        if len(indices) == len(self) > 2 and indices.dtype != torch.bool and ((indices == 0) | (indices == 1)).all():
            raise ValueError(f"{len(self):,} zeros and ones are the places of two images: as a mask, give .bool()")
        chosen = torch.arange(len(self))[indices]
        if not len(chosen):
            raise ValueError(f"none of the {len(self):,} images is chosen")
        masks = None if self.masks is None else self.masks[chosen]
        return ImageSet(self.pixels[chosen], self.labels[chosen], self.classes, masks)

    def split(self, count: int, seed: int = 0) -> tuple[ImageSet, ImageSet]:
        """Split off `count` random images, the same for the same seed on any machine; return (rest, held out).

        Raises ValueError unless both have an image.
        """
        held_out = to_whole(count)
        if held_out is None or not 0 < held_out < len(self):
            raise ValueError(f"hold out 1 to {len(self) - 1:,} of {len(self):,} images, got {count!r}")
        draws = torch.rand(len(self), generator=torch.Generator().manual_seed(require_whole("seed", seed, least=0)))
        order = draws.argsort(stable=True)
        return self.subset(order[held_out:].sort().values), self.subset(order[:held_out].sort().values)

    def mean_std(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return mean and standard deviation of red, green and blue over all pixels, in [0, 1].

        Counted, not summed: a byte has 256 values, so this is exact and needs no floats as large as the images.
        """
        values = torch.arange(256, dtype=torch.float64, device=self.pixels.device) / 255
        means, stds = [], []
        for channel in self.pixels.unbind(dim=1):  # (N, H, W)
            share = torch.bincount(channel.flatten(), minlength=256).double() / channel.numel()  # (256,)
            means.append((share @ values).item())
            stds.append((share @ (values - means[-1]).square()).sqrt().item())
        return tuple(means), tuple(stds)


def require_image_set(images: ImageSet) -> None:
    """Raise ValueError unless these are images that can be told apart: an ImageSet of several classes."""
    if not isinstance(images, ImageSet):
        kind = type(images).__name__
        raise ValueError(f"images are an ImageSet, got {kind}: ImageSet(pixels, labels, classes) makes one of tensors")
    if len(images.classes) < 2:
        raise ValueError(
            f"these images have one class, {images.classes[0]!r}, so every answer is right: was a folder chosen that "
            "is one level too high?"
        )


def require_tensor(name: str, value: Tensor, dtype: torch.dtype, shape: tuple[int | str, ...]) -> None:
    """Raise ValueError unless `value` is a tensor of this dtype and shape, where a letter is any size but 0."""
    if not isinstance(value, Tensor):
        kind = type(value).__name__
        raise ValueError(f"{name} are a tensor, {dtype}, got {kind}: torch.as_tensor makes one of NumPy's arrays")
    sizes = tuple(value.shape)
    fits = len(sizes) == len(shape) and all(
        asked == size or (isinstance(asked, str) and size) for asked, size in zip(shape, sizes, strict=True)
    )
    if not fits or value.dtype != dtype:
        wanted = str(shape).replace("'", "")
        raise ValueError(f"{name} are {dtype} of shape {wanted}, got {value.dtype} of {sizes}")
