"""The checks of notebook 01 on right and wrong answers."""

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


def cut(pattern):
    """Patchify by an einops pattern."""
    return lambda x, P: rearrange(x, pattern, p=P, q=P)


def join(pattern):
    """Unpatchify by an einops pattern."""
    return lambda x, P, size: rearrange(x, pattern, p=P, q=P, h=size[0] // P).reshape(len(x), -1, *size)


CELL = cell("""
    def square(images, P):
        B, C, H, W = images.shape
        h = w = H // P
        blocks = images.reshape(B, C, h, P, w, P)
        return blocks.permute(0, 2, 4, 1, 3, 5).reshape(B, h * w, C * P * P)

    def not_kept(images, P):
        B, C, H, W = images.shape
        blocks = images.reshape(B, C, H // P, P, W // P, P)
        blocks.permute(0, 2, 4, 1, 3, 5)
        return blocks.reshape(B, -1, C * P * P)
""")
FLOAT32 = "your result is torch.float32, and the solution's torch.float64"

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
        "always float32": (lambda x, P: patchify(x.float(), P), FLOAT32),
        "Tensor.unfold": lambda x, P: (
            x.unfold(2, P, P).unfold(3, P, P).permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)
        ),
    },
    check.unpatchify: {
        "the package's": unpatchify,
        "F.fold": lambda x, P, size: F.fold(x.transpose(1, 2), size, P, stride=P),
        "einops": join("b (h w) (c p q) -> b c (h p) (w q)"),
        "always float32": (lambda x, P, size: F.fold(x.float().mT, size, P, stride=P), FLOAT32),
    },
}
WRONG = {
    check.num_patches: [
        (lambda H, W, P: H * W // P, "You divide by P once"),
        (lambda H, W, P: H // P + W // P, "You add rows and columns"),
        (lambda H, W, P: H / P * W / P, "The number is right, its kind is not"),
        (lambda H, W, P: 20, "wrong at another"),
        (lambda H, W, P: True, "20 (int) expected, got a value of type bool"),
    ],
    check.patchify: [
        (lambda x, P: x.view(len(x), -1, x.shape[1] * P * P), "image rows, not patches"),
        (lambda x, P: rearrange(
            x.reshape(len(x), *x.shape[2:], x.shape[1]), "b (h p) (w q) c -> b (h w) (c p q)", p=P, q=P),
         "You read the image as (B, H, W, C)"),
        (cut("b c (h p) (w q) -> b (h w) (p q c)"), "run (row, column, channel). The task asks for"),
        (lambda x, P: F.unfold(x, P, stride=P).reshape(len(x), -1, x.shape[1] * P * P), "pixels of different patches"),
        (lambda x, P: by_slices(x, P, step=1), "Your slices begin at i and j, which count patches"),
        (CELL["not_kept"], "`blocks.permute(0, 2, 4, 1, 3, 5)` changes nothing"),
        (CELL["square"], "`square(images=tensor of (5, 4, 6, 24), P=3)`. You take the grid to be square"),
    ],
    check.unpatchify: [
        (lambda x, P, size: x.reshape(len(x), -1, *size), "patches laid end to end"),
        (lambda x, P, size: rearrange(
            x.reshape(len(x), -1, *x.shape[1:2], P, P), "b c (h w) p q -> b c (h p) (w q)", h=size[0] // P),
         "as if C came before the patches"),
        (join("b (w h) (c p q) -> b c (h p) (w q)"), "running down the columns"),
        (lambda x, P, size: unpatchify(x, P, size[::-1]), "`image_size` is (height, width)"),
        (lambda x, P, size: F.fold(x, size, P, stride=P), "as a column, (B, C·P·P, N), and yours are"),
    ],
}  # fmt: skip

test_right_answers_pass, test_wrong_answers_are_named = judged(RIGHT, WRONG)
