"""What breaks a model at another size? Change one thing at a time: the ground, the object, the positions."""

from __future__ import annotations

from copy import deepcopy
from functools import partial

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from ..adapting import change_resolution
from ..data import ImageSet, Shapes
from ..data.outlines import OUTLINES
from ..data.shapes import Outlines
from ..inference import BATCH
from ..model import VisionTransformer
from .sizes import SIZES, model_at_28

# The object in pixels, as a share of its size at 28×28. At 44×44 the last, 44/28, is as large as it usually is there.
OBJECTS = {"28×28": (0.7, 0.8, 0.9, 1.0, 1.1), "44×44": (1.0, 1.1, 1.25, 1.4, 1.5714), "28×44": (1.0,)}
GROUND, OUTLINE, INSIDE = range(3)  # kinds of patches
GROUPS = {
    "ground": ((GROUND,), (OUTLINE, INSIDE)),
    "inside": ((INSIDE,),),
    "all patches": ((GROUND,), (OUTLINE,), (INSIDE,)),
}


def draw_scenes(count: int, size: str, scale: float = 1.0) -> Shapes:
    """Draw test scenes of one of SIZES with objects `scale` times as large, in pixels, as they are at 28×28."""
    height = SIZES[size] if isinstance(SIZES[size], int) else SIZES[size][0]
    share = scale * 28 / height
    outlines: Outlines = {name: partial(scaled, outline, share) for name, outline in OUTLINES.items()}
    return Shapes(count, SIZES[size], seed=1, outlines=outlines)


def scaled(outline, share: float, x: Tensor, y: Tensor) -> Tensor:
    """Return the signed distance from an outline that is `share` times as large."""
    return outline(x / share, y / share) * share


def kinds_of_patches(images: ImageSet) -> Int64[Tensor, "B N"]:
    """Return for each patch of 4×4 pixels whether it shows GROUND only, part of the OUTLINE, or the object's INSIDE."""
    masks = images.masks.unflatten(1, (-1, 4)).unflatten(3, (-1, 4))  # (B, h, 4, w, 4)
    some, all_of_it = masks.any(dim=4).any(dim=2), masks.all(dim=4).all(dim=2)
    return (some.long() + all_of_it.long()).flatten(1)


class WeightedAttention(nn.Module):
    """Attend as if each token were there several times: `times` is (B, T), and 1 for a token that is there once."""

    def __init__(self, times: Float[Tensor, "B T"]):
        super().__init__()
        self.extra = times.log()[:, None, None, :]  # exp(score + log w) = w · exp(score)

    def forward(self, q, k, v):
        return scaled_dot_product_attention(q, k, v, attn_mask=self.extra), None


@torch.no_grad()
def right_if(model: VisionTransformer, images: ImageSet, times: Float[Tensor, "B N"]) -> Bool[Tensor, " B"]:
    """Return which images a model names right if, in attention, patch j of image i is there times[i, j] times.

    The class token is there once.
    """
    weighted, parts = deepcopy(model), []
    for pixels, some in zip(images.pixels.split(BATCH), times.split(BATCH), strict=True):
        for block in weighted.encoder:
            block.attention.strategy = WeightedAttention(torch.cat([torch.ones(len(some), 1), some], dim=1))
        parts.append(weighted(model.card.normalise(pixels)).argmax(dim=1))
    return torch.cat(parts) == images.labels


def times_as_in(images: ImageSet, others: ImageSet, groups: str) -> Float[Tensor, "B N"]:
    """Return how many times each patch must be there for each of GROUPS to weigh as in the same scene of `others`.

    If a scene has twice as many patches of a group as the other one, each of them is there half a time.
    """
    here, there = kinds_of_patches(images), kinds_of_patches(others)
    times = torch.ones(here.shape)
    for group in map(torch.tensor, GROUPS[groups]):
        mine, count = torch.isin(here, group), torch.isin(there, group).sum(dim=1, keepdim=True)
        times = torch.where(mine, count.clamp(min=0.1) / mine.sum(dim=1, keepdim=True), times)
    return times


def right_with_old_positions(
    model: VisionTransformer, images: ImageSet, times: Float[Tensor, "B N"]
) -> Bool[Tensor, " B"]:
    """Return what `right_if` does for wide images, with the model's own 7×7 positions around the object, as they are.

    Columns left and right of them get those of the outermost one.
    """
    moved = change_resolution(model, tuple(images.pixels.shape[2:]))
    w, table = moved.config.grid[1], model.embeddings.position().detach()[1:].unflatten(0, (7, 7))
    columns = torch.arange(images.masks.shape[2]) + 0.5
    centre = (images.masks.sum(dim=1) * columns).sum(dim=1) / images.masks.sum(dim=(1, 2)) / 4  # in patches
    first = (centre - 3.5).round().clamp(0, w - 7).long()
    right = torch.zeros(len(images), dtype=torch.bool)
    for column in first.unique():
        mine = first == column
        old = (torch.arange(w) - column).clamp(0, 6)
        moved.embeddings.position.table.data[1:] = table[:, old].flatten(0, 1)
        right[mine] = right_if(moved, images.subset(mine), times[mine])
    return right


def measure_suspects(position: str, seed: int, scenes: int = 1600) -> dict[tuple[str, float, str], int]:
    """Return right answers of a model trained on 28×28, not tuned, by size, object and what is changed.

    "ground" and "all patches" weigh the patches of these GROUPS as in the scenes of 28×28, and "as in 44×44" weighs
    those of 28×28 as in the usual scenes of that size. "positions" gives the model its old ones, "both" the ground too.
    """
    model, home, counts = model_at_28(position, seed), draw_scenes(scenes, "28×28"), {}
    for size, scales in OBJECTS.items():
        moved = change_resolution(model, SIZES[size])
        for scale in scales:
            images = draw_scenes(scenes, size, scale)
            once, ground = torch.ones(kinds_of_patches(images).shape), times_as_in(images, home, "ground")
            changes = {"nothing": once, "ground": ground, "all patches": times_as_in(images, home, "all patches")}
            for change, times in changes.items():
                counts[size, scale, change] = int(right_if(moved, images, times).sum())
        if size == "28×44" and position == "learned":
            for change, times in {"positions": once, "both": ground}.items():
                counts[size, 1.0, change] = int(right_with_old_positions(model, images, times).sum())
    times = times_as_in(home, draw_scenes(scenes, "44×44", 1.5714), "all patches")
    counts["28×28", 1.0, "as in 44×44"] = int(right_if(model, home, times).sum())
    return counts
