"""The checks of notebook 01 on right and wrong answers."""

import torch
import torch.nn.functional as F
from einops import rearrange

from vit_tutorial import check, patchify, unpatchify

from .variants import judged


def by_slices(images, P, step=None):
    """A slice for each patch, which begins so many pixels after the last."""
    h, w, step = images.shape[2] // P, images.shape[3] // P, step or P
    corners = [(i * step, j * step) for i in range(h) for j in range(w)]
    return torch.stack([images[..., y : y + P, x : x + P].flatten(1) for y, x in corners], dim=1)


def cut(pattern):
    """Patchify by an einops pattern."""
    return lambda x, P: rearrange(x, pattern, p=P, q=P)


def join(pattern):
    """Unpatchify by an einops pattern."""
    return lambda x, P, size: rearrange(x, pattern, p=P, q=P, h=size[0] // P).reshape(len(x), -1, *size)


GRID, FLOATS = "h, w = H // P, W // P", "h, w = H / P, W / P"

RIGHT = {
    check.patchify: {
        "the package's": patchify,
        "F.unfold": lambda x, P: F.unfold(x, P, stride=P).transpose(1, 2),
        "einops": cut("b c (h p) (w q) -> b (h w) (c p q)"),
        "slices": by_slices,
    },
    check.unpatchify: {
        "the package's": unpatchify,
        "F.fold": lambda x, P, size: F.fold(x.transpose(1, 2), size, P, stride=P),
        "einops": join("b (h w) (c p q) -> b c (h p) (w q)"),
    },
}
WRONG = {
    check.patchify: [
        (lambda x, P: patchify(x, P) / 2100, "values that are no pixels"),
        (lambda x, P: patchify(x.flip(0), P), "Image 0 of your result holds pixels of images [6]"),
        (lambda x, P: F.unfold(x, P, stride=P).reshape(len(x), -1, x.shape[1] * P * P),
         "rows [0, 2, 4], columns [0, 2"),
        (lambda x, P: by_slices(x, P, step=1), "Where patch 1 belongs, your result holds pixels of patches [0, 1]"),
        (cut("b c (h p) (w q) -> b (w h) (c p q)"), "Your patches run [0, 5, 10"),
        (cut("b c (h p) (w q) -> b (h w) (p q c)"), "its values run as (row, column, channel)"),
        (lambda x, P: patchify(x, P).flip(2), "its values run in another order"),
        (GRID, "h = w = H // P",
         "wrong at another. Your code stops with an error in line 5 of your cell, in my_patchify"),
        (GRID, FLOATS, "`/` makes a float: divide by `//`"),
        ("reshape(B, h * w", "reshape(7, h * w", "shape '[7, 16, 36]' is invalid"),
    ],
    check.unpatchify: [
        (lambda x, P, size: unpatchify(x, P, size) / 2100, "values that are no pixels"),
        (lambda x, P, size: unpatchify(x.flip(0), P, size), "Image 0 of your result holds pixels of images [6]"),
        (lambda x, P, size: x.reshape(len(x), -1, *size), "Where patch 0 belongs, your result holds pixels of"),
        (join("b (w h) (c p q) -> b c (h p) (w q)"), "Your patches run [0, 5, 10"),
        (lambda x, P, size: unpatchify(x, P, size[::-1]), "(B, C, W, H) = (5, 4, 24, 6), and (B, C, H, W)"),
        (lambda x, P, size: F.fold(x, size, P, stride=P), "Here `x` is (B, N, C·P·P)"),
    ],
}  # fmt: skip

test_right_answers_pass, test_wrong_answers_are_told_the_truth = judged(RIGHT, WRONG)
