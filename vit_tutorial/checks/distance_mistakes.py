"""Mean attention distance with its steps replaceable, and the wrong steps, each with what it looks like."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from .comparing import Mistake

Grid = tuple[int, int]


def by_rows(n: Tensor, grid: Grid) -> tuple[Tensor, Tensor]:
    return n // grid[1], n % grid[1]


def straight(rows: Tensor, columns: Tensor) -> Tensor:
    return (rows**2 + columns**2).sqrt()


def without_class_token(weights: Tensor) -> Tensor:
    return weights[:, :, 1:, 1:]


def shared_out(patches: Tensor) -> Tensor:
    return patches / patches.sum(dim=-1, keepdim=True)


def over_all(far: Tensor) -> Tensor:
    return far.mean(dim=(0, 2))  # (B, h, N) → (h,)


def distance(
    weights: Tensor,
    grid: Grid,
    patch_size: int,
    places: Callable[[Tensor, Grid], tuple[Tensor, Tensor]] = by_rows,
    length: Callable[[Tensor, Tensor], Tensor] = straight,
    patches: Callable[[Tensor], Tensor] = without_class_token,
    share: Callable[[Tensor], Tensor] = shared_out,
    average: Callable[[Tensor], Tensor] = over_all,
    unit: Callable[[int], float] = lambda P: P,
) -> Tensor:
    """(B, h, T, T) → (h,), its steps replaceable."""
    rows, columns = places(torch.arange(grid[0] * grid[1], device=weights.device), grid)
    between = length((rows[:, None] - rows).float(), (columns[:, None] - columns).float())  # (N, N), in patches
    return average((share(patches(weights)) * between * unit(patch_size)).sum(dim=-1))


def to_centre(weights: Tensor, grid: Grid, patch_size: int) -> Tensor:
    rows, columns = by_rows(torch.arange(grid[0] * grid[1]), grid)
    far = straight(rows - (grid[0] - 1) / 2, columns - (grid[1] - 1) / 2) * patch_size
    return over_all(shared_out(without_class_token(weights)) @ far)


def all_together(weights: Tensor, grid: Grid, patch_size: int) -> Tensor:
    """Divided once for each head by all weights, in place of query by query."""
    far = distance(weights, grid, patch_size, share=lambda A: A, average=lambda far: far.sum(dim=(0, 2)))
    return far / without_class_token(weights).sum(dim=(0, 2, 3))


def strongest(A: Tensor) -> Tensor:
    return F.one_hot(A.argmax(dim=-1), A.shape[-1]).to(A.dtype)


def no_self(A: Tensor) -> Tensor:
    return shared_out(A * (1 - torch.eye(A.shape[-1])))


def root_of_mean(weights: Tensor, grid: Grid, patch_size: int) -> Tensor:
    return distance(weights, grid, patch_size, length=lambda r, c: r**2 + c**2, unit=lambda P: P * P).sqrt()


def with_token_at_0(weights: Tensor, grid: Grid, patch_size: int) -> Tensor:
    """The class token stays, at distance 0 from everything."""
    rows, columns = by_rows(torch.arange(grid[0] * grid[1]), grid)
    between = straight(rows[:, None] - rows, columns[:, None] - columns) * patch_size
    return over_all((weights * F.pad(between, (1, 0, 1, 0))).sum(dim=-1))


def wrong(message: str, hint: str | None = None, **steps) -> Mistake:
    return Mistake(partial(distance, **steps), message, hint)


PLACES = "Patch n is in row n // w and column n % w, for a grid of (h, w)."
LENGTH = "`((row_i - row_j) ** 2 + (column_i - column_j) ** 2) ** 0.5`, times the patch size; `torch.cdist` does it."
TOKEN = "Without the class token on both sides: `weights[:, :, 1:, 1:]`. It is token 0 and has no place in the image."
SHARE = "A mean needs weights that sum to 1: divide what is left, `patches / patches.sum(dim=-1, keepdim=True)`."
AVERAGE = "For each query the sum over the keys; then the mean over queries and images, (B, h, N) → (h,)."

DISTANCE_MISTAKES = [
    wrong("You measure in patches. Pixels are asked for: times the patch size.", LENGTH, unit=lambda P: 1),
    wrong("Your distances are multiplied by the patch size twice.", LENGTH, unit=lambda P: P * P),
    wrong("You add the steps down and the steps across: so walks a rook. The straight line is asked for.", LENGTH,
          length=lambda r, c: r.abs() + c.abs()),
    wrong("You take the larger of the steps down and the steps across. The straight line is asked for.", LENGTH,
          length=lambda r, c: torch.maximum(r.abs(), c.abs())),
    *(wrong("Your distances are squared: the root is missing.", LENGTH, length=lambda r, c: r**2 + c**2, unit=unit)
      for unit in (lambda P: P, lambda P: P * P)),
    Mistake(root_of_mean, "You take the mean of the squares, and the root at the end. It belongs to each distance.",
            LENGTH),
    wrong("You count along the sequence, |i - j|: the end of a row and the start of the next seem near.", PLACES,
          places=lambda n, grid: (n, 0 * n)),
    wrong("Only the steps down count in your distances: the columns are missing.", PLACES,
          length=lambda r, c: r.abs()),
    wrong("Only the steps across count in your distances: the rows are missing.", PLACES, length=lambda r, c: c.abs()),
    wrong("Rows and columns of the grid are exchanged: your patches run down the columns, or h and w have swapped.",
          PLACES, places=lambda n, grid: (n // grid[0], n % grid[0])),
    wrong("Your rows are n // h. A row has w patches.", PLACES, places=lambda n, grid: (n // grid[0], n % grid[1])),
    wrong("Your columns are n % h. A row has w patches.", PLACES, places=lambda n, grid: (n // grid[1], n % grid[0])),
    wrong("Your patches count from 1: the last of each row falls to the start of the next. They count from 0.", PLACES,
          places=lambda n, grid: by_rows(n + 1, grid)),
    Mistake(to_centre, "You measure from the centre of the image. For each query, measure from the query's own patch.",
            PLACES),
    wrong("The last token is left out, not the class token: everything has moved by one place.", TOKEN,
          patches=lambda A: A[:, :, :-1, :-1]),
    wrong("Of the weights, only the class token's row is used. Each patch has a row of its own.", TOKEN,
          patches=lambda A: A[:, :, :1, 1:]),
    Mistake(with_token_at_0, "The class token is still there, at distance 0 from all patches: your numbers are too "
            "small.", TOKEN),
    wrong("The class token is left out, and what the patches give to it counts as distance 0: your numbers are too "
          "small.", SHARE, share=lambda A: A),
    Mistake(all_together, "All queries of a head are divided together: one that gives much to the class token counts "
            "less than the others.", SHARE),
    wrong("The weights of each key sum to 1, not those of each query.", SHARE,
          share=lambda A: A / A.sum(dim=-2, keepdim=True)),
    wrong("A second softmax makes the weights nearly equal. Divide by their sum.", SHARE,
          share=lambda A: A.softmax(dim=-1)),
    wrong("Your weights make no difference: every head gets the mean of all distances.", SHARE,
          share=lambda A: torch.ones_like(A) / A.shape[-1]),
    wrong("You take the distance to the strongest patch alone. All count, each by its weight.", SHARE, share=strongest),
    wrong("The weight of a patch on itself is left out. It counts, with distance 0.", SHARE, share=no_self),
    wrong("You add up over the queries. The mean is asked for.", AVERAGE, average=lambda far: far.mean(0).sum(-1)),
    wrong("You add up over the images. The mean is asked for.", AVERAGE, average=lambda far: far.mean(-1).sum(0)),
    wrong("You add up over queries and images. The mean is asked for.", AVERAGE, average=lambda far: far.sum((0, 2))),
    wrong("You divide by the number of keys once too often: the sum over the keys is a mean already.", AVERAGE,
          average=lambda far: over_all(far) / far.shape[-1]),
    wrong("The heads are averaged. Each is asked for: (h,).", AVERAGE, average=torch.mean),
    wrong("You average over the heads and keep the images: (B,).", AVERAGE, average=lambda far: far.mean(dim=(1, 2))),
    wrong("The images are still there, (B, h): take their mean.", AVERAGE, average=lambda far: far.mean(dim=-1)),
    wrong("The queries are still there, (h, N): take their mean.", AVERAGE, average=lambda far: far.mean(dim=0)),
    wrong("Images and queries are still there, (B, h, N): take the mean over both.", AVERAGE, average=lambda far: far),
    wrong("There is an axis for the layers in front, (1, h). Here it is one layer: (h,).", AVERAGE,
          average=lambda far: over_all(far)[None]),
    wrong("Only the first image counts.", AVERAGE, average=lambda far: far[0].mean(dim=-1)),
]  # fmt: skip
