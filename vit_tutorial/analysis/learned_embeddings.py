"""Read off a model's weights which positions it has learned to see as similar."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..model import VisionTransformer


@torch.no_grad()
def position_similarity(
    model: VisionTransformer, positions: Float[Tensor, "T D"] | None = None
) -> Float[Tensor, "h w h w"]:
    """Return the cosine similarity of every two patches' position embeddings: (h, w, h, w).

    `position_similarity(model)[i, j]` is the map of the patch in row i and column j. The class token's
    position is left out. `positions` is another table of the same grid to measure instead of the model's own, such as
    that of an earlier epoch. Source: Figure 7 (centre).
    """
    h, w = model.config.grid
    table = model.embeddings.position() if positions is None else positions
    unit = nn.functional.normalize(table[1:], dim=-1)  # (N, D)
    return (unit @ unit.T).reshape(h, w, h, w)


def opposite_edges(similarity: Float[Tensor, "h w h w"]) -> tuple[float, float]:
    """Return the mean similarity of the left and right end of a row, and of the top and bottom end of a column."""
    left_right = similarity[:, 0, :, -1].diagonal()  # (h,)
    top_bottom = similarity[0, :, -1, :].diagonal()  # (w,)
    return left_right.mean().item(), top_bottom.mean().item()
