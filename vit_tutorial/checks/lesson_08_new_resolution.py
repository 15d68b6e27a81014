"""Lesson 08: hint, solution, judge and known mistakes of each exercise."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import isqrt

import torch
import torch.nn.functional as F
from torch import Tensor

from ..positions import resize_position_embedding
from .comparing import Mistake, compare, mistakes_in, random_tensor
from .exercise import exercise
from .references import Grid, resize, to_picture, to_rows, zoom
from .running import Wrong


def square(grid: Grid) -> Grid:
    return (isqrt(grid[0] * grid[1]),) * 2


def turned(grid: Grid) -> Grid:
    return grid[::-1]


def by_factor(factors: Callable, **options) -> Callable:
    """Interpolation by `scale_factor`: `factors(old, new)` for each of the two axes."""
    return lambda picture, new: F.interpolate(
        picture, scale_factor=factors(tuple(picture.shape[2:]), new), mode="bicubic", antialias=True, **options
    )


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


wrong = mistakes_in(resize)


def settings(message: str, hint: str | None, **options) -> Mistake:
    return wrong(message, hint, zoom=partial(zoom, **options))


BICUBIC = '`F.interpolate(picture, size=new_grid, mode="bicubic", antialias=True)`.'


ANTIALIAS = "When the grid grows it matters, too: PyTorch's bicubic then uses another curve (a = -0.5, not -0.75)."


FACTOR = "Give `F.interpolate` the target itself, `size=new_grid`."


ROWS = "`h, w = grid`: rows first, columns second."


SETTINGS = [
    settings("This is bilinear interpolation. Bicubic is asked for.", BICUBIC, mode="bilinear"),
    settings("This is bilinear interpolation, and with `align_corners=True`. Bicubic without it is asked for.", BICUBIC,
             mode="bilinear", antialias=False, align_corners=True),
    settings("This is bicubic interpolation without antialiasing.", "`antialias=True`. " + ANTIALIAS, antialias=False),
    settings("This is bicubic interpolation with `align_corners=True`, and without antialiasing: the old and the new "
             "corner patches have the same centre. Their outer edges should meet, as those of two pictures do.",
             "Leave `align_corners` out, and take `antialias=True`.", antialias=False, align_corners=True),
    settings("This is bicubic interpolation with `align_corners=True`: the old and the new corner patches have the "
             "same centre. Their outer edges should meet, as those of two pictures do.", "Leave `align_corners` out.",
             align_corners=True),
    settings("This is `mode=\"nearest\"`, the default: positions are copied, none is in between. Bicubic is asked for.",
             BICUBIC, mode="nearest", antialias=False),
    settings("This is `mode=\"nearest-exact\"`: positions are copied, none is in between. Bicubic is asked for.",
             BICUBIC, mode="nearest-exact", antialias=False),
    settings("This is `mode=\"area\"`: means over windows. Bicubic is asked for.", BICUBIC, mode="area",
             antialias=False),
]  # fmt: skip


FACTORS = [
    wrong("One scale factor, the rows', for both axes: the grid need not keep its proportions.", FACTOR,
          zoom=by_factor(lambda old, new: new[0] / old[0])),
    wrong("One scale factor, the columns', for both axes: the grid need not keep its proportions.", FACTOR,
          zoom=by_factor(lambda old, new: new[1] / old[1])),
    wrong("One scale factor for both axes, √(N'/N): the grid need not keep its proportions.", FACTOR,
          zoom=by_factor(lambda old, new: (area(new) / area(old)) ** 0.5)),
    wrong("The scale factors are whole numbers, cut off by `//`: they give another grid than the one asked for.",
          FACTOR, zoom=by_factor(lambda old, new: (float(new[0] // old[0]), float(new[1] // old[1])))),
    *(wrong("`scale_factor` in place of `size`: 15 / 11 is rounded in the computer, 11 · (15 / 11) comes out below 15, "
            "and PyTorch cuts it off at 14. So the grid lacks a row.", FACTOR,
            zoom=by_factor(lambda old, new: (new[0] / old[0], new[1] / old[1]), **again))
      for again in ({}, {"recompute_scale_factor": True})),
    wrong("A scale factor with 0.1 added gives the right grid, but not the right places: everything is a bit displaced."
          , FACTOR, zoom=by_factor(lambda old, new: ((new[0] + 0.1) / old[0], (new[1] + 0.1) / old[1]))),
    wrong("The old grid is taken to be square, √N × √N.", ROWS, old_grid=square),
    wrong("The new grid is taken to be square, √N' × √N'.", ROWS, new_grid=square),
    wrong("Both grids are taken to be square, √N × √N and √N' × √N'.", ROWS, old_grid=square, new_grid=square),
    wrong("The new grid is taken to be square, with as many rows as columns: h' × h'.", ROWS,
          new_grid=lambda grid: (grid[0],) * 2),
    wrong("The new grid is taken to be square, with as many rows as columns: w' × w'.", ROWS,
          new_grid=lambda grid: (grid[1],) * 2),
]  # fmt: skip


FIRST = "The first `num_prefix_tokens` rows are kept aside, and come back in front: `torch.cat([prefix, rows])`."


PICTURE = "Row n of the patches is the place (n // w, n % w): `reshape(1, h, w, D)`, then `permute(0, 3, 1, 2)`."


BACK = "The way back is the way there reversed: `picture[0].flatten(1).T`, (D, h', w') → (h'·w', D)."


MIXED = "Numbers of one row land in several places of the picture. Only `permute` moves an axis."


PREFIX = [
    wrong("The prefix is gone: only the patches' rows come back.", FIRST, join=lambda first, rows: rows),
    wrong("The prefix is moved to the end. It stands in front.", FIRST,
          join=lambda first, rows: torch.cat([rows, first])),
    wrong("The prefix is there twice, in front and at the end.", FIRST,
          join=lambda first, rows: torch.cat([first, rows, first])),
    wrong("In the prefix's place there are zeros. It stays as it is.", FIRST,
          join=lambda first, rows: torch.cat([torch.zeros_like(first), rows])),
    wrong("In the prefix's place there is the mean of the patches' rows. It stays as it is.", FIRST,
          join=lambda first, rows: torch.cat([rows.mean(0, keepdim=True).expand_as(first), rows])),
    wrong("One row is kept, the class token's, whatever `num_prefix_tokens` says.", FIRST,
          split=lambda p, prefix, N: (p[:1], p[-N:])),
    wrong("One row is kept, the last of the prefix, whatever `num_prefix_tokens` says.", FIRST,
          split=lambda p, prefix, N: (p[prefix - 1 : prefix], p[-N:])),
    wrong("One row is kept as the prefix, and the grid begins right after it, with another prefix row.", FIRST,
          split=lambda p, prefix, N: (p[:1], p[1 : 1 + N])),
    wrong("The prefix is in the picture, too: the grid is filled from row 0 on, and the last patch is left out.", FIRST,
          split=lambda p, prefix, N: (p[:prefix], p[:N])),
    wrong("The prefix is in the picture: the grid is filled from row 0 on, and the last patch is left out.", FIRST,
          split=lambda p, prefix, N: (p[:prefix], p[:N]), join=lambda first, rows: rows),
    wrong("The prefix is looked for at the end: the last row is kept, and the grid begins with row 0.", FIRST,
          split=lambda p, prefix, N: (p[N:], p[:N])),
    wrong("The prefix is looked for at the end, and put back there: the grid begins with row 0.", FIRST,
          split=lambda p, prefix, N: (p[N:], p[:N]), join=lambda first, rows: torch.cat([rows, first])),
]  # fmt: skip


AXES = [
    wrong("The rows are read as (D, h, w) by `view` or `reshape`, without a transpose. " + MIXED, PICTURE,
          picture=lambda rows, h, w: rows.reshape(1, -1, h, w)),
    wrong("The rows are read as (D, h, w) and back by `view` or `reshape`, without a transpose. " + MIXED, PICTURE,
          picture=lambda rows, h, w: rows.reshape(1, -1, h, w), rows=lambda p: p.reshape(-1, p.shape[1])),
    wrong("The picture is right. On the way back (D, h', w') is read as rows by `view` or `reshape`, without a "
          "transpose.", BACK, rows=lambda p: p.reshape(-1, p.shape[1])),
    wrong("The old grid is read as (w, h): the picture is skewed.", ROWS, old_grid=turned),
    wrong("The new grid is turned, (w', h').", ROWS, new_grid=turned),
    wrong("Both grids are turned, (w, h) and (w', h'), or the patches are counted down the columns, "
          "there and back.", ROWS, old_grid=turned, new_grid=turned),
    wrong("The old picture is transposed: its rows lie where its columns should.", PICTURE,
          picture=lambda rows, h, w: to_picture(rows, h, w).mT),
    wrong("The new rows are counted down the columns. They come row by row.", BACK, rows=lambda p: to_rows(p.mT)),
    wrong("The patches are counted down the columns. They come row by row.", PICTURE, picture=lambda rows, h, w:
          to_picture(rows, w, h).mT),
    wrong("Your result is transposed, (D, S).", BACK, join=lambda first, rows: torch.cat([first, rows]).T),
    wrong("There is still a leading axis of one, (1, S, D).", "`[0]` takes it off.",
          join=lambda first, rows: torch.cat([first, rows])[None]),
    wrong("The rows are still a picture, (1, D, h', w'), and the prefix is not there.", BACK, rows=lambda p: p,
          join=lambda first, rows: rows),
    wrong("The D numbers of a row are in the opposite order.", BACK, rows=lambda p: to_rows(p).flip(1)),
]  # fmt: skip


OTHER_WAYS = [
    Mistake(lambda p, old, new, prefix: p, "The old positions come back as they were."),
    *(Mistake(lambda p, old, new, prefix, mode=mode: line(mode)(p, prefix + area(new)), "All T rows are stretched as"
              " one long line, the prefix among them: the first patch takes up some of it, and a row of patches "
              "runs on into the next.", FIRST) for mode in ("linear", "bicubic")),
    *(Mistake(by_rows(lambda rows, old, new, mode=mode: line(mode)(rows, area(new))), "The patches' rows are stretched "
              "as one long line: a row of patches runs on into the next. They are a picture, h high and w wide.",
              PICTURE) for mode in ("linear", "bicubic")),
    Mistake(by_rows(lambda rows, old, new: repeated(rows, area(new))), "The list of patches is repeated until it is "
            "long enough. Nothing is interpolated.", PICTURE),
    Mistake(lambda p, old, new, prefix: repeated(p, prefix + area(new)), "The list of rows, prefix and all, is repeated"
            " until it is long enough. Nothing is interpolated.", PICTURE),
    Mistake(by_rows(lambda rows, old, new: rows.repeat_interleave(-(-area(new) // len(rows)), 0)[: area(new)]), "Every "
            "row is repeated. Nothing is interpolated.", PICTURE),
    Mistake(by_rows(tiled), "The old grid is laid side by side, like tiles. Nothing is interpolated.", BICUBIC),
    Mistake(by_rows(padded), "The old grid lies in a corner of the new one, and the rest is zero.", BICUBIC),
    Mistake(by_rows(lambda rows, old, new: F.pad(rows, (0, 0, 0, area(new) - len(rows)))), "The old rows are followed "
            "by rows of zeros. Nothing is interpolated.", BICUBIC),
]  # fmt: skip


RESIZE_MISTAKES = SETTINGS + FACTORS + PREFIX + AXES + OTHER_WAYS


# D, the old grid, the new one, prefix tokens. Of the first, old and new, N is a square and the grid is not. The second
# is the smallest where 15 / 11 is rounded such that 11 · (15 / 11) is cut off at 14.
SIZES = [(5, (2, 8), (4, 9), 1), (3, (11, 2), (15, 4), 1), (4, (6, 4), (4, 3), 1), (6, (2, 3), (2, 3), 1)]


OTHER_PREFIXES = [(3, (3, 2), (2, 5), 2), (6, (2, 3), (4, 3), 0)]


@exercise(
    hint="Four steps: keep the first rows aside, `position[:num_prefix_tokens]`; make a picture of the others, "
    "`reshape(1, h, w, D)`, then the D axis to the front, `permute(0, 3, 1, 2)`; `F.interpolate(picture, "
    'size=new_grid, mode="bicubic", antialias=True)`; the same way back to rows, and the first rows in front.',
    solution="""
