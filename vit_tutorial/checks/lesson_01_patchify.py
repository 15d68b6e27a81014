"""Lesson 01: the number of patches, images into patches, and back."""

from __future__ import annotations

import math
from itertools import permutations

import torch
import torch.nn.functional as F
from torch import Tensor

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
        "One too few each way: `H // P` patches fit above one another, without minus one.":
            lambda H, W, P: (H // P - 1) * (W // P - 1),
        "You add rows and columns. A grid of h rows and w columns has h·w cells.": lambda H, W, P: H // P + W // P,
        "You square the rows. That is right only for a square image.": lambda H, W, P: (H // P) ** 2,
        "You square the columns. That is right only for a square image.": lambda H, W, P: (W // P) ** 2,
        "These are the rows of the grid only. Each row has W / P patches.": lambda H, W, P: H // P,
        "These are the columns of the grid only. Each column has H / P patches.": lambda H, W, P: W // P,
        "That is the grid, (h, w). The number of patches is one number, h·w.": lambda H, W, P: (H // P, W // P),
        "One too many: the class token is no patch. It comes in lesson 02.": lambda H, W, P: (H // P) * (W // P) + 1,
        "You divide by 16, whatever P is: use `patch_size`.": lambda H, W, P: (H // 16) * (W // 16),
        "That is how many pixels one patch covers, not how many patches there are.": lambda H, W, P: P * P,
        "Your window moves by one pixel. Patches do not overlap: move by P.": lambda H, W, P: (H - P + 1) * (W - P + 1),
    },
    hint="How many patches fit side by side, and how many fit above one another? `//` divides whole numbers.",
    gradients=False,
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

INSIDE = {"CPQ": "", "PQC": "(row, column, channel)", "CQP": "(channel, column, row)", "QPC": "(column, row, channel)",
          "PCQ": "(row, channel, column)", "QCP": "(column, channel, row)"}  # fmt: skip
BY_ROWS, BY_COLUMNS = ([f"B{grid}{inside}" for inside in INSIDE] for grid in ("hw", "wh"))


def named(axes: str) -> str:
    return f"({', '.join(axes.replace('Q', 'P'))})"


def cut(read: str, write: str, old: str = "BChPwQ", moved: str = "BhwCPQ") -> tuple[str, ...]:
    """Return the edit of `my_patchify` that takes the axes of images for `read`, and orders them as `write`."""
    move = f"permute{tuple(map(old.index, moved))}", f"permute{tuple(map(read.index, write))}"
    return f"reshape{named(old)}", f"reshape{named(read)}", *move


def join(read: str, write: str) -> tuple[str, ...]:
    """Return such an edit of `my_unpatchify`."""
    return cut(read, write, "BhwCPQ", "BChPwQ")


def others(*known: str) -> dict[str, list[str]]:
    """Return all orders of the axes after B by their names, without those that have a sentence of their own."""
    orders = {f"B{''.join(rest)}" for rest in permutations("hwCPQ")} - set(known)
    return {name: [order for order in orders if named(order) == name] for name in sorted(map(named, orders))}


def pixel_ids(*shape: int) -> Tensor:
    """Return images in which every value is different, counted from 0."""
    return torch.arange(math.prod(shape), dtype=torch.float32).reshape(shape)


IMAGES = [(pixel_ids(5, 4, 6, 24), 3), (pixel_ids(2, 3, 4, 4), 4), (pixel_ids(1, 5, 16, 4).double(), 2)]
EASIER = {
    (2, 4, 6, 6): "Yours is right for a square image, and this one has 6×24 pixels: h = H / P and w = W / P differ.",
    (5, 3, 6, 24): "Yours is right for 3 channels, and here there are 4. Take C from the shape of the input.",
    (2, 3, 6, 6): "Yours is right for a square image with 3 channels. This one has 6×24 pixels and 4 channels.",
}

FLAT = "blocks.reshape(B, h * w, C * P * P)"

patchify = Exercise(
    my_patchify,
    task="`fn(images, patch_size)`, (B, C, H, W) and P → (B, N, C·P·P): images as sequences of patches.",
    trials=IMAGES,
    slips={
        "Your rows are image rows, not patches: `reshape` alone keeps the values in their order, and there a pixel's "
        "neighbour below is a whole image row away.": cut("BChPwQ", "BChPwQ"),
        "Your rows are image rows, not patches, with the channels last: the pixel below is a whole image row away.":
            cut("BChPwQ", "BhPwQC"),
        "You read the image as (B, H, W, C). Its axes are (B, C, H, W), the channels before rows and columns.":
            [cut("BhPwQC", order) for order in BY_ROWS],
        **{f"Every patch is in its place, but the values in it run {name}. The task asks for (channel, row, column)."
           : cut("BChPwQ", f"Bhw{inside}") for inside, name in INSIDE.items() if name},
        **{"Your patches run down the columns of the grid. Go row by row, left to right: h before w."
           f"{name and f' And the values inside run {name}.'}": cut("BChPwQ", f"Bwh{inside}")
           for inside, name in INSIDE.items()},
        "Height and width are exchanged: split the rows into (h, P), not (w, P). A square image would hide this.":
            [cut("BCwPhQ", order) for order in BY_ROWS + BY_COLUMNS],
        "Each of your patches takes every h-th row of the image: the height is split into (P, h). Split it into (h, "
        "P), first which patch, then which row inside it.": [cut(read, "BhwCPQ") for read in ("BCPhQw", "BCPhwQ")],
        "Each of your patches takes every w-th column of the image: the width is split into (P, w). Split it into "
        "(w, P), as you split the height into (h, P).": cut("BChPQw", "BhwCPQ"),
        "Your first `reshape` splits into (B, C, h, w, P, P), which tears the rows of the image apart. Split each "
        "axis in place: (B, C, h, P, w, P).": [cut("BChwPQ", order) for order in ("BhwCPQ", "BwhCPQ")],
        **{f"Your rows mix pixels of different patches: before you flatten, your axes run {name}. They must run "
           "(B, h, w, C, P, P): first what counts the patches, then the inside of one.":
               [cut("BChPwQ", order) for order in orders]
           for name, orders in others("BChPwQ", "BhPwQC", *BY_ROWS, *BY_COLUMNS).items()},
        "Your sequences mix patches of different images: the patches are in the order (N, B), and `reshape` does not "
        "exchange the two.": cut("BChPwQ", "hwBCPQ"),
        "The last two axes are exchanged, (B, C·P·P, N): each patch is a column. `F.unfold` returns them so.":
            (FLAT, f"{FLAT}.mT"),
        "The batch is gone: the patches of all images are in one list, (B·N, C·P·P).": (FLAT, f"{FLAT}.flatten(0, 1)"),
        "The grid is still there, (B, h, w, C·P·P). Flatten h and w into N.": (FLAT, "blocks.flatten(3)"),
        "The patches are still little images. Flatten the last three axes into one vector of C·P·P values.":
            [(FLAT, "blocks.flatten(1, 2)"), (*cut("BChPwQ", "BhwPQC"), FLAT, "blocks.flatten(1, 2)")],
        "Each channel has patches of its own, (B, C·N, P·P). A patch holds all channels of its pixels.":
            (*cut("BChPwQ", "BChwPQ"), FLAT, "blocks.reshape(B, C * h * w, P * P)"),
        "Only the first image is there. Cut the whole batch at once.": (FLAT, f"{FLAT}[0]"),
        "Your slices begin at i and j, which count patches. Patch (i, j) begins at pixel (i·P, j·P): "
        "`images[..., i * P : (i + 1) * P, j * P : (j + 1) * P]`.":
            lambda x, P: F.unfold(x[..., : x.shape[2] // P + P - 1, : x.shape[3] // P + P - 1], P).mT,
    },
    hint="Split the height into (h, P) and the width into (w, P) with one `reshape`: the pixels stay in their order. "
    "Then `permute` so that h and w come first and C and both P last, and flatten.",
    shape="(B, N, C·P·P)",
    easier=[((pixel_ids(*shape), 3), text) for shape, text in EASIER.items()],
)  # fmt: skip

COLUMN = "`F.fold` wants each patch as a column, (B, C·P·P, N)"
GRID, SQUARE = "H // P, W // P", "2 * [int(patches.shape[1] ** 0.5)]"

unpatchify = Exercise(
    my_unpatchify,
    task="`fn(patches, patch_size, image_size)`, (B, N, C·P·P), P and (H, W) → (B, C, H, W): patches back into images.",
    trials=[(my_patchify(images, P), P, tuple(images.shape[2:])) for images, P in IMAGES],
    slips={
        "Your image rows are patches laid end to end: `reshape` alone leaves the values in their order.":
            join("BhwCPQ", "BhwCPQ"),
        "You read the patches as running down the columns of the grid. They run row by row: split N into (h, w).":
            join("BwhCPQ", "BChPwQ"),
        "The patches are split into (w, h), and then not brought back into their places. Split N into (h, w).":
            join("BwhCPQ", "BCwPhQ"),
        "You split into (B, C, h, w, P, P), as if C came before the patches. Split N into (h, w), and the last axis "
        "into (C, P, P): that is (B, h, w, C, P, P).": join("BChwPQ", "BChPwQ"),
        **{f"Every patch is in its place, and wrong inside: you read it as {name}, and it is (channel, row, column)."
           : join(f"Bhw{inside}", "BChPwQ") for inside, name in INSIDE.items() if name},
        **{f"The pixels are in wrong places: before you flatten, your axes run {name}. They must run "
           "(B, C, h, P, w, P), so that h meets its P and w meets its P.": [join("BhwCPQ", order) for order in orders]
           for name, orders in others("BChPwQ", "BChQwP", "BhwCPQ").items()},
        f"{COLUMN}, and `reshape` does not exchange axes. `patches.transpose(1, 2)` does.":
            lambda patches, P, size: F.fold(patches.reshape(len(patches), -1, patches.shape[1]), size, P, stride=P),
        f"{COLUMN}, and yours are rows. `patches.transpose(1, 2)` makes columns.":
            lambda patches, P, size: F.fold(patches, size, P, stride=P),
        "A patch has C·P·P values, and you divide by P once: C = patch_dim // (P·P).": ("(P * P)", "P"),
        "Height and width are exchanged: `image_size` is (height, width), and your image is (width, height).":
            ("H, W = image_size", "W, H = image_size"),
        "Your image is the right one lying on its side: rows and columns are exchanged.":
            ("(B, C, H, W)", "(B, C, H, W).mT"),
        "You take the grid to be square, h = w = √N. Here it is not: h and w follow from `image_size`.":
            [(GRID, SQUARE), (GRID, SQUARE, "(B, C, H, W)", "(B, C, h * P, w * P)")],
    },
    hint="Undo `patchify` step by step: split N into (h, w) and the last axis into (C, P, P), `permute` to "
    "(B, C, h, P, w, P), and flatten h with its P, w with its P.",
    shape="(B, C, H, W)",
    easier=[((my_patchify(pixel_ids(*shape), 3), 3, shape[2:]), text) for shape, text in EASIER.items()],
)  # fmt: skip
