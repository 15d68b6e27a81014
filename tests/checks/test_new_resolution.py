"""The check of notebook 08 on right and wrong answers."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from einops import rearrange
from PIL import Image
from timm.layers import resample_abs_pos_embed
from torch import nn

from vit_tutorial import check, resize_position_embedding

from .variants import assert_not_attempted, assert_passes, assert_wrong, cell, listed, solved, stubs

BICUBIC = {"mode": "bicubic", "antialias": True}


def answer(zoom=lambda image, new: F.interpolate(image, new, **BICUBIC), there=None, back=None, split=None, join=None):
    """Resizing as one writes it, with steps that may be replaced."""
    there = there or (lambda rows, h, w: rearrange(rows, "(h w) d -> 1 d h w", h=h, w=w))
    back = back or (lambda image: rearrange(image, "1 d h w -> (h w) d"))
    split = split or (lambda p, n: (p[:n], p[n:]))

    def mine(position, old_grid, new_grid, num_prefix_tokens):
        prefix, patches = split(position, num_prefix_tokens)
        rows = back(zoom(there(patches, *old_grid), new_grid))
        return join(prefix, rows) if join else torch.cat([prefix, rows])

    return mine


def one_axis_after_the_other(image, new):
    image = F.interpolate(image, (new[0], image.shape[3]), **BICUBIC)
    return F.interpolate(image, (image.shape[2], new[1]), **BICUBIC)


def by_pillow(image, new):
    channels = [Image.fromarray(channel).resize(new[::-1], Image.Resampling.BICUBIC) for channel in image[0].numpy()]
    return torch.from_numpy(np.stack(channels))[None]


def channel_by_channel(position, old, new, n):
    out = torch.empty(n + new[0] * new[1], position.shape[1])
    out[:n] = position[:n]
    for d in range(position.shape[1]):
        out[n:, d] = F.interpolate(position[n:, d].reshape(1, 1, *old), new, **BICUBIC).flatten()
    return out


def as_a_matrix(position, old, new, n):
    eye = torch.eye(old[0] * old[1]).reshape(1, -1, *old)
    return torch.cat([position[:n], F.interpolate(eye, new, **BICUBIC)[0].flatten(1).T @ position[n:]])


def by_timm(position, old, new, n):
    return resample_abs_pos_embed(position[None], list(new), list(old), num_prefix_tokens=n)[0]


RIGHT = {
    "solution": solved(check.resize_positions),
    "the package's": resize_position_embedding,
    "einops": answer(),
    "view and transpose": answer(there=lambda p, h, w: p.T.reshape(1, -1, h, w), back=lambda x: x.flatten(2).mT[0]),
    "turned there and back": answer(
        lambda image, new: F.interpolate(image, new[::-1], **BICUBIC),
        lambda p, h, w: p.T.unflatten(1, (h, w)).mT[None], lambda image: image.mT[0].flatten(1).T,
    ),
    "one axis after the other": answer(one_axis_after_the_other),
    "Pillow": answer(by_pillow),
    "Upsample": answer(lambda image, new: torch.ops.aten._upsample_bicubic2d_aa(image, list(new), False)),
    "channel by channel": channel_by_channel,
    "matrix": as_a_matrix,
    "timm": by_timm,
    "no gradient": lambda p, *sizes: resize_position_embedding(p.detach(), *sizes),
    "parameter": lambda p, *sizes: nn.Parameter(resize_position_embedding(p, *sizes)),
    "nothing to do": lambda p, old, new, n: p if old == new else resize_position_embedding(p, old, new, n),
    "no prefix, no cat": lambda p, old, new, n: answer()(p, old, new, n) if n else answer(join=lambda a, b: b)(p, old,
                                                                                                             new, n),
}  # fmt: skip


def zoomed(**options):
    return answer(lambda image, new: F.interpolate(image, new, **options))


def scaled(factor):
    return answer(lambda image, new: F.interpolate(image, scale_factor=factor(image.shape[2:], new), **BICUBIC))


def recomputed(position, old_grid, new_grid, num_prefix_tokens):
    options = {**BICUBIC, "recompute_scale_factor": True}
    factors = [b / a for a, b in zip(old_grid, new_grid, strict=True)]
    mine = answer(lambda image, new: F.interpolate(image, scale_factor=factors, **options))
    return mine(position, old_grid, new_grid, num_prefix_tokens)


def rooted(there=None, **steps):
    def square(rows, h, w):
        side = math.isqrt(len(rows))
        return rows.T.reshape(1, -1, side, side)

    return answer(there=square, **steps)


def by_axis(factor):
    return scaled(lambda old, new: [factor(a, b) for a, b in zip(old, new, strict=True)])


def to_a_root(image, new):
    return F.interpolate(image, (int(math.sqrt(new[0] * new[1])),) * 2, **BICUBIC)


def viewed(rows, h, w):
    return rows.reshape(1, -1, h, w)


def as_a_line(position, old, new, n):
    return F.interpolate(position.T[None], n + new[0] * new[1], mode="linear")[0].T


def as_a_line_after_the_prefix(position, old, new, n):
    line = F.interpolate(position[n:].T[None, :, None], (1, new[0] * new[1]), **BICUBIC)
    return torch.cat([position[:n], line[0, :, 0].T])


def as_a_table(position, old, new, n):
    rows = F.interpolate(position[None, None, n:], (new[0] * new[1], position.shape[1]), mode="bilinear")[0, 0]
    return torch.cat([position[:n], rows])


def repeated(position, old, new, n):
    count = new[0] * new[1]
    return torch.cat([position[:n], position[n:].repeat(count // (old[0] * old[1]) + 1, 1)[:count]])


def repeated_whole(position, old, new, n):
    return torch.cat([position] * 9)[: n + new[0] * new[1]]


def filled(position, old, new, n, fill=torch.zeros):
    out = fill(n + new[0] * new[1], position.shape[1])
    out[: len(position)] = position[: len(out)]
    return out


def tiled(image, new):
    return image.repeat(1, 1, 9, 9)[:, :, : new[0], : new[1]]


def one_kept(p, n):
    return p[:1], p[1:]


def written_over(position, *sizes):
    position[0] = 0
    return resize_position_embedding(position, *sizes)


WRONG = {
    "bilinear": (zoomed(mode="bilinear"), "This is bilinear interpolation."),
    "bilinear, antialias": (zoomed(mode="bilinear", antialias=True), "This is bilinear interpolation."),
    "bilinear, corners": (zoomed(mode="bilinear", align_corners=True), "bilinear interpolation, and with `align_corn"),
    "no antialias": (zoomed(mode="bicubic"), "bicubic interpolation without antialiasing"),
    "corners": (zoomed(mode="bicubic", align_corners=True), "with `align_corners=True`, and without antialiasing"),
    "corners, antialias": (zoomed(**BICUBIC, align_corners=True), "bicubic interpolation with `align_corners=True`:"),
    "nearest": (zoomed(), 'This is `mode="nearest"`'),
    "nearest-exact": (zoomed(mode="nearest-exact"), "nearest-exact"),
    "area": (zoomed(mode="area"), 'This is `mode="area"`'),
    "one factor": (scaled(lambda old, new: new[0] / old[0]), "One scale factor, the rows', for both axes"),
    "other factor": (scaled(lambda old, new: new[1] / old[1]), "One scale factor, the columns', for both axes"),
    "root factor": (scaled(lambda old, new: math.sqrt(new[0] * new[1] / (old[0] * old[1]))), "for both axes, √(N'/N)"),
    "whole factor": (by_axis(lambda a, b: float(b // a)), "cut off to whole numbers by `//`"),
    "factor": (by_axis(lambda a, b: b / a), "`scale_factor` instead of `size`"),
    "factor, recomputed": (recomputed, "`scale_factor` instead of `size`"),
    "factor and 0.1": (by_axis(lambda a, b: (b + 0.1) / a), "with 0.1 added"),
    "old root": (rooted(), "The old grid is taken to be square"),
    "new root": (answer(to_a_root), "The new grid is taken to be square, √N'"),
    "both roots": (rooted(zoom=to_a_root), "Both grids are taken to be square"),
    "h' × h'": (answer(lambda image, new: F.interpolate(image, new[0], **BICUBIC)), "as many columns as rows: h'"),
    "dropped": (answer(join=lambda a, b: b), "The prefix is gone"),
    "at the end": (answer(join=lambda a, b: torch.cat([b, a])), "moved to the end"),
    "zeros": (answer(join=lambda a, b: torch.cat([torch.zeros_like(a), b])), "The prefix is replaced by zeros"),
    "mean": (answer(join=lambda a, b: torch.cat([b.mean(0)[None].expand_as(a), b])), "replaced by the mean"),
    "in the grid": (answer(split=lambda p, n: (p[:n], p[:-n or None])), "The prefix is in the picture, too"),
    "in the grid, dropped": (answer(split=lambda p, n: (p[:0], p[: len(p) - n])), "The prefix is in the picture:"),
    "looked for at the end": (answer(split=lambda p, n: (p[len(p) - n :], p[: len(p) - n])), "looked for at the end:"),
    "one kept": (answer(split=one_kept), "Right with one prefix token, but not with 2 prefix tokens"),
    "one kept, N": (lambda p, old, new, n: answer(split=lambda p, n: (p[:1], p[-old[0] * old[1] :]))(p, old, new, n),
                    "but not with 2 prefix tokens. One row is kept, the class"),
    "no zero": (lambda p, old, new, n: answer()(p, old, new, n or 1), "Right with one prefix token, but not with 0"),
    "view": (answer(there=viewed), "`view` or `reshape` reads the rows as (D, h, w), without"),
    "view there and back": (answer(there=viewed, back=lambda x: x.reshape(-1, x.shape[1])), "as (D, h, w), and back"),
    "view back": (answer(back=lambda x: x.reshape(-1, x.shape[1])), "On the way back `view` or `reshape` reads"),
    "old turned": (answer(there=lambda p, h, w: p.T.reshape(1, -1, w, h)), "The old grid is read as (w, h)"),
    "new turned": (answer(lambda image, new: F.interpolate(image, new[::-1], **BICUBIC)), "The new grid is turned"),
    "both turned": (answer(lambda image, new: F.interpolate(image, new[::-1], **BICUBIC),
                           lambda p, h, w: p.T.reshape(1, -1, w, h)), "Both grids are turned"),
    "permute": (answer(there=lambda p, h, w: p.reshape(1, h, w, -1).permute(0, 3, 2, 1)), "The old picture is transp"),
    "columns": (answer(back=lambda x: rearrange(x, "1 d h w -> (w h) d")), "counted down the columns"),
    "transposed": (answer(join=lambda a, b: torch.cat([a, b]).T), "Your result is transposed"),
    "batch": (answer(join=lambda a, b: torch.cat([a, b])[None]), "still a leading axis of one"),
    "picture": (lambda p, old, new, n: F.interpolate(p[n:].T.reshape(1, -1, *old), new, **BICUBIC), "still a picture"),
    "early": (lambda p, old, new, n: p if len(p) - n == new[0] * new[1] else answer()(p, old, new, n),
              "if both grids have the same number of patches"),
    "no permute": (answer(there=lambda p, h, w: p.reshape(1, h, w, -1)),
                   "`F.interpolate` got (1, 2, 8, 5), and needs (1, D, h, w), here (1, 5, 2, 8)."),
    "no permute, reshaped back": (answer(there=lambda p, h, w: p.reshape(1, h, w, -1), back=lambda x: x.reshape(-1, 5)),
                                  "`F.interpolate` got (1, 2, 8, 5)"),
    "no batch": (answer(there=lambda p, h, w: p.reshape(h, w, -1)), "`F.interpolate` got (2, 8, 5)"),
    "half": (lambda p, *sizes: answer()(p.half().float(), *sizes), "to half precision for instance?"),
    "bfloat16": (lambda p, *sizes: answer()(p, *sizes).bfloat16().float(), "to half precision for instance?"),
    "half result": (lambda p, *sizes: answer()(p, *sizes).half(), "of dtype torch.float32, got torch.float16"),
    "prefix averaged": (answer(join=lambda a, b: torch.cat([a.mean(0)[None].expand_as(a), b])), "prefix are averaged"),
    "prefix averaged to one": (answer(join=lambda a, b: torch.cat([a.mean(0)[None][: len(a)], b])), "are averaged"),
    "unchanged": (lambda p, *sizes: p, "The old positions come back as they were"),
    "cut": (lambda p, old, new, n: p[: n + new[0] * new[1]], "The old positions come back as they were"),
    "line": (as_a_line, "All T rows are stretched as one long line"),
    "line after the prefix": (as_a_line_after_the_prefix, "The patches' rows are stretched as one long line"),
    "table": (as_a_table, "The patches' rows are stretched as one long line"),
    "repeated": (repeated, "The list of patches is repeated"),
    "repeated whole": (repeated_whole, "The list of rows, prefix and all, is repeated"),
    "tiled": (answer(tiled), "laid side by side, like tiles"),
    "padded": (filled, "followed by rows of zeros"),
    "random": (lambda *args: filled(*args, torch.randn), "Two calls with the same arguments give two results"),
    "numpy": (lambda *args: resize_position_embedding(*args).numpy(), "must be a tensor"),
    "double": (lambda *args: resize_position_embedding(*args).double(), "The values are right. The result must be of"),
    "in place": (written_over, "changes its input: after the call `position`"),
    "crash": (lambda p, old, new, n: F.interpolate(p[n:], new, mode="bicubic"), "`F.interpolate` got (16, 5)"),
    "nothing": (lambda *args: None, "returns nothing"),
    "three arguments": (lambda p, old, new: p, "The check gives <lambda> 4 arguments"),
}  # fmt: skip


RIGHT, WRONG = {check.resize_positions: RIGHT}, {check.resize_positions: WRONG}
STUBS = {check.resize_positions: "position, old_grid, new_grid, num_prefix_tokens"}


@pytest.mark.parametrize(("exercise", "answer"), listed(RIGHT))
def test_right_answers_pass(exercise, answer):
    assert assert_passes(exercise, answer).message == ""


@pytest.mark.parametrize(("exercise", "answer", "phrase"), listed(WRONG))
def test_wrong_answers_are_named(exercise, answer, phrase):
    verdict = assert_wrong(exercise, answer, phrase)
    assert phrase.lower() in " ".join(verdict.message.split()).lower()  # and not only in the reader's own line


@pytest.mark.parametrize(("exercise", "parameters"), STUBS.items(), ids=lambda value: getattr(value, "name", ""))
def test_untouched_stubs_are_not_attempted(exercise, parameters):
    for stub in stubs(parameters).values():
        assert_not_attempted(exercise, stub)


def test_a_crash_shows_the_readers_line():
    mine = cell("def mine(position, old, new, n):\n    return position.reshape(*old, -1)")["mine"]
    assert "return position.reshape(*old, -1)" in check.resize_positions(mine).code
