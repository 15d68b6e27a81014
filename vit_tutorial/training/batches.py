"""The images of an epoch: in random order, cut into batches, moved, augmented and mixed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F
from jaxtyping import Int64, Shaped, UInt8
from torch import Tensor

from .recipe import Recipe


def batches(
    pixels: Shaped[Tensor, "N C H W"], labels: Int64[Tensor, " N"], recipe: Recipe, epoch: int
) -> Iterator[tuple[Shaped[Tensor, "B C H W"], Int64[Tensor, " B"]]]:
    """Yield the batches of an epoch, each as (pixels, labels): every image comes exactly once.

    The order, and what is changed in each image, depend on the recipe's seed and the number of the epoch alone.
    Raises ValueError for a crop that no reflection can fill.
    """
    if recipe.crop >= min(pixels.shape[2:]):
        raise ValueError(f"crop {recipe.crop} is no shift within images of {pixels.shape[2]}×{pixels.shape[3]}")
    generator = torch.Generator().manual_seed(recipe.epoch_seed(epoch))
    order = torch.randperm(len(labels), generator=generator)
    for batch in order.tensor_split(recipe.steps_per_epoch(len(labels))):
        picked = pixels.index_select(0, batch.to(pixels.device))
        if recipe.crop or recipe.flip:
            picked = shift_and_flip(picked, draw_moves(len(batch), recipe, generator), recipe.crop)
        if recipe.randaugment:
            from .rand_augment import rand_augment  # here, because torchvision is slow to import

            picked = rand_augment(picked, torch.rand(len(batch), 2, generator=generator))
        yield picked, labels.index_select(0, batch.to(labels.device))


def draw_moves(count: int, recipe: Recipe, generator: torch.Generator) -> Int64[Tensor, "B 3"]:
    """Draw for each image how far to shift it down and to the right, in pixels, and whether to mirror it (0 or 1)."""
    shifts = torch.randint(-recipe.crop, recipe.crop + 1, (count, 2), generator=generator)
    mirrored = torch.randint(0, 2, (count, 1), generator=generator) * recipe.flip
    return torch.cat([shifts, mirrored], dim=1)


def shift_and_flip(
    pixels: UInt8[Tensor, "B C H W"], moves: Int64[Tensor, "B 3"], crop: int
) -> UInt8[Tensor, "B C H W"]:
    """Move each image by its own row of `moves`. At an edge the image is continued by its reflection."""
    H, W = pixels.shape[2:]
    down, right, mirrored = moves.to(pixels.device).T
    padded = F.pad(pixels.float(), [crop] * 4, mode="reflect").to(torch.uint8)  # for bytes it is not defined on a GPU
    windows = padded.unfold(2, H, 1).unfold(3, W, 1)  # (B, C, 1 + 2·crop, 1 + 2·crop, H, W)
    moved = windows[torch.arange(len(pixels), device=pixels.device), :, crop + down, crop + right]
    return torch.where(mirrored[:, None, None, None] == 1, moved.flip(3), moved)


def make_mix(recipe: Recipe, num_classes: int) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return a function of a batch of floats and its labels: mixup or cutmix, at random, or neither."""
    if not (recipe.mixup or recipe.cutmix):
        return lambda inputs, labels: (inputs, labels)
    from torchvision.transforms import v2

    mixes = [v2.MixUp(alpha=recipe.mixup, num_classes=num_classes)] if recipe.mixup else []
    mixes += [v2.CutMix(alpha=recipe.cutmix, num_classes=num_classes)] if recipe.cutmix else []
    return v2.RandomChoice(mixes)
