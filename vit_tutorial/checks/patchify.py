"""Exercises of notebook 01: how many patches, an image cut into them, and put together again."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from .comparing import Mistake, compare
from .exercise import exercise
from .patchify_mistakes import PATCHIFY_MISTAKES, UNPATCHIFY_MISTAKES
from .rearranging import ORDERS, OURS, cut, join
from .running import call


def pixel_ids(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Images in which every pixel of every channel has a number of its own, counted from 0."""
    return torch.arange(math.prod(shape), device="cpu").reshape(shape).to(dtype)


@exercise(
    hint="How many patches fit side by side, how many fit above one another? `//` divides whole numbers.",
    solution="""
def num_patches(height, width, patch_size):
    return (height // patch_size) * (width // patch_size)
""",
)
def num_patches(function):
    """`fn(height, width, patch_size) -> int`: how many patches an image is cut into."""
    trials = [(21, 35, 7), (12, 8, 4), (32, 32, 32)]
    compare(function, lambda H, W, P: (H // P) * (W // P), trials, mistakes=NUM_PATCHES_MISTAKES, gradients=False)


NUM_PATCHES_MISTAKES = [
    Mistake(lambda H, W, P: H * W, "You count pixels, not patches: one patch covers P·P of them."),
    Mistake(
        lambda H, W, P: H * W // P,
        "You divide by P once. A patch is P pixels wide and P pixels high: it covers P·P of them.",
    ),
    Mistake(
        lambda H, W, P: H // P + W // P,
        "You add rows and columns of the grid. A grid of h rows and w columns has h·w cells.",
    ),
    Mistake(lambda H, W, P: (H // P) ** 2, "You square the rows of the grid: only right for a square image."),
    Mistake(lambda H, W, P: (W // P) ** 2, "You square the columns of the grid: only right for a square image."),
    Mistake(lambda H, W, P: H // P, "These are the rows of the grid only. Each row has W / P patches."),
    Mistake(lambda H, W, P: W // P, "These are the columns of the grid only. There are H / P rows of them."),
    Mistake(lambda H, W, P: (H // P, W // P), "That is the grid, (h, w). The number of patches is one number, h·w."),
    Mistake(
        lambda H, W, P: (H // P) * (W // P) + 1,
        "One too many: the class token is no patch. It comes later, and T = 1 + N.",
    ),
    Mistake(lambda H, W, P: (H // 16) * (W // 16), "You divide by 16, whatever P is: use `patch_size`."),
    Mistake(lambda H, W, P: P * P, "That is how many pixels one patch covers, not how many patches there are."),
    Mistake(
        lambda H, W, P: (H - P + 1) * (W - P + 1),
        "You count the places of a window that moves by one pixel. Patches do not overlap: the step is P.",
    ),
]


@exercise(
    hint="Split the height into (h, P) and the width into (w, P) with one `reshape`: that moves no number. Then "
    "`permute` so that h and w come first and C and both P last, and flatten.",
    solution="""
def patchify(images, patch_size):
    B, C, H, W = images.shape
    h, w = H // patch_size, W // patch_size
    blocks = images.reshape(B, C, h, patch_size, w, patch_size)
    blocks = blocks.permute(0, 2, 4, 1, 3, 5)  # (B, h, w, C, P, P)
    return blocks.reshape(B, h * w, C * patch_size * patch_size)
""",
)
def patchify(function):
    """`fn(images, patch_size)`, (B, C, H, W) and P -> (B, N, C·P·P): images as sequences of patches."""
    trials = [(pixel_ids(5, 4, 6, 24), 3), (pixel_ids(2, 3, 4, 4), 4), (pixel_ids(1, 5, 8, 6, dtype=torch.float64), 2)]
    order = own_order(call(function, *trials[0]), *trials[0])

    def reference(images: Tensor, patch_size: int) -> Tensor:
        return cut(images, patch_size, order)

    compare(function, reference, trials, "(B, N, C·P·P)", PATCHIFY_MISTAKES)
    if order == OURS:
        return None
    return (
        f"Your numbers within a patch stand in the order {ORDERS[order]}, the package's in {ORDERS[OURS]}. Both are "
        "right as long as you keep to one. `check.unpatchify` hands out patches in the package's order."
    )


def own_order(result, images: Tensor, patch_size: int) -> str:
    """The order within a patch that explains this result; ours if none does."""
    if not isinstance(result, Tensor):
        return OURS
    return next((order for order in ORDERS if equal(result, cut(images, patch_size, order))), OURS)


def equal(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.device == b.device and torch.equal(a, b)


@exercise(
    hint="Go the way of `patchify` backwards: split N into (h, w) and the last axis into (C, P, P), `permute` to "
    "(B, C, h, P, w, P), and flatten h with its P, w with its P.",
    solution="""
def unpatchify(patches, patch_size, image_size):
    B, N, patch_dim = patches.shape
    H, W = image_size
    h, w = H // patch_size, W // patch_size
    C = patch_dim // (patch_size * patch_size)
    blocks = patches.reshape(B, h, w, C, patch_size, patch_size)
    blocks = blocks.permute(0, 3, 1, 4, 2, 5)  # (B, C, h, P, w, P)
    return blocks.reshape(B, C, H, W)
""",
)
def unpatchify(function):
    """`fn(patches, patch_size, image_size)`, (B, N, C·P·P), P and (H, W) -> (B, C, H, W): patches back into images."""
    images = [pixel_ids(5, 4, 6, 24), pixel_ids(2, 3, 4, 4), pixel_ids(1, 5, 8, 6, dtype=torch.float64)]
    trials = [(cut(x, P), P, tuple(x.shape[2:])) for x, P in zip(images, (3, 4, 2), strict=True)]
    compare(function, join, trials, "(B, C, H, W)", UNPATCHIFY_MISTAKES)
