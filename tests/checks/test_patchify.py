"""The checks of notebook 01 on right and wrong answers."""

import math

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange

from vit_tutorial import check, patchify, unpatchify

from .variants import cell, judged


def by_slices(images, P, step=None):
    """A slice for each patch, which begins so many pixels after the last."""
    h, w, step = images.shape[2] // P, images.shape[3] // P, step or P
    corners = [(i * step, j * step) for i in range(h) for j in range(w)]
    return torch.stack([images[..., y : y + P, x : x + P].flatten(1) for y, x in corners], dim=1)


CELL = cell("""
    def square(images, P):
        B, C, H, W = images.shape
        h = w = H // P
        blocks = images.reshape(B, C, h, P, w, P)
        return blocks.permute(0, 2, 4, 1, 3, 5).reshape(B, h * w, C * P * P)

    def patchify(images, P):
        B, C, H, W = images.shape
        h, w = H // P, W // P
        blocks = images.reshape(B, C, h, P, w, P)
        blocks.permute(0, 2, 4, 1, 3, 5)
        return blocks.reshape(B, h * w, C * P * P)

    def unpatchify(patches, P, size):
        h, w = size[0] // P, size[1] // P
        blocks = patches.reshape(len(patches), h, w, -1, P, P)
        blocks.permute(0, 3, 1, 4, 2, 5)
        return blocks.reshape(len(patches), -1, *size)
""")


