"""Labelled images in memory: what every data set of this package is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int64, UInt8
from torch import Tensor
from torch.utils.data import Dataset

from ..errors import check_fields, require_names, require_rate


@dataclass(frozen=True, eq=False, repr=False)
class ImageSet(Dataset):
    """Hold N images of one size, each with the number of its class.

    pixels: (N, 3, H, W), bytes, red, green, blue. labels: (N,), from 0. classes: their names.
    masks: (N, H, W), true on the object; None if nobody knows where it is.

    `images[i]` is `(image, label)`: floats in [0, 1] of shape (3, H, W), and an int, so a `DataLoader`
    takes it as it is; `images[2:5]` is an ImageSet. Raises ValueError for parts that do not fit together.
    """

    pixels: UInt8[Tensor, "N 3 H W"]
    labels: Int64[Tensor, " N"]
    classes: Sequence[str]
    masks: Bool[Tensor, "N H W"] | None = None

    def __post_init__(self):
        pixels, labels, K = self.pixels, self.labels, len(self.classes)
        if not isinstance(pixels, Tensor) or pixels.dtype != torch.uint8 or pixels.ndim != 4 or pixels.shape[1] != 3:
            raise ValueError(f"pixels are a tensor of torch.uint8, (N, 3, H, W), got {described(pixels)}")
        if not isinstance(labels, Tensor) or labels.dtype != torch.int64 or labels.shape != pixels.shape[:1]:
            raise ValueError(f"labels are a tensor of torch.int64, ({len(pixels)},), got {described(labels)}")
        found = labels.unique().tolist()
        if not found or found[0] < 0 or found[-1] >= K:
            raise ValueError(f"images of {K} classes have the labels 0 to {K - 1}, got {found}")
        masks, shape = self.masks, (len(pixels), *pixels.shape[2:])
        if masks is not None and (getattr(masks, "dtype", None) != torch.bool or masks.shape != shape):
            raise ValueError(f"masks are a tensor of torch.bool, {shape}, got {described(masks)}")
        check_fields(self, require_names, "classes")

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int | slice) -> tuple[Float[Tensor, "3 H W"], int] | ImageSet:
        if isinstance(index, slice):
            return self.subset(range(len(self))[index])
        return self.pixels[index].float() / 255, int(self.labels[index])

    def __repr__(self) -> str:
        H, W = self.pixels.shape[2:]
        return f"ImageSet: {len(self):,} images of {H}×{W} in {len(self.classes)} classes"

    def subset(self, indices: Sequence[int] | Tensor) -> ImageSet:
        """Return the images at these places, in this order; or, given a True or False for each, those with a True.

        Raises IndexError for places that are not there, ValueError if none is chosen.
        """
        chosen = torch.arange(len(self))[torch.as_tensor(indices) if len(indices) else []]
        if not len(chosen):
            raise ValueError(f"none of the {len(self):,} images is chosen")
        masks = None if self.masks is None else self.masks[chosen]
        return replace(self, pixels=self.pixels[chosen], labels=self.labels[chosen], masks=masks)

    def split(self, share: float, seed: int = 0) -> tuple[ImageSet, ImageSet]:
        """Hold out this share of each class at random, at least one image, and not all; return (rest, held out).

        The same for the same seed on any machine. Raises ValueError for a class with one image.
        """
        require_rate("share", share)
        order = torch.rand(len(self), generator=torch.Generator().manual_seed(seed)).argsort(stable=True)
        held_out = torch.zeros(len(self), dtype=torch.bool)
        for label, name in enumerate(self.classes):
            mine = order[self.labels[order] == label]
            if len(mine) == 1:
                raise ValueError(f"the class {name!r} has 1 image: a split needs two, one for each part")
            held_out[mine[:-1][: max(1, round(share * len(mine)))]] = True
        return self.subset(~held_out), self.subset(held_out)

    def mean_std(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Return mean and standard deviation of red, green and blue over all pixels, in [0, 1]."""
        channels = self.pixels.unbind(dim=1)  # one at a time: float64 takes eight times the memory of bytes
        pairs = [torch.std_mean(channel.double(), correction=0) for channel in channels]
        return tuple(mean.item() / 255 for _, mean in pairs), tuple(std.item() / 255 for std, _ in pairs)


def require_image_set(images: ImageSet) -> None:
    """Raise ValueError unless these are images that can be told apart: an ImageSet of several classes."""
    if not isinstance(images, ImageSet):
        kind = type(images).__name__
        raise ValueError(f"images are an ImageSet, got {kind}: ImageSet(pixels, labels, classes) makes one of tensors")
    if len(images.classes) < 2:
        only = f"these images have one class, {images.classes[0]!r}, so every answer is right"
        raise ValueError(f"{only}: was a folder chosen that is one level too high?")


def described(value: object) -> str:
    return f"{type(value).__name__} of {getattr(value, 'dtype', None)}, {tuple(getattr(value, 'shape', ()))}"
