"""Wrong sin-cos positions, and right ones laid out otherwise, each with what it looks like."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .comparing import Mistake

ROW_SIN, ROW_COS, COLUMN_SIN, COLUMN_COS = range(4)


def positions(
    grid: tuple[int, int],
    dim: int,
    layout: tuple[int, ...] = (ROW_SIN, ROW_COS, COLUMN_SIN, COLUMN_COS),
    exponent: float = -1.0,
    steps: float = 0.0,
    start: int = 0,
    unit: float = 1.0,
    per_side: bool = False,
    by_columns: bool = False,
    interleaved: bool = False,
) -> Tensor:
    """Sin-cos positions with one thing changed: (h·w, D).

    `layout` orders the quarters; frequency i is 10000 ** (exponent · i / (D/4 + steps)); indices begin at
    `start` and are counted in `unit`s, or as parts of the side; patches run row by row unless `by_columns`.
    """
    (h, w), quarter = grid, dim // 4
    frequencies = 10000 ** (exponent * torch.arange(quarter) / (quarter + steps))
    row, column = torch.meshgrid(torch.arange(h) + start, torch.arange(w) + start, indexing="ij")
    if by_columns:
        row, column = row.T, column.T
    scale = (h, w) if per_side else (1, 1)
    rows, columns = (
        axis.reshape(-1, 1) * unit / side * frequencies for axis, side in zip((row, column), scale, strict=True)
    )
    parts = [(rows.sin(), rows.cos(), columns.sin(), columns.cos())[part] for part in layout]
    if interleaved:
        pairs = [torch.stack(parts[i : i + 2], dim=2).flatten(1) for i in (0, 2)]
        return torch.cat(pairs, dim=1)
    return torch.cat(parts, dim=1)


def changed(message: str, hint: str | None = None, **change) -> Mistake:
    return Mistake(lambda grid, dim: positions(grid, dim, **change), message, hint)


def in_one_line(grid: tuple[int, int], dim: int, interleaved: bool = False) -> Tensor:
    """One-dimensional positions along the sequence, as for text."""
    frequencies = 10000 ** -(torch.arange(dim // 2) / (dim // 2))
    angles = torch.arange(grid[0] * grid[1])[:, None] * frequencies
    parts = [angles.sin(), angles.cos()]
    return torch.stack(parts, dim=2).flatten(1) if interleaved else torch.cat(parts, dim=1)


def gathered(row: Callable, column: Callable) -> Callable:
    """Right codes, put together in the order in which `row(n, h, w)` and `column(n, h, w)` count them."""

    def wrong(grid: tuple[int, int], dim: int) -> Tensor:
        (h, w), n = grid, torch.arange(grid[0] * grid[1])
        code = positions(grid, dim).unflatten(0, grid)
        return torch.cat([code[row(n, h, w), 0, : dim // 2], code[0, column(n, h, w), dim // 2 :]], dim=1)

    return wrong


def summed(grid: tuple[int, int], dim: int) -> Tensor:
    """The row's code and the column's, each as long as the whole vector, added."""
    h, w = grid
    rows, columns = in_one_line((h, 1), dim), in_one_line((w, 1), dim)
    return (rows[:, None] + columns).flatten(0, 1)


def with_class_row(grid: tuple[int, int], dim: int) -> Tensor:
    return torch.cat([torch.zeros(1, dim), positions(grid, dim)])


ONE_LINE = (
    "These are positions along one line, as for text: patches one below the other are as far apart as the grid is wide."
)

SINCOS_MISTAKES = [
    changed(
        "The halves are exchanged: the first half of a vector must hold the row, the second the column.",
        layout=(COLUMN_SIN, COLUMN_COS, ROW_SIN, ROW_COS),
    ),
    changed("The cosines come before the sines: sines first.", layout=(ROW_COS, ROW_SIN, COLUMN_COS, COLUMN_SIN)),
    changed(
        "The cosines come before the sines, and the column before the row.",
        layout=(COLUMN_COS, COLUMN_SIN, ROW_COS, ROW_SIN),
    ),
    changed(
        "All sines come first, then all cosines. The row comes first, its sines and its cosines; then the column.",
        layout=(ROW_SIN, COLUMN_SIN, ROW_COS, COLUMN_COS),
    ),
    changed(
        "Sines and cosines alternate. They come in blocks: D/4 sines, then D/4 cosines.",
        "`torch.cat([sin, cos], dim=1)` makes blocks; `stack` and `[:, 0::2]` make them alternate.",
        interleaved=True,
    ),
    changed(
        "Your frequencies end at exactly 1/10000: you divide the exponent by D/4 - 1. Divide it by D/4.",
        "`torch.arange(dim // 4) / (dim // 4)`; `linspace` includes its end.",
        steps=-1.0,
    ),
    changed("Your frequencies fall twice as fast: frequency i is 10000 ** -(i / (D/4)).", exponent=-2.0),
    changed("Your frequencies fall half as fast: frequency i is 10000 ** -(i / (D/4)).", exponent=-0.5),
    changed("Your frequencies fall a quarter as fast: frequency i is 10000 ** -(i / (D/4)).", exponent=-0.25),
    changed("Your frequencies rise. They fall, from 1 towards 1/10000: the exponent is negative.", exponent=1.0),
    changed("All your frequencies are 1: frequency i is 10000 ** -(i / (D/4)).", exponent=0.0),
    changed("Your rows and columns are counted from 1. Count from 0.", start=1),
    changed("Your indices are parts of the side, between 0 and 1. Take the index itself: 0, 1, 2, …", per_side=True),
    changed("There is a 2π too many: the angle is the index times the frequency.", unit=2 * torch.pi),
    changed(
        "Your patches run down the columns of the grid. They run row by row: patch 1 is in row 0, column 1.",
        "`indexing='ij'` in `meshgrid`; patch n is in row n // w, column n % w.",
        by_columns=True,
    ),
    changed(
        "Your patches run down the columns of the grid, and the halves of a vector are exchanged.",
        "`indexing='ij'` in `meshgrid`; patch n is in row n // w, column n % w.",
        by_columns=True,
        layout=(COLUMN_SIN, COLUMN_COS, ROW_SIN, ROW_COS),
    ),
    changed("Both halves hold the row: the second must hold the column.", layout=(ROW_SIN, ROW_COS, ROW_SIN, ROW_COS)),
    changed(
        "Both halves hold the column: the first must hold the row.",
        layout=(COLUMN_SIN, COLUMN_COS, COLUMN_SIN, COLUMN_COS),
    ),
    Mistake(
        gathered(lambda n, h, w: n % h, lambda n, h, w: n % w),
        "Your rows run 0, 1, 2, 0, 1, 2, …, as the columns do. In reading order each row stays for w patches: "
        "0, 0, 0, 1, 1, 1, …",
        "`repeat` puts the whole list again, `repeat_interleave` each of its entries: one is for the columns, the "
        "other for the rows.",
    ),
    Mistake(
        gathered(lambda n, h, w: n // w, lambda n, h, w: n // h),
        "Your columns stay the same for h patches, as if they were rows. In reading order they run 0, 1, 2, 0, 1, 2, …",
        "`repeat` puts the whole list again, `repeat_interleave` each of its entries: one is for the columns, the "
        "other for the rows.",
    ),
    Mistake(
        summed,
        "You add the row's code and the column's. They stand side by side, D/2 numbers each.",
        "`torch.cat([rows, columns], dim=1)`, each made with `dim // 2`.",
    ),
    Mistake(in_one_line, ONE_LINE),
    Mistake(lambda grid, dim: in_one_line(grid, dim, interleaved=True), ONE_LINE),
    Mistake(with_class_row, "One row too many: the class token's. Here are the patches' only, h·w of them."),
    Mistake(
        lambda grid, dim: positions(grid, dim).unflatten(0, grid),
        "The grid is still there, (h, w, D). The sequence wants (h·w, D): flatten the first two axes.",
    ),
    Mistake(
        lambda grid, dim: positions(grid, dim)[None],
        "There is a batch axis in front, (1, h·w, D). Leave it out: (h·w, D) fits every batch.",
    ),
    Mistake(
        lambda grid, dim: positions(grid, dim).T,
        "The axes are exchanged, (D, h·w): a position is a row.",
    ),
]
