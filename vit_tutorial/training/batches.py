"""The images of an epoch: in random order, cut into batches, augmented."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Int64, UInt8
from torch import Tensor
from torchvision.transforms import v2

from .recipe import Recipe


def batches(
    pixels: UInt8[Tensor, "N C H W"],
    labels: Int64[Tensor, " N"],
    recipe: Recipe,
    epoch: int,
    rank: int = 0,
    world: int = 1,
) -> Iterator[tuple[UInt8[Tensor, "b C H W"], Int64[Tensor, " b"], float]]:
    """Yield this process's part of each batch of an epoch: (pixels, labels, its share of the whole batch).

    Every image comes exactly once. All processes draw the same order and the same shifts from (seed, epoch), so
    these depend neither on the number of processes nor on earlier epochs. Only RandAugment (Cubuk et al. 2019,
    arXiv 1909.13719) draws from the global generator.
    Raises ValueError for a crop that no reflection can fill, or a batch with fewer images than processes.
    """
    if recipe.crop >= min(pixels.shape[2:]):
        raise ValueError(f"crop {recipe.crop} is no shift within images of {pixels.shape[2]}×{pixels.shape[3]}")
    if len(labels) // recipe.steps_per_epoch(len(labels)) < world:
        raise ValueError(f"{world} processes cannot share batches of {recipe.batch_size} of {len(labels)} images")
    generator = torch.Generator().manual_seed(recipe.epoch_seed(epoch))
    order = torch.randperm(len(labels), generator=generator, device="cpu")
    randaugment = v2.RandAugment(num_ops=2, magnitude=9)
    for batch in order.tensor_split(recipe.steps_per_epoch(len(labels))):
        mine = batch.tensor_split(world)[rank].to(pixels.device)
        picked = pixels.index_select(0, mine)
        if recipe.crop or recipe.flip:
            moves = draw_moves(len(batch), recipe, generator)
            picked = move(picked, moves.tensor_split(world)[rank].to(pixels.device))
        if recipe.randaugment:
            picked = torch.stack([randaugment(image) for image in picked])
        yield picked, labels.index_select(0, mine), len(mine) / len(batch)


def draw_moves(count: int, recipe: Recipe, generator: torch.Generator) -> Int64[Tensor, "B 3"]:
    """Draw for each image how far to shift it down and to the right, in pixels, and whether to mirror it (0 or 1)."""
    shifts = torch.randint(-recipe.crop, recipe.crop + 1, (count, 2), generator=generator, device="cpu")
    mirrored = torch.randint(0, 2, (count, 1), generator=generator, device="cpu") * recipe.flip
    return torch.cat([shifts, mirrored], dim=1)


def move(pixels: UInt8[Tensor, "B C H W"], moves: Int64[Tensor, "B 3"]) -> UInt8[Tensor, "B C H W"]:
    """Move each image by its own row of `moves`. At an edge the image is continued by its reflection."""
    H, W = pixels.shape[2:]
    down, right, mirrored = moves.T.unsqueeze(2)  # each (B, 1)
    rows = reflect(torch.arange(H, device=pixels.device) + down, H)  # (B, H)
    columns = reflect(torch.arange(W, device=pixels.device) + right, W)  # (B, W)
    columns = torch.where(mirrored == 1, columns.flip(1), columns)
    index = (rows[:, :, None] * W + columns[:, None, :]).flatten(1)  # (B, H·W)
    return pixels.flatten(2).gather(2, index[:, None].expand(-1, pixels.shape[1], -1)).view_as(pixels)


def reflect(index: Int64[Tensor, "B n"], size: int) -> Int64[Tensor, "B n"]:
    """Return the index of the pixel that a mirror at the edge shows: … 2 1 | 0 1 2 … size-1 | size-2 …"""
    return size - 1 - (size - 1 - index.abs()).abs()


def make_mix(recipe: Recipe, num_classes: int) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return a function of a batch of floats and its labels: mixup or cutmix, at random, or neither."""
    mixes = [v2.MixUp(alpha=recipe.mixup, num_classes=num_classes)] if recipe.mixup else []
    mixes += [v2.CutMix(alpha=recipe.cutmix, num_classes=num_classes)] if recipe.cutmix else []
    return v2.RandomChoice(mixes) if mixes else lambda inputs, labels: (inputs, labels)
