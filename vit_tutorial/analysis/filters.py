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
    """Return the first `count` principal components of the D filters that project a patch, the most important first.

    Each is a pattern the size of a patch, of length 1; its sign means nothing, and is chosen so that the value furthest
    from zero is positive. Raises ValueError if there are fewer components. Source: Figure 7 (left), with 28 of them.
    """
    weight = model.embeddings.patches.projection.weight  # (D, C, P, Q)
    filters = weight.flatten(1) - weight.flatten(1).mean(dim=0)  # (D, C·P·Q)
    most = min(filters.shape)
    if not 1 <= count <= most:
        raise ValueError(f"{len(weight)} filters of {filters.shape[1]} values have {most} components, not {count}")
    _, sizes, components = torch.linalg.svd(filters, full_matrices=False)
    largest = components.gather(1, components.abs().argmax(dim=1, keepdim=True))
    patterns, variance = components * largest.sign(), sizes.square()
    return Filters(patterns[:count].view(-1, *weight.shape[1:]), (variance / variance.sum())[:count])
