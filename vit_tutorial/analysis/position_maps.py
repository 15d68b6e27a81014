"""What a map of similar positions shows, as numbers: nearness, rows and columns, left and right."""

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


def similarity_by_offset(similarity: Float[Tensor, "h w h w"]) -> Float[Tensor, "h w"]:
    """The mean similarity of two patches that are i rows and j columns apart, in whichever direction: (h, w).

    Entry (0, 0) is a patch with itself. The first row holds patches of one row, the first column those of one column.
    Raises ValueError for a map of another shape.
    """
    h, w = grid_of(similarity)
    down, across = offsets(h, w)
    which = (down * w + across).flatten().to(similarity.device)  # (N·N,)
    total = similarity.new_zeros(h * w).index_add_(0, which, similarity.flatten())
    count = which.new_zeros(h * w).index_add_(0, which, torch.ones_like(which))
    return (total / count).view(h, w)


class Structure(NamedTuple):
    """How positions are arranged, as differences of mean cosines: 0 is no structure."""

    near: float
    rows: float
    columns: float
    left_right: float
    top_bottom: float


def position_structure(similarity: Float[Tensor, "h w h w"]) -> Structure:
    """Five numbers for a map of similar positions; each compares two kinds of pairs of patches.

    near: touching patches, diagonally too, against those more than half the longer side apart.
    rows: two patches of one row, two or more columns apart, against two that share neither row nor column,
    at the same distance rounded to whole patches; the mean over these distances. What left_right counts is left out.
    columns: the same for one column.
    left_right: two patches of which one touches, or is, the other's mirror image in its row, against other pairs with
    as many rows and columns between them, two columns or more; the mean over these offsets.
    top_bottom: the same for mirror images in the column.

    Raises ValueError for a grid of fewer than five rows or columns, which has no such pairs, and for a map of another
    shape.
    """
    h, w = grid_of(similarity)
    if min(h, w) < 5:
        raise ValueError(f"a grid of {h}×{w} is too small to compare equally distant pairs: it takes 5×5 or more")
    down, across = offsets(h, w)
    distance = (down.square() + across.square()).float().sqrt()
    pairs = similarity.reshape(h * w, h * w)
    near = pairs[(distance > 0) & (distance < 1.5)].mean() - pairs[distance > max(h, w) / 2].mean()
    turned = similarity.permute(1, 0, 3, 2)
    return Structure(
        near.item(), in_a_row(similarity), in_a_row(turned), mirrored(similarity), mirrored(turned)
    )  # fmt: skip


def grid_of(similarity: Float[Tensor, "h w h w"]) -> tuple[int, int]:
    """(h, w). Raises ValueError unless every patch is compared with every patch of the same grid."""
    if similarity.ndim != 4 or similarity.shape[:2] != similarity.shape[2:]:
        raise ValueError(f"a map of similar positions has shape (h, w, h, w), got {tuple(similarity.shape)}")
    return similarity.shape[0], similarity.shape[1]


def in_a_row(similarity: Float[Tensor, "h w h w"]) -> float:
    """How much more alike two patches of one row are than two of different rows and columns, equally far apart."""
    h, w = similarity.shape[:2]
    down, across = offsets(h, w)
    distance = (down.square() + across.square()).float().sqrt().round()
    same, neither = (down == 0) & ~by_the_mirror(h, w), (down > 0) & (across > 0)
    return mean_gain(similarity, [(same & (across == d), neither & (distance == d)) for d in range(2, w)])


def mirrored(similarity: Float[Tensor, "h w h w"]) -> float:
    """How much more alike patches by each other's left-right mirror image are than other pairs with the same offset."""
    h, w = similarity.shape[:2]
    down, across = offsets(h, w)
    images = by_the_mirror(h, w)
    steps = [(down == i) & (across == j) for i in (0, 1) for j in range(2, w)]
    return mean_gain(similarity, [(images & step, ~images & step) for step in steps])


def mean_gain(similarity: Float[Tensor, "h w h w"], kinds: list[tuple[Tensor, Tensor]]) -> float:
    """The mean over `kinds` of the mean similarity of its first pairs minus that of its second, where it has both."""
    h, w = similarity.shape[:2]
    pairs = similarity.reshape(h * w, h * w)
    gains = [pairs[first].mean() - pairs[second].mean() for first, second in kinds if first.any() and second.any()]
    return torch.stack(gains).mean().item()


def offsets(h: int, w: int) -> tuple[Tensor, Tensor]:
    """Rows and columns between every two patches of a grid: two tensors (N, N), not negative."""
    place = torch.arange(h * w)
    row, column = place // w, place % w
    return (row[:, None] - row).abs(), (column[:, None] - column).abs()


def by_the_mirror(h: int, w: int) -> Tensor:
    """(N, N): true for two patches of which one is the other's left-right mirror image, or touches it."""
    column = torch.arange(h * w) % w
    down, _ = offsets(h, w)
    return (down <= 1) & ((column[:, None] + column - (w - 1)).abs() <= 1)
