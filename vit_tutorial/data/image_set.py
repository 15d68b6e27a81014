"""Labelled images in memory: what every data set of this package is."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

import torch
from jaxtyping import Bool, Float, Int64, UInt8
from torch import Tensor
from torch.utils.data import Dataset


@dataclass(frozen=True, eq=False, repr=False)
class ImageSet(Dataset):
    """N images of one size, each with the number of its class.

    pixels: (N, 3, H, W), bytes, red, green, blue. labels: (N,), from 0. classes: their names.
    masks: (N, H, W), true on the object, where that is known; None elsewhere.

    `images[i]` is `(image, label)`: floats in [0, 1] of shape (3, H, W), and an int, so a `DataLoader`
    takes it as it is. A training loop may cut whole batches out of `pixels` instead.

    Raises ValueError where these do not fit together.
    """

    pixels: UInt8[Tensor, "N 3 H W"]
    labels: Int64[Tensor, " N"]
    classes: tuple[str, ...]
    masks: Bool[Tensor, "N H W"] | None = None

    def __post_init__(self):
        check_pixels(self.pixels)
        check_labels(self.labels, len(self.pixels), self.classes)
        if self.masks is not None:
            check_masks(self.masks, self.pixels)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Float[Tensor, "3 H W"], int]:
        return self.pixels[index].float() / 255, int(self.labels[index])

    def __repr__(self) -> str:
        height, width = self.pixels.shape[2:]
        return f"{type(self).__name__}: {len(self):,} images of {height}×{width} in {len(self.classes)} classes"

    def subset(self, indices: Sequence[int] | Tensor) -> ImageSet:
        """The images at these places, in this order; or, of a yes or no for each image, those with a yes.

        Raises ValueError for anything else, and for places that are not there.
        """
        indices = check_indices(indices, len(self))
        masks = None if self.masks is None else self.masks[indices]
        return ImageSet(self.pixels[indices], self.labels[indices], self.classes, masks)

    def split(self, count: int, seed: int = 0) -> tuple[ImageSet, ImageSet]:
        """The rest, and `count` images held out by lot: the same ones for the same seed, on any machine.

        Raises ValueError unless both have an image.
        """
        if not isinstance(count, Integral) or isinstance(count, bool) or not 0 < count < len(self):
            raise ValueError(f"hold out 1 to {len(self) - 1:,} of {len(self):,} images, got {count!r}")
        lots = torch.rand(len(self), generator=generator(seed), dtype=torch.float32, device="cpu")
        order = lots.argsort(stable=True)
        return self.subset(order[count:].sort().values), self.subset(order[:count].sort().values)

    def mean_std(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation of red, green and blue over all pixels, in [0, 1].

        Counted, not summed: a byte has 256 values, so this is exact and needs no floats as large as the images.
        """
        values = torch.arange(256, dtype=torch.float64, device=self.pixels.device) / 255
        means, stds = [], []
        for channel in self.pixels.unbind(dim=1):  # (N, H, W)
            share = torch.bincount(channel.flatten(), minlength=256).double() / channel.numel()  # (256,)
            means.append((share @ values).item())
            stds.append((share @ (values - means[-1]).square()).sqrt().item())
        return tuple(means), tuple(stds)


def generator(seed: int) -> torch.Generator:
    """A source of random numbers of its own. Raises ValueError for a seed that is no whole number of 64 bits."""
    if not isinstance(seed, Integral) or isinstance(seed, bool) or not -(2**63) <= seed < 2**64:
        raise ValueError(f"seed must be a whole number of 64 bits, got {seed!r}")
    return torch.Generator().manual_seed(int(seed))


def check_memory(count: int, height: int, width: int) -> None:
    """Raises ValueError for images that would fill more than half of the memory: what is done with them takes some."""
    needed, there = 3 * count * height * width, memory()
    if needed > there / 2:
        raise ValueError(
            f"{count:,} images of {height}×{width} take {needed / 1e9:,.1f} GB as bytes, more than half of the "
            f"{there / 1e9:,.1f} GB of memory: choose a smaller size, or fewer images"
        )


def memory() -> int:
    """The bytes of memory of this machine; on Windows, where Python does not know, 32 GB."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 32 * 10**9


def check_indices(indices: Sequence[int] | Tensor, count: int) -> Int64[Tensor, " n"]:
    try:
        places = torch.as_tensor(indices, device="cpu")
    except (TypeError, ValueError, RuntimeError):
        places = torch.empty(0, device="cpu")
    if places.dtype == torch.bool and places.shape == (count,):
        places = places.nonzero()[:, 0]
    if places.dtype == torch.bool or places.is_floating_point() or places.is_complex() or places.ndim != 1:
        places = torch.empty(0)
    places = places.long()  # before comparing: of bytes, and since PyTorch takes bytes for a mask
    if not len(places) or places.min() < -count or places.max() >= count:
        raise ValueError(
            f"a subset takes places from 0 to {count - 1:,}, at least one, or {count:,} times True or False, "
            f"got {reprlib.repr(indices)}"
        )
    return places


def check_pixels(pixels: Tensor) -> None:
    if kind(pixels) != torch.uint8:
        raise ValueError(f"pixels are bytes (torch.uint8), got {kind(pixels)}")
    if pixels.ndim != 4 or pixels.shape[1] != 3 or 0 in pixels.shape:
        raise ValueError(f"pixels are (N, 3, H, W), none of them 0, got {tuple(pixels.shape)}")


def check_labels(labels: Tensor, count: int, classes: tuple[str, ...]) -> None:
    if kind(labels) != torch.int64:
        raise ValueError(f"labels are whole numbers (torch.int64), got {kind(labels)}")
    if labels.shape != (count,):
        raise ValueError(f"{count} images need labels of shape ({count},), got {tuple(labels.shape)}")
    if not isinstance(classes, (tuple, list)) or not all(isinstance(name, str) for name in classes):
        raise ValueError(f"classes are the names of the classes, one for each, got {reprlib.repr(classes)}")
    low, high = labels.min().item(), labels.max().item()
    if low < 0 or high >= len(classes):
        raise ValueError(f"{len(classes)} classes have the labels 0 to {len(classes) - 1}, got {low} to {high}")


def check_masks(masks: Tensor, pixels: Tensor) -> None:
    count, _, height, width = pixels.shape
    if kind(masks) != torch.bool or masks.shape != (count, height, width):
        shape = tuple(getattr(masks, "shape", ()))
        raise ValueError(f"masks are torch.bool of shape ({count}, {height}, {width}), got {kind(masks)} of {shape}")


def kind(value: object) -> torch.dtype | str:
    """A tensor's type of number; of anything else, its own type."""
    return value.dtype if isinstance(value, Tensor) else type(value).__name__
