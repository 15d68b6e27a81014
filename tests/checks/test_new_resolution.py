"""The check of notebook 08 on right and wrong answers."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange
from PIL import Image
from timm.layers import resample_abs_pos_embed

from vit_tutorial import check, resize_position_embedding

from .variants import cell, judged, solved

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
    "timm": lambda p, old, new, n: resample_abs_pos_embed(p[None], list(new), list(old), num_prefix_tokens=n)[0],
    "no gradient": lambda p, *sizes: resize_position_embedding(p.detach(), *sizes),
    "nothing to do": lambda p, old, new, n: p if old == new else resize_position_embedding(p, old, new, n),
}  # fmt: skip


def zoomed(**options):
    return answer(lambda image, new: F.interpolate(image, new, **options))


def scaled(factor, **options):
    options = {**BICUBIC, **options}
    return answer(lambda image, new: F.interpolate(image, scale_factor=factor(image.shape[2:], new), **options))


def by_axis(factor, **options):
    return scaled(lambda old, new: [factor(a, b) for a, b in zip(old, new, strict=True)], **options)


def from_a_root(rows, h, w):
    side = math.isqrt(len(rows))
    return rows.T.reshape(1, -1, side, side)


def to_a_root(image, new):
    return F.interpolate(image, (int(math.sqrt(new[0] * new[1])),) * 2, **BICUBIC)


def as_a_table(position, old, new, n):
    rows = F.interpolate(position[None, None, n:], (new[0] * new[1], position.shape[1]), mode="bilinear")[0, 0]
    return torch.cat([position[:n], rows])


def filled(position, old, new, n, fill=torch.zeros):
    out = fill(n + new[0] * new[1], position.shape[1])
    out[: len(position)] = position[: len(out)]
    return out


WRONG = [
    (zoomed(mode="bilinear"), "This is bilinear interpolation."),
    (zoomed(mode="bilinear", align_corners=True), "bilinear interpolation, and with `align_corn"),
    (zoomed(mode="bicubic"), "bicubic interpolation without antialiasing"),
    (zoomed(), 'This is `mode="nearest"`'),
    (zoomed(mode="area"), 'This is `mode="area"`'),
    (scaled(lambda old, new: math.sqrt(new[0] * new[1] / (old[0] * old[1]))), "for both axes, √(N'/N)"),
    (by_axis(lambda a, b: float(b // a)), "cut off to whole numbers by `//`"),
    (by_axis(lambda a, b: b / a, recompute_scale_factor=True), "`scale_factor` instead of `size`"),
    (by_axis(lambda a, b: (b + 0.1) / a), "with 0.1 added"),
    (answer(there=from_a_root), "The old grid is taken to be square"),
    (answer(to_a_root), "The new grid is taken to be square, √N'"),
    (answer(to_a_root, from_a_root), "Both grids are taken to be square"),
    (answer(lambda image, new: F.interpolate(image, new[0], **BICUBIC)), "as many columns as rows: h'"),
    (answer(split=lambda p, n: (p[:0], p[: len(p) - n])), "The prefix is in the picture:"),
    (answer(split=lambda p, n: (p[len(p) - n :], p[: len(p) - n])), "looked for at the end:"),
    (answer(split=lambda p, n: (p[:1], p[1:])), "Right with one prefix token, but not with 2 prefix tokens"),
    (lambda p, old, new, n: answer(split=lambda p, n: (p[:1], p[-old[0] * old[1] :]))(p, old, new, n),
     "but not with 2 prefix tokens. One row is kept, the class"),
    (lambda p, old, new, n: answer()(p, old, new, n or 1), "Right with one prefix token, but not with 0"),
    (answer(there=lambda p, h, w: p.reshape(1, -1, h, w)), "`view` or `reshape` reads the rows as (D, h, w), without"),
    (answer(there=lambda p, h, w: p.reshape(1, -1, h, w), back=lambda x: x.reshape(-1, x.shape[1])),
     "as (D, h, w), and back"),
    (answer(back=lambda x: x.reshape(-1, x.shape[1])), "On the way back `view` or `reshape` reads"),
    (answer(there=lambda p, h, w: p.T.reshape(1, -1, w, h)), "The old grid is read as (w, h)"),
    (answer(lambda image, new: F.interpolate(image, new[::-1], **BICUBIC), lambda p, h, w: p.T.reshape(1, -1, w, h)),
     "Both grids are turned"),
    (answer(there=lambda p, h, w: p.reshape(1, h, w, -1).permute(0, 3, 2, 1)), "The old picture is transp"),
    (answer(back=lambda x: rearrange(x, "1 d h w -> (w h) d")), "counted down the columns"),
    (lambda p, old, new, n: F.interpolate(p[n:].T.reshape(1, -1, *old), new, **BICUBIC), "still a picture"),
    (lambda p, old, new, n: p if len(p) - n == new[0] * new[1] else answer()(p, old, new, n), "same number of patches"),
    (answer(there=lambda p, h, w: p.reshape(1, h, w, -1)), "`F.interpolate` got (1, 2, 8, 5), and needs (1, D, h, w),"),
    (answer(there=lambda p, h, w: p.reshape(h, w, -1)), "`F.interpolate` got (2, 8, 5)"),
    (lambda p, *sizes: answer()(p.half().float(), *sizes), "to half precision for instance?"),
    (answer(join=lambda a, b: torch.cat([a.mean(0)[None].expand_as(a), b])), "prefix are averaged"),
    (lambda p, *sizes: p, "The old positions come back as they were"),
    (lambda p, old, new, n: F.interpolate(p.T[None], n + new[0] * new[1], mode="linear")[0].T,
     "All T rows are stretched as one long line"),
    (as_a_table, "The patches' rows are stretched as one long line"),
    (lambda p, old, new, n: torch.cat([p[:n], p[n:].repeat(9, 1)[: new[0] * new[1]]]), "list of patches is repeated"),
    (answer(lambda image, new: image.repeat(1, 1, 9, 9)[:, :, : new[0], : new[1]]), "laid side by side, like tiles"),
    (lambda *args: filled(*args, torch.randn), "Two calls with the same arguments give two results"),
    (lambda *args: resize_position_embedding(*args).double(), "The values are right. The result must be of"),
]  # fmt: skip


RIGHT, WRONG = {check.resize_positions: RIGHT}, {check.resize_positions: WRONG}


test_right_answers_pass, test_wrong_answers_are_named, test_untouched_stubs_are_not_attempted = judged(RIGHT, WRONG)


def test_a_crash_shows_the_readers_line():
    mine = cell("def mine(position, old, new, n):\n    return position.reshape(*old, -1)")["mine"]
    assert "return position.reshape(*old, -1)" in check.resize_positions(mine).code
