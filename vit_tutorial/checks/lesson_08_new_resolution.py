"""Lesson 08: position embeddings resized to another grid."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from math import isqrt

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

from ..positions import resize_position_embedding
from .comparing import compare, judge_each, known, random_tensor, replacing
from .exercise import exercise
from .references import Grid, resize, to_picture, to_rows, zoom


def my_resize_positions(position, old_grid, new_grid, num_prefix_tokens):
    h, w = old_grid
    prefix, patches = position[:num_prefix_tokens], position[num_prefix_tokens:]
    picture = patches.reshape(1, h, w, -1).permute(0, 3, 1, 2)  # (1, D, h, w)
    picture = F.interpolate(picture, size=new_grid, mode="bicubic", antialias=True)  # (1, D, h', w')
    return torch.cat([prefix, picture[0].flatten(1).T])  # (D, h'·w') -> (h'·w', D)


@exercise(
    hint="Keep the first rows aside, `position[:num_prefix_tokens]`. Make a picture of the others, `reshape(1, h, w, "
    "D)`, and bring the D axis to the front, `permute(0, 3, 1, 2)`. Then `F.interpolate(picture, size=new_grid, "
    'mode="bicubic", antialias=True)`. Turn the picture back into rows, `picture[0].flatten(1).T`, and put the first '
    "rows in front, `torch.cat([prefix, rows])`.",
    solution=my_resize_positions,
)
def resize_positions(function):
    """`fn(position, old_grid, new_grid, num_prefix_tokens)`, (T, D) → (S, D): bicubic, antialiased, prefix as it is."""
    judge_each(SIZES, lambda *sizes: judge_sizes(function, sizes))


# D, the old grid, the new one, prefix tokens. In the first, N is a square both times and no grid is. The second is the
# smallest where 15 / 11 is rounded such that 11 · (15 / 11) is cut off at 14. In the fourth only the shape changes.
SIZES = {
    "one prefix token": [
        (5, (2, 8), (4, 9), 1),
        (3, (11, 2), (15, 4), 1),
        (4, (6, 4), (4, 3), 1),
        (5, (2, 8), (4, 4), 1),
        (6, (2, 3), (2, 3), 1),
    ],
    "2 prefix tokens": [(3, (3, 2), (2, 5), 2)],
    "0 prefix tokens": [(6, (2, 3), (4, 3), 0)],
}


def judge_sizes(function: Callable, sizes: tuple) -> None:
    @wraps(function)
    def watched(*args, **named):
        with Interpolated() as picture:
            try:
                return function(*args, **named)
            except Exception as error:
                position, old, *_ = *args, *named.values()
                if picture.shape and picture.shape[-2:] != old:
                    asked = (1, position.shape[1], *old)
                    text = f"`F.interpolate` got {picture.shape}, and needs (1, D, h, w), here {asked}."
                    error.args = (f"{text} {error}",)
                raise

    trials = [(random_tensor(prefix + area(old), D), old, new, prefix) for D, old, new, prefix in sizes]
    compare(watched, resize_position_embedding, trials, "(S, D)", RESIZE_MISTAKES, gradients=False)


class Interpolated(TorchFunctionMode):
    """Inside the block `shape` is that of the last picture that `F.interpolate` got."""

    shape: tuple[int, ...] = ()

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is F.interpolate:
            self.shape = tuple(args[0].shape)
        return function(*args, **(kwargs or {}))


def area(grid: Grid) -> int:
    return grid[0] * grid[1]


def swap(grid: Grid) -> Grid:
    return grid[::-1]


def square(grid: Grid) -> Grid:
    return (isqrt(area(grid)),) * 2


def by_factor(factors: Callable, **options) -> Callable:
    """Interpolate by `scale_factor=factors(old, new)`, one for both axes or one for each."""
    return lambda picture, new: zoom(picture, None, scale_factor=factors(tuple(picture.shape[2:]), new), **options)


def each_axis(factor: Callable, **options) -> Callable:
    return by_factor(lambda old, new: tuple(float(factor(*sides)) for sides in zip(old, new, strict=True)), **options)


def line(rows: Tensor, count: int, mode: str) -> Tensor:
    """Stretch the rows as one long line."""
    return to_rows(zoom(to_picture(rows, 1, len(rows)), (1, count), mode, antialias=mode == "bicubic"))


def repeated(rows: Tensor, count: int) -> Tensor:
    return rows[torch.arange(count) % len(rows)]


ALIGN = "the old and the new corner patches have the same centre. Their outer edges should meet, as two pictures' do."
MIXED = "without a transpose. That mixes the values of several rows; only `permute` moves an axis."
MODES = {"nearest": "copies positions", "nearest-exact": "copies positions", "area": "averages over windows"}

RESIZE_MISTAKES = replacing(resize, "zoom", None, {
    "This is bilinear interpolation. The task asks for bicubic.": partial(zoom, mode="bilinear"),
    "This is bilinear interpolation, and with `align_corners=True`. The task asks for bicubic, without it.":
        partial(zoom, mode="bilinear", antialias=False, align_corners=True),
    "This is bicubic interpolation without antialiasing. When the grid grows it matters, too: PyTorch's bicubic then "
    "uses another curve (a = -0.5, not -0.75).": partial(zoom, antialias=False),
    "This is bicubic interpolation with `align_corners=True`, and without antialiasing: " + ALIGN:
        partial(zoom, antialias=False, align_corners=True),
    "This is bicubic interpolation with `align_corners=True`: " + ALIGN: partial(zoom, align_corners=True),
    **{f'This is `mode="{mode}"`, which {does}. The task asks for bicubic.': partial(zoom, mode=mode, antialias=False)
       for mode, does in MODES.items()},
    "One scale factor, the rows', for both axes: they need one each.": by_factor(lambda old, new: new[0] / old[0]),
    "One scale factor, the columns', for both axes: they need one each.": by_factor(lambda old, new: new[1] / old[1]),
    "One scale factor for both axes, √(N'/N): they need one each.":
        by_factor(lambda old, new: (area(new) / area(old)) ** 0.5),
    "The scale factors are cut off to whole numbers by `//`: give the target, `size=new_grid`.":
        each_axis(lambda a, b: b // a),
    "`scale_factor` instead of `size`: 15 / 11 is rounded in the computer, 11 · (15 / 11) comes out below 15, and "
    "PyTorch cuts it off at 14. So the grid lacks a row.":
        [each_axis(lambda a, b: b / a), each_axis(lambda a, b: b / a, recompute_scale_factor=True)],
    "A scale factor with 0.1 added displaces everything a bit: use `size`.": each_axis(lambda a, b: (b + 0.1) / a),
}) + replacing(resize, "join", None, {
    "The prefix is gone: only the patches' rows come back.": lambda first, rows: rows,
    "The prefix is moved to the end. It belongs in front.": lambda first, rows: torch.cat([rows, first]),
    "The prefix is there twice, in front and at the end.": lambda first, rows: torch.cat([first, rows, first]),
    "The prefix is replaced by zeros.": lambda first, rows: torch.cat([0 * first, rows]),
    "The prefix is replaced by the mean of the patches.":
        lambda first, rows: torch.cat([rows.mean(0).expand_as(first), rows]),
    "The rows of the prefix are averaged.":
        [lambda first, rows, n=n: torch.cat([first.mean(0).expand_as(first[:n]), rows]) for n in (None, 1)],
}) + replacing(resize, "split", None, {
    "One row is kept, the class token's, whatever `num_prefix_tokens` says.": lambda p, prefix, N: (p[:1], p[-N:]),
    "One row is kept, the last of the prefix.": lambda p, prefix, N: (p[prefix - 1 : prefix], p[-N:]),
    "One row is kept, and the grid begins with the next prefix row.": lambda p, prefix, N: (p[:1], p[1 : 1 + N]),
    "The prefix is in the picture, too: the grid is filled from row 0 on.": lambda p, prefix, N: (p[:prefix], p[:N]),
    "The prefix is in the picture: the grid is filled from row 0 on.": lambda p, prefix, N: (p[:0], p[:N]),
    "The prefix is looked for at the end: the grid begins with row 0.": lambda p, prefix, N: (p[N:], p[:N]),
}) + replacing(resize, "picture", None, {
    "`view` or `reshape` reads the rows as (D, h, w), " + MIXED: lambda rows, h, w: rows.reshape(1, -1, h, w),
    "The old picture is transposed: rows lie where columns should.": lambda rows, h, w: to_picture(rows, h, w).mT,
    "The patches are counted down the columns. They come row by row.": lambda rows, h, w: to_picture(rows, w, h).mT,
}) + replacing(resize, "rows", None, {
    "The picture is right. On the way back `view` or `reshape` reads (D, h', w') as rows, " + MIXED:
        lambda picture: picture.reshape(-1, picture.shape[1]),
    "The new rows are counted down the columns. They come row by row.": lambda picture: to_rows(picture.mT),
    "The D values of a row are in the opposite order.": lambda picture: to_rows(picture).flip(1),
}) + known(None, {
    "The old grid is taken to be square, √N × √N.": partial(resize, old_grid=square),
    "The new grid is taken to be square, √N' × √N'.": partial(resize, new_grid=square),
    "Both grids are taken to be square, √N × √N and √N' × √N'.": partial(resize, old_grid=square, new_grid=square),
    "The new grid has as many columns as rows: h' × h'.": partial(resize, new_grid=lambda grid: (grid[0],) * 2),
    "The new grid has as many rows as columns: w' × w'.": partial(resize, new_grid=lambda grid: (grid[1],) * 2),
    "The old grid is read as (w, h): the picture is skewed.": partial(resize, old_grid=swap),
    "The new grid is turned, (w', h').": partial(resize, new_grid=swap),
    "Both grids are turned, (w, h) and (w', h'), or counted down the columns.":
        partial(resize, old_grid=swap, new_grid=swap),
    "The prefix is looked for at the end, and put back there: the grid begins with row 0.":
        partial(resize, split=lambda p, prefix, N: (p[N:], p[:N]), join=lambda first, rows: torch.cat([rows, first])),
    "`view` or `reshape` reads the rows as (D, h, w), and back, " + MIXED:
        lambda p, old, new, n: torch.cat([p[:n], zoom(p[n:].reshape(1, -1, *old), new).reshape(-1, p.shape[1])]),
    "The rows are still a picture, (1, D, h', w'), and the prefix is not there.":
        partial(resize, rows=lambda picture: picture, join=lambda first, rows: rows),
    "Your result is transposed, (D, S).": lambda *args: resize(*args).T,
    "There is still a leading axis of one, (1, S, D): `[0]` takes it off.": lambda *args: resize(*args)[None],
    "The old positions come back as they were.": lambda p, old, new, prefix: p,
    "The old positions come back as they were if both grids have the same number of patches. But 16 patches in 2 rows "
    "of 8 are in other places than in 4 rows of 4.":
        lambda p, old, new, prefix: p if area(old) == area(new) else resize(p, old, new, prefix),
    "The list of rows, prefix and all, is repeated until it is long enough. Nothing is interpolated.":
        lambda p, old, new, prefix: repeated(p, prefix + area(new)),
    "All T rows are stretched as one long line, the prefix among them, and a row of patches runs on into the next.":
        [lambda p, old, new, prefix, mode=mode: line(p, prefix + area(new), mode) for mode in ("bilinear", "bicubic")],
}) + known(None, {
    "The patches' rows are stretched as one long line: a row of patches runs on into the next.":
        [lambda rows, old, new, mode=mode: line(rows, area(new), mode) for mode in ("bilinear", "bicubic")],
    "The list of patches is repeated. Nothing is interpolated.": lambda rows, old, new: repeated(rows, area(new)),
    "Every row is repeated. Nothing is interpolated.":
        lambda rows, old, new: rows.repeat_interleave(-(-area(new) // len(rows)), 0)[: area(new)],
    "The old grid is laid side by side, like tiles. Nothing is interpolated.":
        lambda rows, old, new: to_rows(to_picture(rows, *old).repeat(1, 1, *new)[..., : new[0], : new[1]]),
    "The old grid lies in a corner of the new one, and the rest is zero.":
        lambda rows, old, new: to_rows(F.pad(to_picture(rows, *old), (0, new[1] - old[1], 0, new[0] - old[0]))),
    "The old rows are followed by rows of zeros.": lambda rows, old, new: F.pad(rows, (0, 0, 0, area(new) - len(rows))),
}, lambda choose: lambda p, old, new, n: torch.cat([p[:n], choose(p[n:], old, new)]))  # fmt: skip