def into_rows(blocks, x, P):
    B, C, H, W = x.shape
    return blocks.reshape(B, (H // P) * (W // P), C * P * P)


def cut(pattern):
    """Patchify by an einops pattern."""
    return lambda x, P: rearrange(x, pattern, p=P, q=P)


def join(pattern):
    """Unpatchify by an einops pattern."""
    return lambda x, P, size: rearrange(x, pattern, p=P, q=P, h=size[0] // P).reshape(len(x), -1, *size)


RIGHT = {
    check.num_patches: {
        "area": lambda H, W, P: H * W // P**2,
        "numpy": lambda H, W, P: np.prod([H // P, W // P]),
        "counted": lambda H, W, P: len([1 for y in range(0, H, P) for x in range(0, W, P)]),
        "int of a float": lambda H, W, P: int(H / P * W / P),
    },
    check.patchify: {
        "the package's": patchify,
        "F.unfold": lambda x, P: F.unfold(x, P, stride=P).transpose(1, 2),
        "einops": cut("b c (h p) (w q) -> b (h w) (c p q)"),
        "slices": by_slices,
        "always float32": (lambda x, P: patchify(x.float(), P), "you make patches of torch.float32"),
        "Tensor.unfold": lambda x, P: into_rows(x.unfold(2, P, P).unfold(3, P, P).permute(0, 2, 3, 1, 4, 5), x, P),
    },
    check.unpatchify: {
        "the package's": unpatchify,
        "F.fold": lambda x, P, size: F.fold(x.transpose(1, 2), size, P, stride=P),
        "einops": join("b (h w) (c p q) -> b c (h p) (w q)"),
    },
}


def split(read="C h P w Q", write="h w C P Q", sizes=lambda C, h, w: (C, h, w)):
    """Patchify by `reshape` into the axes `read` (Q is the second P), `permute` to `write`, and `reshape` into rows."""

    def mine(x, P):
        C, h, w = sizes(x.shape[1], x.shape[2] // P, x.shape[3] // P)
        length = {"C": C, "h": h, "w": w, "P": P, "Q": P}
        blocks = x.reshape(len(x), *(length[axis] for axis in read.split()))
        return into_rows(rearrange(blocks, f"B {read} -> B {write}"), x, P)

    return mine


def kept(x, P, store={}):  # noqa: B006
    """Right the first time at a size; then it returns what it had."""
    return store.setdefault(x.shape, patchify(x, P).detach())


def join_with(sizes):
    """Unpatchify by `reshape` and `permute`, with C and h as `sizes(patch_dim, P, image_size)` returns them."""

    def mine(x, P, size):
        C, h = sizes(x.shape[2], P, size)
        return x.reshape(len(x), h, size[1] // P, C, P, P).permute(0, 3, 1, 4, 2, 5).reshape(len(x), C, *size)

    return mine


WRITTEN_IN = "is a size or a batch written into your code?"

WRONG = {
    check.num_patches: [  # and in test_known_mistakes those that it knows
        (lambda H, W, P: H / P * W / P, "The number is right, its kind is not"),
        (lambda H, W, P: torch.tensor((H // P) * (W // P)), "got a tensor of shape ()"),
        (lambda H, W, P: 20, "wrong at another"),
        (lambda H, W, P: 3 * H + W, "20 expected, got 119"),
        (lambda H, W, P: True, "a whole number"),
    ],
    check.patchify: [
        (lambda x, P: into_rows(x, x, P), "image rows, not patches"),
        (lambda x, P: x.view(len(x), -1, x.shape[1] * P * P), "image rows, not patches"),
        (lambda x, P: into_rows(x.permute(0, 2, 3, 1), x, P), "image rows, not patches, with the channels last"),
        (cut("b c (h p) (w q) -> b (h w) (p q c)"),
         "run (row, column, channel). The task asks for (channel, row, column)"),
        (cut("b c (h p) (w q) -> b (h w) (c q p)"), "run (channel, column, row)"),
        (cut("b c (h p) (w q) -> b (h w) (q p c)"), "run (column, row, channel)"),
        (cut("b c (h p) (w q) -> b (w h) (c p q)"), "run down the columns of the grid"),
        (split(read="C w P h Q"), "Height and width are exchanged"),
        (cut("b c (p h) (q w) -> b (h w) (c p q)"), "every h-th row"),
        (cut("b c (h p) (q w) -> b (h w) (c p q)"), "every w-th column"),
        (cut("b c (p h) (w q) -> b (h w) (c p q)"), "as you split the width"),
        (split(write="h P C w Q"), "your axes run (B, h, P, C, w, P)"),
        (split(read="C h w P Q"), "tears the rows"),
        (split(write="C h w P Q"), "your axes run (B, C, h, w, P, P)"),
        (split(write="h P w Q C"), "image rows, not patches"),
        (split(write="h C P w Q"), "your axes run (B, h, C, P, w, P)"),
        (lambda x, P: F.unfold(x, P, stride=P), "The last two axes are exchanged"),
        (lambda x, P: into_rows(F.unfold(x, P, stride=P), x, P), "your axes run (B, C, P, P, h, w)"),
        (lambda x, P: F.unfold(x, P).transpose(1, 2), "(B, N, C·P·P) = (5, 16, 36) expected"),
        (lambda x, P: patchify(x, P).flatten(0, 1), "The batch is gone"),
        (lambda x, P: patchify(x, P).unflatten(1, (-1, x.shape[3] // P)), "The grid is still"),
        (cut("b c (h p) (w q) -> b (h w) c p q"), "still little images"),
        (cut("b c (h p) (w q) -> b (c h w) (p q)"), "Each channel has patches of its own"),
        (lambda x, P: patchify(x, P)[0], "Only the first image"),
        (lambda x, P: by_slices(x, P, step=1), "Your slices begin at i and j, which count patches"),
        (CELL["patchify"], "`blocks.permute(0, 2, 4, 1, 3, 5)` changes nothing"),
        (lambda x, P: patchify(x, P).squeeze(0), "wrong at another"),
        (lambda x, P: patchify(x.detach(), P), "no gradient flows back"),
        (lambda x, P: torch.from_numpy(patchify(x, P).detach().numpy()), "no gradient"),
        (lambda x, P: patchify(x.detach(), P).numpy(), "must be a tensor, got a value of type nd"),
        (lambda x, P: patchify(x, P).half().float(), "wrong values"),
        (lambda x, P: patchify(x, P).double(), "The values are right. The result must be of dtype", "dtype=x.dtype"),
        (lambda x, P: patchify(x, 3), WRITTEN_IN),
        (lambda x, P: patchify(x, P).reshape(len(x), -1, 4 * P * P), WRITTEN_IN),
        (lambda x, P: patchify(x, P).reshape(5, -1, x.shape[1] * P * P), WRITTEN_IN),
        (split(sizes=lambda C, h, w: (3, h, w)), "right for 3 channels, and here there are 4"),
        (split(sizes=lambda C, h, w: (C, h, h)), "right for a square image"),
        (split(sizes=lambda C, h, w: (C, w, w)), "right for a square image"),
        (CELL["square"], "Your code stops with an error in line 4 of your cell, in square. "
         "RuntimeError: shape '[5, 4, 2, 3, 2, 3]' is invalid for input of size 2880 "
         "It was called as `square(images=tensor of (5, 4, 6, 24), P=3)`. Yours is right for a square image"),
        (lambda x, P: rearrange(x, "b c (h p) (w q) -> b (h w) (c p q)", p=P, h=x.shape[3] // P, w=x.shape[3] // P),
         "right for a square image"),
        (lambda x, P: by_slices(x[..., : x.shape[2]], P), "right for a square image"),
        (split(sizes=lambda C, h, w: (3, h, h)), "right for a square image with 3"),
        (kept, "keeps something from call to call"),
        (lambda x, P: patchify(x.mul_(2), P) / 2, "changes its input: after the call `x`"),
        (lambda x, P: patchify(x, P) + torch.rand(()), "something in your function is random"),
        (lambda x, P: (y := patchify(x, P)).transpose(0, 1).reshape(y.shape), "mix patches of different images"),
        (lambda x, P: patchify(x, P) / 255, "agree. The first that differs is at [0, 0, 1]"),
        (lambda x, P: patchify(x, P).flip(1), "right shape and wrong values", "in the wrong place"),
        (lambda x, P: patchify(x - x.mean(0), P), "right shape and wrong values"),
        (lambda x, P: (patchify(x, P), 1), "must be a tensor, got a value of type tuple"),
    ],
    check.unpatchify: [
        (lambda x, P, size: x.reshape(len(x), -1, *size), "patches laid end to end"),
        (join("b (w h) (c p q) -> b c (h p) (w q)"), "running down the columns"),
        (CELL["unpatchify"], "`blocks.permute(0, 3, 1, 4, 2, 5)` changes nothing"),
        (join("b (h w) (p q c) -> b c (h p) (w q)"), "you read it as (row, column, channel)"),
        (join("b (h w) (c q p) -> b c (h p) (w q)"), "you read it as (channel, column, row)"),
        (join("b (h w) (c p q) -> b c h w p q"), "your axes run (B, C, h, w, P, P)"),
        (join("b (h w) (c p q) -> b c (p h) (q w)"), "your axes run (B, C, P, h, P, w)"),
        (lambda x, P, size: unpatchify(x, P, size[::-1]), "`image_size` is (height, width)"),
        (lambda x, P, size: unpatchify(x, P, size).mT, "lying on its side"),
        (lambda x, P, size: rearrange(x, "b (h w) (c p q) -> b c (h p) (w q)", p=P, q=P, h=math.isqrt(x.shape[1])),
         "the grid to be square"),
        (join_with(lambda dim, P, size: (dim // P**2, size[1] // P)), "right for a square image"),
        (join_with(lambda dim, P, size: (3, size[0] // P)), "right for 3 channels"),
        (join_with(lambda dim, P, size: (dim // P, size[0] // P)), "C = patch_dim // (P·P)"),
        (lambda x, P, size: unpatchify(x, P, size).reshape(len(x), 4, *size), WRITTEN_IN),
        (lambda x, P, size: F.fold(x.reshape(len(x), -1, x.shape[1]), size, P, stride=P), "`F.fold` wants each patch"),
        (lambda x, P, size: F.fold(x, size, P, stride=P), "as a column, (B, C·P·P, N), and yours are"),
        (lambda x, P, size: unpatchify(x.detach(), P, size), "no gradient flows back"),
        (lambda x, P, size: unpatchify(x.float(), P, size), "of dtype torch.float64"),
        (lambda x, P, size: unpatchify(x, P, size)[0], "(B, C, H, W) = (5, 4, 6, 24) expected"),
        (lambda x, P, size: unpatchify(x, P, size).clamp(0, 1), "right shape and wrong values"),
    ],
}  # fmt: skip


test_right_answers_pass, test_wrong_answers_are_named, test_untouched_stubs_are_not_attempted = judged(RIGHT, WRONG)
