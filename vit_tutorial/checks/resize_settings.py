"""Wrong settings and sizes in resizing positions, each with what it looks like."""

from __future__ import annotations

from functools import partial

from .comparing import Mistake
from .resizing import area, by_factor, resize, square, zoom


def wrong(message: str, hint: str | None = None, **steps) -> Mistake:
    return Mistake(partial(resize, **steps), message, hint)


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
