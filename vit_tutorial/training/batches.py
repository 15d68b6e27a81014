"""The images of an epoch: in random order, cut into batches, shifted and flipped."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float, Int64, UInt8
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
    """An epoch's batches for one process of `world`: (pixels, labels, share of the whole batch).

    Every image comes exactly once. All processes draw the same order and the same shifts from (seed, epoch)
    and take their part of each batch, so what is drawn depends neither on their number nor on earlier epochs.
    Raises ValueError for a crop that no reflection can fill, or a batch with fewer images than processes.
    """
    if recipe.crop >= min(pixels.shape[2:]):
        raise ValueError(f"crop {recipe.crop} is no shift within images of {pixels.shape[2]}×{pixels.shape[3]}")
    if len(labels) // recipe.steps_per_epoch(len(labels)) < world:
        raise ValueError(f"{world} processes cannot share batches of {recipe.batch_size} of {len(labels)} images")
    generator = torch.Generator().manual_seed(recipe.epoch_seed(epoch))
    order = torch.randperm(len(labels), generator=generator, device="cpu")
    for batch in order.tensor_split(recipe.steps_per_epoch(len(labels))):
        mine = batch.tensor_split(world)[rank].to(pixels.device)
        picked = pixels.index_select(0, mine)
        if recipe.crop or recipe.flip:
            moves = draw_moves(len(batch), recipe, generator)
            picked = move(picked, moves.tensor_split(world)[rank].to(pixels.device))
        yield picked, labels.index_select(0, mine), len(mine) / len(batch)


def draw_moves(count: int, recipe: Recipe, generator: torch.Generator) -> Int64[Tensor, "B 3"]:
    """For each image: how far down and to the right to look, in pixels, and whether to mirror it (0 or 1)."""
    shifts = torch.randint(-recipe.crop, recipe.crop + 1, (count, 2), generator=generator, device="cpu")
    mirrored = torch.randint(0, 2, (count, 1), generator=generator, device="cpu") * recipe.flip
    return torch.cat([shifts, mirrored], dim=1)


def move(pixels: UInt8[Tensor, "B C H W"], moves: Int64[Tensor, "B 3"]) -> UInt8[Tensor, "B C H W"]:
    """Every image by its own move. What comes in at an edge is the image reflected there."""
    H, W = pixels.shape[2:]
    down, right, mirrored = moves.T.unsqueeze(2)  # each (B, 1)
    rows = reflect(torch.arange(H, device=pixels.device) + down, H)  # (B, H)
    columns = reflect(torch.arange(W, device=pixels.device) + right, W)  # (B, W)
    columns = torch.where(mirrored == 1, columns.flip(1), columns)
    index = (rows[:, :, None] * W + columns[:, None, :]).flatten(1)  # (B, H·W)
    return pixels.flatten(2).gather(2, index[:, None].expand(-1, pixels.shape[1], -1)).view_as(pixels)


def reflect(index: Int64[Tensor, "B n"], size: int) -> Int64[Tensor, "B n"]:
    """… 2 1 | 0 1 2 … size-1 | size-2 … : the index of the pixel that a mirror at the edge shows."""
    return size - 1 - (size - 1 - index.abs()).abs()


def make_mix(recipe: Recipe, num_classes: int) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """What the recipe does to a batch of floats and its labels: mixup or cutmix, by lot, or nothing."""
    mixes = [v2.MixUp(alpha=recipe.mixup, num_classes=num_classes)] if recipe.mixup else []
    mixes += [v2.CutMix(alpha=recipe.cutmix, num_classes=num_classes)] if recipe.cutmix else []
    return v2.RandomChoice(mixes) if mixes else keep


def make_randaugment(recipe: Recipe) -> Callable[[Tensor], Tensor]:
    """RandAugment (Cubuk et al. 2019, arXiv 1909.13719) for each image on its own, or nothing."""
    if not recipe.randaugment:
        return keep_images
    augment = v2.RandAugment(num_ops=2, magnitude=9)
    return lambda pixels: torch.stack([augment(image) for image in pixels])


def keep(images: Float[Tensor, "B C H W"], labels: Int64[Tensor, " B"]):
    return images, labels


def keep_images(pixels: UInt8[Tensor, "B C H W"]) -> UInt8[Tensor, "B C H W"]:
    return pixels
