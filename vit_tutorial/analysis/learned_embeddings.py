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


class Structure(NamedTuple):
    """How much more alike mirror images are than other pairs, in mean similarity; 0 is no mirror.

    left_right: two patches of which one touches, or is, the other's mirror image in its row, against other pairs with
    as many rows and columns between them, two columns or more; the mean over these offsets.
    top_bottom: the same for mirror images in the column.
    """

    left_right: float
    top_bottom: float


def position_structure(similarity: Float[Tensor, "h w h w"]) -> Structure:
    """Measure how symmetric a map of similar positions is.

    Raises ValueError for a grid of fewer than five rows or columns, which has no such pairs, or another shape.
    """
    return Structure(mirror_in_rows(similarity), mirror_in_rows(similarity.permute(1, 0, 3, 2)))


def mirror_in_rows(similarity: Float[Tensor, "h w h w"]) -> float:
    """Return `left_right` of `position_structure`."""
    down, across = offsets(similarity)
    h, w = similarity.shape[:2]
    if min(h, w) < 5:
        raise ValueError(f"a grid of {h}×{w} is too small to compare equally distant pairs: it takes 5×5 or more")
    column = torch.arange(w)
    mirrored = (column[:, None, None] + column - (w - 1)).abs() <= 1
    steps = [(down == i) & (across == j) for i in (0, 1) for j in range(2, w)]
    kinds = [(step & mirrored, step & ~mirrored) for step in steps]
    gains = [similarity[a].mean() - similarity[b].mean() for a, b in kinds if a.any() and b.any()]
    return torch.stack(gains).mean().item()


def offsets(similarity: Float[Tensor, "h w h w"]) -> tuple[Tensor, ...]:
    """Return rows and columns between every two patches, (h, w, h, w) each and not negative, on the CPU.

    Raises ValueError unless the map compares every patch with every patch of the same grid.
    """
    if similarity.ndim != 4 or similarity.shape[:2] != similarity.shape[2:]:
        raise ValueError(f"a map of similar positions has shape (h, w, h, w), got {tuple(similarity.shape)}")
    row, column = (torch.arange(count, device="cpu") for count in similarity.shape[:2])
    down, across = (row[:, None, None, None] - row[:, None]).abs(), (column[:, None, None] - column).abs()
    return torch.broadcast_tensors(down, across)
