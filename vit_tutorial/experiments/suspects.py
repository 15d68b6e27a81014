"""What breaks a model at another size? Change one thing at a time: the ground, and then the object."""

from __future__ import annotations

from copy import deepcopy
from functools import partial

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from ..adapting import change_resolution
from ..analysis.heads import right_answers
from ..data import ImageSet, Shapes
from ..data.outlines import OUTLINES
from ..data.shapes import Outlines
from ..inference import BATCH
from ..model import VisionTransformer
from .sizes import SIZES, model_at_28

OBJECTS = (1.0, 1.5714)  # at 44×44, in pixels, as a share of its size at 28×28: the old one, and the usual one
GROUND, OUTLINE, INSIDE = range(3)  # kinds of patches
GROUPS = {"ground": ((GROUND,), (OUTLINE, INSIDE)), "all patches": ((GROUND,), (OUTLINE,), (INSIDE,))}


def draw_scenes(count: int, size: str, scale: float = 1.0) -> ImageSet:
    """Draw test scenes of one of SIZES with objects `scale` times as large, in pixels, as they are at 28×28."""
    share = scale * 28 / SIZES[size]
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


def measure_suspects(position: str, seed: int, scenes: int = 1600) -> dict[tuple[str, float, str], int]:
    """Return right answers of a model trained on 28×28, not tuned, by size, object and what is changed.

    At 44×44, "ground" and "all patches" weigh the patches of these GROUPS as in the scenes of 28×28. At 28×28,
    "as in 44×44" weighs all patches as in the usual scenes of 44×44.
    """
    model, home = model_at_28(position, seed), draw_scenes(scenes, "28×28")
    moved, counts = change_resolution(model, 44), {("28×28", 1.0, "nothing"): int(right_answers(model, home).sum())}
    scenes_of = {scale: draw_scenes(scenes, "44×44", scale) for scale in OBJECTS}
    for scale, images in scenes_of.items():
        counts["44×44", scale, "nothing"] = int(right_answers(moved, images).sum())
        for groups in ("ground", "all patches"):
            counts["44×44", scale, groups] = int(right_if(moved, images, times_as_in(images, home, groups)).sum())
    usual = times_as_in(home, scenes_of[OBJECTS[-1]], "all patches")
    counts["28×28", 1.0, "as in 44×44"] = int(right_if(model, home, usual).sum())
    return counts
