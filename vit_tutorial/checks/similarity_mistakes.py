"""Similarity of positions with its steps replaceable, and the wrong steps, each with what it looks like."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from .comparing import Mistake

Grid = tuple[int, int]


def unit(p: Tensor) -> Tensor:
    return p / p.norm(dim=-1, keepdim=True)


def similarity(
    position: Tensor,
    grid: Grid,
    patches: Callable[[Tensor], Tensor] = lambda position: position[1:],
    prepare: Callable[[Tensor], Tensor] = unit,
    finish: Callable[[Tensor], Tensor] = lambda s: s,
    shape: Callable[[Tensor, int, int], Tensor] = lambda s, h, w: s.reshape(h, w, h, w),
) -> Tensor:
    """(1+N, D) → (h, w, h, w), its steps replaceable."""
    p = prepare(patches(position))
    return shape(finish(p @ p.T), *grid)


def distances(position: Tensor, grid: Grid) -> Tensor:
    return torch.cdist(position[1:], position[1:], compute_mode="donot_use_mm_for_euclid_dist").reshape(*grid, *grid)


def wrong(message: str, hint: str | None = None, **steps) -> Mistake:
    return Mistake(partial(similarity, **steps), message, hint)


LENGTH = "Every vector is divided by its own length, `norm(dim=-1, keepdim=True)`; then the products are cosines."
FIRST = "The class token is row 0: `position[1:]`."
AXES = "N = h·w, row by row: the (N, N) cosines become (h, w, h, w) with `reshape(h, w, h, w)`."

SIMILARITY_MISTAKES = [
    wrong("The last patch is left out, and the class token is still there: everything has moved by one place.", FIRST,
          patches=lambda position: position[:-1]),
    wrong("The class token is still there, and nothing is reshaped: (1+N, 1+N).", FIRST, patches=lambda p: p,
          shape=lambda s, h, w: s),
    wrong("This is the class token's similarity with each patch. Each patch with each patch is asked for.", FIRST,
          patches=lambda p: p, shape=lambda s, h, w: s[0, 1:].reshape(h, w)),
    wrong("These are the products as they are: long vectors give large numbers. Nothing is divided by the lengths.",
          LENGTH, prepare=lambda p: p),
    wrong("The products are divided by D, not by the lengths of the two vectors.", LENGTH,
          prepare=lambda p: p / p.shape[1] ** 0.5),
    wrong("The products are divided by √D, as in attention, not by the lengths of the two vectors.", LENGTH,
          prepare=lambda p: p / p.shape[1] ** 0.25),
    wrong("Each column is divided by its length, over all patches: `dim=0`. A vector is a row.", LENGTH,
          prepare=lambda p: p / p.norm(dim=0, keepdim=True)),
    wrong("All is divided by one number, the length of the whole table. Each vector has its own length.", LENGTH,
          prepare=lambda p: p / p.norm()),
    wrong("Each product is divided by the squares of the two lengths: is the root missing?", LENGTH,
          prepare=lambda p: p / p.square().sum(dim=-1, keepdim=True)),
    wrong("The vectors are divided by the sum of their absolute numbers, not by their length.", LENGTH,
          prepare=lambda p: F.normalize(p, p=1, dim=-1)),
    wrong("The vectors become probabilities before they are compared: a softmax has no place here.", LENGTH,
          prepare=lambda p: unit(p.softmax(dim=-1))),
    Mistake(lambda position, grid: (unit(position[1:]) @ position[1:].T).reshape(*grid, *grid), "The products are "
            "divided by one of the two lengths: the second vector keeps its own.", LENGTH),
    Mistake(lambda position, grid: (position[1:] @ unit(position[1:]).T).reshape(*grid, *grid), "The products are "
            "divided by one of the two lengths: the first vector keeps its own.", LENGTH),
    wrong("Each vector's own mean is taken off first: that is the correlation. For the cosine nothing is taken off.",
          LENGTH, prepare=lambda p: unit(p - p.mean(dim=-1, keepdim=True))),
    wrong("The mean over the patches is taken off first. For the cosine nothing is taken off.", LENGTH,
          prepare=lambda p: unit(p - p.mean(dim=0))),
    wrong("Mean and scale are taken off each column first. For the cosine nothing is taken off.", LENGTH,
          prepare=lambda p: unit((p - p.mean(dim=0)) / p.std(dim=0))),
    wrong("That is a distance, 1 - cosine: a patch has 0 with itself, and should have 1.", finish=lambda s: 1 - s),
    Mistake(distances, "These are distances: a patch has 0 with itself, and should have 1.", LENGTH),
    Mistake(lambda position, grid: -distances(position, grid), "These are distances with a minus: a patch has 0 with "
            "itself, and should have 1.", LENGTH),
    wrong("Those are angles. Their cosines are asked for.", finish=lambda s: s.clamp(-1, 1).arccos()),
    wrong("The signs are lost: a cosine may be negative.", finish=torch.abs),
    wrong("The cosines are squared.", finish=torch.square),
    wrong("The cosines go through a softmax: a patch has no 1 with itself any more.", finish=lambda s: s.softmax(-1)),
    wrong("The cosines are right, and still (N, N): which patch stands where cannot be seen.", AXES,
          shape=lambda s, h, w: s),
    wrong("The first N is still in one piece, (N, h, w): the patch that is compared has a row and a column, too.", AXES,
          shape=lambda s, h, w: s.reshape(-1, h, w)),
    wrong("The second N is still in one piece, (h, w, N).", AXES, shape=lambda s, h, w: s.reshape(h, w, -1)),
    wrong("h and w are exchanged: the grid is (h, w), rows first.", AXES, shape=lambda s, h, w: s.reshape(w, h, w, h)),
    wrong("The shape is right, but the patches are counted down the columns: they come row by row.", AXES,
          shape=lambda s, h, w: s.reshape(w, h, w, h).permute(1, 0, 3, 2)),
    wrong("The axes are in the order (h, h, w, w): rows with rows, columns with columns.", AXES,
          shape=lambda s, h, w: s.reshape(h, w, h, w).permute(0, 2, 1, 3)),
    wrong("The shape is right, but h and w of the second patch have swapped places on the way.", AXES,
          shape=lambda s, h, w: s.reshape(h, w, w, h).transpose(2, 3)),
    wrong("The map of the first patch only, (h, w). Each patch has one.", AXES, shape=lambda s, h, w:
          s[0].reshape(h, w)),
    wrong("Each patch is compared with itself only, and that gives 1 everywhere.", "`unit @ unit.T` compares each with "
          "each; `F.cosine_similarity` needs `unit[:, None]` and `unit[None]`.", shape=lambda s, h, w: s.diagonal()),
    wrong("Each patch is compared with itself only, and that gives 1 everywhere.", "`unit @ unit.T` compares each with "
          "each; `F.cosine_similarity` needs `unit[:, None]` and `unit[None]`.",
          shape=lambda s, h, w: s.diagonal().reshape(h, w)),
]  # fmt: skip