import torch
import torch.nn.functional as F


def resize_positions(position, old_grid, new_grid, num_prefix_tokens):
    h, w = old_grid
    prefix, patches = position[:num_prefix_tokens], position[num_prefix_tokens:]
    picture = patches.reshape(1, h, w, -1).permute(0, 3, 1, 2)  # (1, D, h, w)
    picture = F.interpolate(picture, size=new_grid, mode="bicubic", antialias=True)  # (1, D, h', w')
    return torch.cat([prefix, picture[0].flatten(1).T])  # (D, h'·w') -> (h'·w', D)
""",
)
def resize_positions(function):
    """`fn(position, old_grid, new_grid, num_prefix_tokens)`, (T, D) → (S, D): bicubic, antialiased, prefix as it is."""
    judge_sizes(function, SIZES)
    for size in OTHER_PREFIXES:
        try:
            judge_sizes(function, [size])
        except Wrong as wrong:
            wrong.message = f"Right with one prefix token, wrong with {size[-1]}.\n{wrong.message}"
            wrong.hint = wrong.hint or "The first `num_prefix_tokens` rows are kept, be it 0, 1 or 2."
            raise


def judge_sizes(function, sizes: list[tuple]) -> None:
    trials = [(random_tensor(prefix + old[0] * old[1], D), old, new, prefix) for D, old, new, prefix in sizes]
    compare(function, resize_position_embedding, trials, "(S, D)", RESIZE_MISTAKES, gradients=False)
