"""Lesson 01: the number of patches, images into patches, and back."""

from __future__ import annotations

from itertools import permutations

import torch
import torch.nn.functional as F

from .exercise import Exercise


def my_num_patches(height, width, patch_size):
    return (height // patch_size) * (width // patch_size)


num_patches = Exercise(
    my_num_patches,
    task="`fn(height, width, patch_size) -> int`: how many patches an image is cut into.",
    trials=[(28, 35, 7), (12, 8, 4), (32, 32, 32)],
    slips={
        "You count pixels: one patch covers P·P of them. (`H * W // P * P` divides by P and multiplies again.)":
            lambda H, W, P: H * W,
        "You divide by P once. A patch is P pixels wide and P pixels high.": lambda H, W, P: H * W // P,
        "You add rows and columns. A grid of h rows and w columns has h·w cells.": lambda H, W, P: H // P + W // P,
        "You square one side of the grid. That is right only for a square image.":
            [lambda H, W, P: (H // P) ** 2, lambda H, W, P: (W // P) ** 2],
        "That is one side of the grid only: it has H / P rows, and each row has W / P patches.":
            [lambda H, W, P: H // P, lambda H, W, P: W // P],
        "That is the grid, (h, w). The number of patches is one number, h·w.": lambda H, W, P: (H // P, W // P),
        "One too few each way: `H // P` patches fit above one another, without minus one.":
            lambda H, W, P: (H // P - 1) * (W // P - 1),
        "One too many: the class token is no patch. It comes in lesson 02.": lambda H, W, P: (H // P) * (W // P) + 1,
        "You divide by 16, whatever P is: use `patch_size`.": lambda H, W, P: (H // 16) * (W // 16),
        "That is how many pixels one patch covers, not how many patches there are.": lambda H, W, P: P * P,
        "Your window moves by one pixel. Patches do not overlap: move by P.": lambda H, W, P: (H - P + 1) * (W - P + 1),
    },
    hint="How many patches fit side by side, and how many fit above one another? `//` divides whole numbers.",
)  # fmt: skip


def my_patchify(images, patch_size):
    B, C, H, W = images.shape
    P = patch_size
    h, w = H // P, W // P
    bands = images.reshape(B, C, h, P, w, P)  # both sides cut
    blocks = bands.permute(0, 2, 4, 1, 3, 5)  # (B, h, w, C, P, P)
    return blocks.reshape(B, h * w, C * P * P)


def my_unpatchify(patches, patch_size, image_size):
    B, _, patch_dim = patches.shape
    P = patch_size
    H, W = image_size
    h, w = H // P, W // P
    C = patch_dim // (P * P)
    blocks = patches.reshape(B, h, w, C, P, P)
    bands = blocks.permute(0, 3, 1, 4, 2, 5)  # (B, C, h, P, w, P)
    return bands.reshape(B, C, H, W)


# Axes in other orders: each is a letter, Q is the second P. The solutions cut into "BChPwQ" and "BhwCPQ".

OTHER_ORDERS = {"CQP": "(channel, column, row)", "PQC": "(row, column, channel)", "PCQ": "(row, channel, column)",
                "QPC": "(column, row, channel)", "QCP": "(column, channel, row)"}  # fmt: skip
PATCH_ORDERS = ["CPQ", *OTHER_ORDERS]


def cut(read: str, write: str, old_read: str = "BChPwQ", old_write: str = "BhwCPQ") -> tuple[str, ...]:
    """Return the edit of `my_patchify` that takes the axes of images for `read`, and orders them as `write`."""
    shapes = [f"reshape({', '.join(axes.replace('Q', 'P'))})" for axes in (old_read, read)]
    moves = [f"permute{tuple(map(axes.index, moved))}" for axes, moved in ((old_read, old_write), (read, write))]
    return *shapes, *moves


def join(read: str, write: str) -> tuple[str, ...]:
    """Return such an edit of `my_unpatchify`."""
    return cut(read, write, "BhwCPQ", "BChPwQ")


def others(*known: str) -> list[str]:
    """Return all orders of the axes after B, but for those that are known."""
    return sorted({f"B{''.join(order)}" for order in permutations("hwCPQ")}.difference(known))


# Every value is different. The first images are square and have 3 channels, as most have: who takes all images for such
# is told that the code is right at the first size.
IMAGES = [
    (torch.arange(960.0).reshape(5, 3, 8, 8), 2),
    (torch.arange(2880.0).reshape(5, 4, 6, 24), 3),
    (torch.arange(320.0).reshape(1, 5, 16, 4).double(), 2),
]

patchify = Exercise(
    my_patchify,
    task="`fn(images, patch_size)`, (B, C, H, W) and P → (B, N, C·P·P): images as sequences of patches.",
    trials=IMAGES,
    slips={
        "Your rows are image rows, not patches: `reshape` alone keeps the values in their order, and there a pixel's "
        "neighbour below is a whole image row away.": [cut("BChPwQ", "BChPwQ"), cut("BChPwQ", "BhPwQC")],
        "You read the image as (B, H, W, C). Its axes are (B, C, H, W), the channels before rows and columns.":
            [cut("BhPwQC", f"Bhw{inside}") for inside in PATCH_ORDERS],
        **{f"Every patch is in its place, but the values in it run {name}. The task asks for (channel, row, column)."
           : cut("BChPwQ", f"Bhw{inside}") for inside, name in OTHER_ORDERS.items()},
        "Your patches run down the columns of the grid. Go row by row, left to right: h before w.":
            [cut("BChPwQ", f"Bwh{inside}") for inside in PATCH_ORDERS],
        "Height and width are exchanged: split the rows into (h, P), not (w, P). A square image would hide this.":
            [cut("BCwPhQ", f"B{grid}{inside}") for grid in ("hw", "wh") for inside in PATCH_ORDERS],
        "Each of your patches takes every h-th row or every w-th column of the image: a side is split into (P, h). "
        "Split it into (h, P), first which patch, then which pixel inside it.":
            [cut(read, "BhwCPQ") for read in ("BCPhQw", "BCPhwQ", "BChPQw")],
        "Your first `reshape` splits into (B, C, h, w, P, P), which tears the rows of the image apart. Split each "
        "axis in place: (B, C, h, P, w, P).": [cut("BChwPQ", order) for order in ("BhwCPQ", "BwhCPQ")],
        "Your rows mix pixels of different patches: before you flatten, your axes are in another order. They must run "
        "(B, h, w, C, P, P): first what counts the patches, then the inside of one.":
            [cut("BChPwQ", order) for order in others("BChPwQ", "BhPwQC") if order[1:3] not in ("hw", "wh")],
        "Your sequences mix patches of different images: the patches are in the order (N, B), and `reshape` does not "
        "exchange the two.": cut("BChPwQ", "hwBCPQ"),
        "You take the grid to be square. h = H / P and w = W / P differ if the image is not.":
            [("h, w = H // P, W // P", f"h = w = {side} // P") for side in "HW"],
        "Your slices begin at i and j, which count patches. Patch (i, j) begins at pixel (i·P, j·P): "
        "`images[..., i * P : (i + 1) * P, j * P : (j + 1) * P]`.":
            lambda x, P: F.unfold(x[..., : x.shape[2] // P + P - 1, : x.shape[3] // P + P - 1], P).mT,
        "`F.unfold` makes each patch a column, (B, C·P·P, N). `.transpose(1, 2)` makes it a row.":
            lambda x, P: F.unfold(x, P, stride=P),
        "Each channel has patches of its own. A patch holds the values of all channels, C·P·P.":
            lambda x, P: my_patchify(x.reshape(-1, 1, *x.shape[2:]), P).reshape(len(x), -1, P * P),
    },
    hint="Split the height into (h, P) and the width into (w, P) with one `reshape`: the pixels stay in their order. "
    "Then `permute` so that h and w come first and C and both P last, and flatten.",
    shape="(B, N, C·P·P)",
)  # fmt: skip

unpatchify = Exercise(
    my_unpatchify,
    task="`fn(patches, patch_size, image_size)`, (B, N, C·P·P), P and (H, W) → (B, C, H, W): patches back into images.",
    trials=[(my_patchify(images, P), P, tuple(images.shape[2:])) for images, P in IMAGES],
    slips={
        "Your image rows are patches laid end to end: `reshape` alone leaves the values in their order.":
            join("BhwCPQ", "BhwCPQ"),
        "You read the patches as running down the columns of the grid. They run row by row: split N into (h, w).":
            [join("BwhCPQ", "BChPwQ"), join("BwhCPQ", "BCwPhQ")],
        "You split into (B, C, h, w, P, P), as if C came before the patches. Split N into (h, w), and the last axis "
        "into (C, P, P): that is (B, h, w, C, P, P).": join("BChwPQ", "BChPwQ"),
        **{f"Every patch is in its place, and wrong inside: you read it as {name}, and it is (channel, row, column)."
           : join(f"Bhw{inside}", "BChPwQ") for inside, name in OTHER_ORDERS.items()},
        "The pixels are in wrong places: before you flatten, your axes are in another order. They must run "
        "(B, C, h, P, w, P), so that h meets its P and w meets its P.":
            [join("BhwCPQ", order) for order in others("BChPwQ", "BChQwP", "BhwCPQ")],
        "`F.fold` wants each patch as a column, (B, C·P·P, N), and yours are rows. `patches.transpose(1, 2)` exchanges "
        "the two axes, `reshape` does not.":
            [lambda patches, P, size: F.fold(patches, size, P, stride=P),
             lambda patches, P, size: F.fold(patches.reshape(len(patches), -1, patches.shape[1]), size, P, stride=P)],
        "A patch has C·P·P values, and you divide by P once: C = patch_dim // (P·P).": ("(P * P)", "P"),
        "Height and width are exchanged: `image_size` is (height, width), rows first.":
            [("H, W = image_size", "W, H = image_size"), ("(B, C, H, W)", "(B, C, H, W).mT")],
        "You take the grid to be square, h = w = √N. Here it is not: h and w follow from `image_size`.":
            [("h, w = H // P, W // P", "h = w = int(patches.shape[1] ** 0.5)", *flat)
             for flat in ((), ("(B, C, H, W)", "(B, C, h * P, w * P)"))],
    },
    hint="Undo `patchify` step by step: split N into (h, w) and the last axis into (C, P, P), `permute` to "
    "(B, C, h, P, w, P), and flatten h with its P, w with its P.",
    shape="(B, C, H, W)",
)  # fmt: skip
