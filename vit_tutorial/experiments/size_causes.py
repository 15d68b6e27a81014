"""What breaks a model at another size? Change one thing at a time: the ground, and then the object."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from ..analysis.recording import self_attentions, swapped
from ..data import ImageSet, Shapes
from ..data.outlines import OUTLINES
from ..inference import BATCH, logits_of
from ..model import VisionTransformer

SIDES = {"20×20": 20, "28×28": 28, "44×44": 44}  # pixels
GROUND, OUTLINE, INSIDE = range(3)  # kinds of patches
GROUPS = {"ground": ((GROUND,), (OUTLINE, INSIDE)), "all patches": ((GROUND,), (OUTLINE,), (INSIDE,))}


def draw_scenes(count: int, size: str, scale: float = 1.0) -> ImageSet:
    """Draw test scenes of one of SIDES with objects `scale` times as large, in pixels, as they are at 28×28."""
    share = scale * 28 / SIDES[size]

    def scaled(outline):
        return lambda x, y: outline(x / share, y / share) * share  # a signed distance grows with the object

    outlines = {name: scaled(outline) for name, outline in OUTLINES.items()}
    return Shapes(count, SIDES[size], seed=1, outlines=outlines)


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


def right_if(model: VisionTransformer, images: ImageSet, times: Float[Tensor, "B N"]) -> Bool[Tensor, " B"]:
    """Return which images a model names right if, in attention, patch j of image i is there times[i, j] times.

    The class token is there once. In eval mode.
    """
    logits = []
    for pixels, some in zip(images.pixels.split(BATCH), times.split(BATCH), strict=True):
        weighted = WeightedAttention(torch.cat([torch.ones(len(some), 1), some], dim=1))
        with swapped(dict.fromkeys(self_attentions(model), weighted)):
            logits.append(logits_of(model, pixels))
    return torch.cat(logits).argmax(dim=1) == images.labels


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
