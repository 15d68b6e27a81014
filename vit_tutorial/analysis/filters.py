"""Read the filters of a patch projection off its weights."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ..model import VisionTransformer


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
