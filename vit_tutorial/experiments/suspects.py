"""What breaks a model at another size? Change one thing at a time: the ground, and then the object."""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int64, UInt8
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
    """Attend as if each token were there several times, `times` (B, T), with all scores multiplied by `scale`."""

    def __init__(self, times: Float[Tensor, "B T"], scale: float = 1.0):
        super().__init__()
        self.extra, self.scale = times.log()[:, None, None, :], scale  # exp(score + log w) = w · exp(score)

    def forward(self, q, k, v):
        return scaled_dot_product_attention(self.scale * q, k, v, attn_mask=self.extra), None


def answers(
    model: VisionTransformer,
    pixels: Float[Tensor, "B C H W"] | UInt8[Tensor, "B C H W"],
    times: Float[Tensor, "B N"] | None = None,
    scale: float = 1.0,
) -> Int64[Tensor, " B"]:
    """Return what a model answers if, in attention, patch j of picture i is there times[i, j] times: classes (B,).

    The class token is there once. `scale` multiplies the scores of attention. In eval mode.
    """
    layers, logits = self_attentions(model), []
    times = torch.ones(len(pixels), model.config.num_patches) if times is None else times
    for some, weights in zip(pixels.split(BATCH), times.split(BATCH), strict=True):
        weighted = WeightedAttention(torch.cat([torch.ones(len(some), 1), weights], dim=1), scale)
        with swapped(dict.fromkeys(layers, weighted)):
            logits.append(logits_of(model, some))
    return torch.cat(logits).argmax(dim=1)


def right_if(model: VisionTransformer, images: ImageSet, times: Float[Tensor, "B N"]) -> Bool[Tensor, " B"]:
    """Return which images a model names right if, in attention, patch j of image i is there times[i, j] times."""
    return answers(model, images.pixels, times) == images.labels


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
