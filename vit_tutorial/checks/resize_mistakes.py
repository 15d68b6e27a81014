"""Wrong steps in resizing positions, each with what it looks like."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from .comparing import Mistake
from .resize_settings import BICUBIC, FACTORS, ROWS, SETTINGS, wrong
from .resizing import area, by_rows, line, padded, repeated, tiled, to_picture, to_rows, turned

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
