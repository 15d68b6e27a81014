"""What can be read off the weights, without an image."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..model import VisionTransformer


@torch.no_grad()
def position_similarity(model: VisionTransformer) -> Float[Tensor, "h w h w"]:
    """Cosine similarity of every patch's position embedding with every other's: (h, w, h, w).

    `position_similarity(model)[i, j]` is the map of the patch in row i and column j. The class token's
    position is left out. Source: Figure 7 (centre).
    """
    h, w = model.config.grid
    unit = nn.functional.normalize(model.embeddings.position()[1:], dim=-1)  # (N, D)
    return (unit @ unit.T).reshape(h, w, h, w)


class Filters(NamedTuple):
    """Principal components of the patch filters, and the share of the filters' variance that each explains."""

    components: Float[Tensor, "n C P Q"]
    shares: Float[Tensor, " n"]


@torch.no_grad()
def patch_filters(model: VisionTransformer, count: int) -> Filters:
    """The first `count` principal components of the D filters that project a patch, the most important first.

    Each is a pattern the size of a patch, of length 1. Its sign means nothing; it is chosen so that the
    number furthest from zero is positive. Raises ValueError if there are fewer components than that.
    Source: Figure 7 (left), with 28 of them.
    """
    weight = model.embeddings.patches.projection.weight  # (D, C, P, Q)
    filters = weight.flatten(1) - weight.flatten(1).mean(dim=0)
    if not 1 <= count <= min(filters.shape):
        most = min(filters.shape)
        raise ValueError(f"{len(weight)} filters of {filters.shape[1]} numbers have {most} components, not {count}")
    _, sizes, components = torch.linalg.svd(filters, full_matrices=False)
    largest = components.gather(1, components.abs().argmax(dim=1, keepdim=True))
    variance = sizes.square()
    return Filters(
        (components * largest.sign())[:count].view(-1, *weight.shape[1:]), (variance / variance.sum())[:count]
    )
