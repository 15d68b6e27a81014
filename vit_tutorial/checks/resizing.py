"""Resizing positions: with its steps replaceable, and by other ways than a picture."""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt

import torch
import torch.nn.functional as F
from torch import Tensor

Grid = tuple[int, int]


def square(grid: Grid) -> Grid:
    return (isqrt(grid[0] * grid[1]),) * 2


def turned(grid: Grid) -> Grid:
    return grid[::-1]


def zoom(picture: Tensor, new: Grid, mode: str = "bicubic", antialias: bool = True, **options) -> Tensor:
    return F.interpolate(picture, new, mode=mode, antialias=antialias, **options)


def by_factor(factors: Callable, **options) -> Callable:
    """Interpolation by `scale_factor`: `factors(old, new)` for each of the two axes."""
    return lambda picture, new: F.interpolate(
        picture, scale_factor=factors(tuple(picture.shape[2:]), new), mode="bicubic", antialias=True, **options
    )


def to_picture(rows: Tensor, h: int, w: int) -> Tensor:
    return rows.reshape(h, w, -1).permute(2, 0, 1)[None]


def to_rows(picture: Tensor) -> Tensor:
    return picture[0].flatten(1).T


def resize(
    position: Tensor,
    old: Grid,
    new: Grid,
    prefix: int,
    split: Callable = lambda p, prefix, N: (p[:prefix], p[prefix:]),
    old_grid: Callable[[Grid], Grid] = lambda grid: grid,
    picture: Callable[[Tensor, int, int], Tensor] = to_picture,
    new_grid: Callable[[Grid], Grid] = lambda grid: grid,
    zoom: Callable[[Tensor, Grid], Tensor] = zoom,
    rows: Callable[[Tensor], Tensor] = to_rows,
    join: Callable[[Tensor, Tensor], Tensor] = lambda first, rows: torch.cat([first, rows]),
) -> Tensor:
    """(T, D) → (S, D), its steps replaceable."""
    first, patches = split(position, prefix, old[0] * old[1])
    return join(first, rows(zoom(picture(patches, *old_grid(old)), new_grid(new))))


def by_rows(choose: Callable[[Tensor, Grid, Grid], Tensor], join: Callable = lambda a, b: torch.cat([a, b])):
    """No interpolation of a picture: `choose(patches, old, new)` are the new rows."""
    return lambda position, old, new, prefix: join(position[:prefix], choose(position[prefix:], old, new))


def line(mode: str) -> Callable[[Tensor, int], Tensor]:
    """Rows stretched as one long line."""
    if mode == "linear":
        return lambda rows, count: F.interpolate(rows.T[None], count, mode="linear")[0].T
    return lambda rows, count: zoom(rows.T[None, :, None], (1, count))[0, :, 0].T


def repeated(rows: Tensor, count: int) -> Tensor:
    return rows.repeat(-(-count // len(rows)), 1)[:count]


def tiled(patches: Tensor, old: Grid, new: Grid) -> Tensor:
    times = [-(-there // here) for here, there in zip(old, new, strict=True)]
    return to_rows(to_picture(patches, *old).repeat(1, 1, *times)[:, :, : new[0], : new[1]])


def padded(patches: Tensor, old: Grid, new: Grid) -> Tensor:
    return to_rows(F.pad(to_picture(patches, *old), (0, new[1] - old[1], 0, new[0] - old[0])))


def area(grid: Grid) -> int:
    return grid[0] * grid[1]
