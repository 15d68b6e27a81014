"""Read off a model's weights what its embeddings learned: the filters of a patch, and which positions are similar."""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..model import VisionTransformer


@torch.no_grad()
def patch_filters(model: VisionTransformer, count: int) -> Float[Tensor, "n C P Q"]:
    """Return the first `count` principal components of the D filters that project a patch, the most important first.

    Each is a pattern the size of a patch, of length 1; its sign means nothing, and is chosen so that the value furthest
    from zero is positive. Raises ValueError if there are fewer components. Source: Figure 7 (left), with 28 of them.
    """
    weight = model.embeddings.patches.projection.weight  # (D, C, P, Q)
    filters = weight.flatten(1) - weight.flatten(1).mean(dim=0)  # (D, C·P·Q)
    most = min(filters.shape)
    if not 1 <= count <= most:
        raise ValueError(f"{len(weight)} filters of {filters.shape[1]} values have {most} components, not {count}")
    components = torch.linalg.svd(filters, full_matrices=False).Vh[:count]
    largest = components.gather(1, components.abs().argmax(dim=1, keepdim=True))
    return (components * largest.sign()).view(-1, *weight.shape[1:])


@torch.no_grad()
def position_similarity(
    model: VisionTransformer, positions: Float[Tensor, "T D"] | None = None
) -> Float[Tensor, "h w h w"]:
    """Return the cosine similarity of every two patches' position embeddings: (h, w, h, w).

    `position_similarity(model)[i, j]` is the map of the patch in row i and column j. The class token's
    position is left out. `positions` is another table of the same grid to measure instead of the model's own, such as
    that of an earlier epoch. Raises ValueError for a table of another length. Source: Figure 7 (centre).
    """
    h, w = model.config.grid
    table = model.embeddings.position() if positions is None else positions
    if table.ndim != 2 or len(table) != 1 + h * w:
        raise ValueError(
            f"positions of a {h}×{w} grid are {1 + h * w} vectors, the class token's and one for each patch, "
            f"got shape {tuple(table.shape)}"
        )
    unit = nn.functional.normalize(table[1:], dim=-1)  # (N, D)
    return (unit @ unit.T).reshape(h, w, h, w)


class OppositeEdges(NamedTuple):
    """Mean cosine similarity of two positions at opposite edges: of the same row, and of the same column."""

    left_right: float
    top_bottom: float


def opposite_edges(similarity: Float[Tensor, "h w h w"]) -> OppositeEdges:
    """Measure how similar the positions at opposite edges of the picture are.

    Raises ValueError unless the map compares every patch with every patch of the same grid.
    """
    if similarity.ndim != 4 or similarity.shape[:2] != similarity.shape[2:]:
        raise ValueError(f"a map of similar positions has shape (h, w, h, w), got {tuple(similarity.shape)}")
    left_right = similarity[:, 0, :, -1].diagonal()  # (h,)
    top_bottom = similarity[0, :, -1, :].diagonal()  # (w,)
    return OppositeEdges(left_right.mean().item(), top_bottom.mean().item())
