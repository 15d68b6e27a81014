"""The images of an epoch: in random order, cut into batches, moved, augmented and mixed."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as F

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

    Every image comes exactly once. All processes draw the same order and the same changes of each image from
    (seed, epoch), so these depend neither on the number of processes nor on earlier epochs.
    Raises ValueError for a crop that no reflection can fill, or a batch with fewer images than processes.
    """
    steps = recipe.steps_per_epoch(len(labels))
    if recipe.crop >= min(pixels.shape[2:]):
        raise ValueError(f"crop {recipe.crop} is no shift within images of {pixels.shape[2]}×{pixels.shape[3]}")
    if len(labels) // steps < world:
        raise ValueError(f"{world} processes cannot share batches of {recipe.batch_size} of {len(labels)} images")
    generator = torch.Generator().manual_seed(recipe.epoch_seed(epoch))
    order = torch.randperm(len(labels), generator=generator, device="cpu")
    for batch in order.tensor_split(steps):
        mine = batch.tensor_split(world)[rank].to(pixels.device)
        picked = pixels.index_select(0, mine)
        if recipe.crop or recipe.flip:
            moves = draw_moves(len(batch), recipe, generator)
            picked = move(picked, moves.tensor_split(world)[rank].to(pixels.device), recipe.crop)
        if recipe.randaugment:
            draws = torch.rand(len(batch), 2, generator=generator, dtype=torch.float32, device="cpu")
            picked = rand_augment(picked, draws.tensor_split(world)[rank])
        yield picked, labels.index_select(0, mine), len(mine) / len(batch)


def draw_moves(count: int, recipe: Recipe, generator: torch.Generator) -> Int64[Tensor, "B 3"]:
    """Draw for each image how far to shift it down and to the right, in pixels, and whether to mirror it (0 or 1)."""
    shifts = torch.randint(-recipe.crop, recipe.crop + 1, (count, 2), generator=generator, device="cpu")
    mirrored = torch.randint(0, 2, (count, 1), generator=generator, device="cpu") * recipe.flip
    return torch.cat([shifts, mirrored], dim=1)


def move(pixels: UInt8[Tensor, "B C H W"], moves: Int64[Tensor, "B 3"], crop: int) -> UInt8[Tensor, "B C H W"]:
    """Move each image by its own row of `moves`. At an edge the image is continued by its reflection."""
    H, W = pixels.shape[2:]
    down, right, mirrored = moves.T
    padded = F.pad(pixels, crop, padding_mode="reflect")
    windows = padded.unfold(2, H, 1).unfold(3, W, 1)  # (B, C, 1 + 2·crop, 1 + 2·crop, H, W)
    moved = windows[torch.arange(len(pixels), device=pixels.device), :, crop + down, crop + right]
    return torch.where(mirrored[:, None, None, None] == 1, moved.flip(3), moved)


STRENGTH = 0.3  # magnitude 9 of 30
ANGLE = 30 * STRENGTH  # degrees
SLANT = math.degrees(math.atan(0.3 * STRENGTH))  # pixels across for each pixel down, as an angle
SHIFT = 150 / 331 * STRENGTH  # share of a side
CHANGE = 0.9 * STRENGTH  # of a brightness, colour, contrast or sharpness of 1

# What torchvision's `v2.RandAugment(magnitude=9)` does, and as often. A `sign` of -1 or 1 is the direction.
# The paper's code shears about a corner.
OPERATIONS = {
    "Identity": lambda x, sign: x,
    "ShearX": lambda x, sign: F.affine(x, 0.0, [0, 0], 1.0, [sign * SLANT, 0.0], center=[0.0, 0.0]),
    "ShearY": lambda x, sign: F.affine(x, 0.0, [0, 0], 1.0, [0.0, sign * SLANT], center=[0.0, 0.0]),
    "TranslateX": lambda x, sign: F.affine(x, 0.0, [sign * int(SHIFT * x.shape[-1]), 0], 1.0, [0.0, 0.0]),
    "TranslateY": lambda x, sign: F.affine(x, 0.0, [0, sign * int(SHIFT * x.shape[-2])], 1.0, [0.0, 0.0]),
    "Rotate": lambda x, sign: F.rotate(x, sign * ANGLE),
    "Brightness": lambda x, sign: F.adjust_brightness(x, 1 + sign * CHANGE),
    "Color": lambda x, sign: F.adjust_saturation(x, 1 + sign * CHANGE),
    "Contrast": lambda x, sign: F.adjust_contrast(x, 1 + sign * CHANGE),
    "Sharpness": lambda x, sign: F.adjust_sharpness(x, 1 + sign * CHANGE),
    "Posterize": lambda x, sign: F.posterize(x, 8 - round(4 * STRENGTH)),
    "Solarize": lambda x, sign: F.solarize(x, 255 * (1 - STRENGTH)),
    "AutoContrast": lambda x, sign: F.autocontrast(x),
    "Equalize": lambda x, sign: F.equalize(x),
}


def rand_augment(pixels: UInt8[Tensor, "B C H W"], draws: Float[Tensor, "B n"]) -> UInt8[Tensor, "B C H W"]:
    """Change each image by one operation for each of its draws, which are in [0, 1).

    Images that drew the same operation are changed together. Source: Cubuk et al. 2019 (arXiv 1909.13719).
    """
    numbers = (draws * 2 * len(OPERATIONS)).long()  # an operation and its sign
    for column in numbers.unbind(dim=1):
        changed = torch.empty_like(pixels)
        for number in column.unique().tolist():
            chosen = (column == number).nonzero()[:, 0].to(pixels.device)
            operation = list(OPERATIONS.values())[number // 2]
            changed[chosen] = operation(pixels[chosen], sign=2 * (number % 2) - 1)
        pixels = changed
    return pixels


def make_mix(recipe: Recipe, num_classes: int) -> Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Return a function of a batch of floats and its labels: mixup or cutmix, at random, or neither."""
    mixes = [v2.MixUp(alpha=recipe.mixup, num_classes=num_classes)] if recipe.mixup else []
    mixes += [v2.CutMix(alpha=recipe.cutmix, num_classes=num_classes)] if recipe.cutmix else []
    return v2.RandomChoice(mixes) if mixes else lambda inputs, labels: (inputs, labels)
