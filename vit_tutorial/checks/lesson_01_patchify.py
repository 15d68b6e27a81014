"""Lesson 01: the number of patches, images into patches and back; each with its solution, judge and known mistakes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import permutations

import torch
import torch.nn.functional as F
from torch import Tensor

from .comparing import Mistake, compare, known
from .exercise import exercise
from .references import ORDERS, OTHER_ORDERS, OURS, regroup, sizes_of
from .running import call


def my_num_patches(height, width, patch_size):
    return (height // patch_size) * (width // patch_size)


@exercise(
    hint="How many patches fit side by side, and how many fit above one another? `//` divides whole numbers.",
    solution=my_num_patches,
)
def num_patches(function):
    """`fn(height, width, patch_size) -> int`: how many patches an image is cut into."""
    trials = [(28, 35, 7), (12, 8, 4), (32, 32, 32)]
    compare(function, my_num_patches, trials, mistakes=NUM_PATCHES_MISTAKES, gradients=False)


NUM_PATCHES_MISTAKES = known(None, {
    "You count pixels: one patch covers P·P of them. (`H * W // P * P` divides by P and multiplies again.)":
        lambda H, W, P: H * W,
    "You divide by P once. A patch is P pixels wide and P pixels high.": lambda H, W, P: H * W // P,
    "One too few each way: `H // P` patches fit above one another, without minus one.":
        lambda H, W, P: ((H - P) // P) * ((W - P) // P),
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
})  # fmt: skip


# Images into patches and back. Axes are letters, see `references`: an image is "B C h P w Q", Q being the second P.


def my_patchify(images, patch_size):
    B, C, H, W = images.shape
    h, w = H // patch_size, W // patch_size
    blocks = images.reshape(B, C, h, patch_size, w, patch_size)
    blocks = blocks.permute(0, 2, 4, 1, 3, 5)  # (B, h, w, C, P, P)
    return blocks.reshape(B, h * w, C * patch_size * patch_size)


@exercise(
    hint="Split the height into (h, P) and the width into (w, P) with one `reshape`: the pixels stay in their order. "
    "Then `permute` so that h and w come first and C and both P last, and flatten.",
    solution=my_patchify,
)
def patchify(function):
    """`fn(images, patch_size)`, (B, C, H, W) and P -> (B, N, C·P·P): images as sequences of patches."""
    trials = [(pixel_ids(5, 4, 6, 24), 3), (pixel_ids(2, 3, 4, 4), 4), (pixel_ids(1, 5, 8, 6), 2)]
    narrow = [((pixel_ids(*shape), 3), sentence) for shape, sentence in NARROW]
    compare(function, my_patchify, trials, "(B, N, C·P·P)", PATCHIFY_MISTAKES, narrow=narrow)
    got = call(function, pixel_ids(1, 2, 4, 4).double(), 2).dtype
    note = f"One thing to know: from images of torch.float64 you make patches of {got}. The package keeps the dtype."
    return None if got == torch.float64 else note


def my_unpatchify(patches, patch_size, image_size):
    B, _, patch_dim = patches.shape
    H, W = image_size
    h, w = H // patch_size, W // patch_size
    C = patch_dim // (patch_size * patch_size)
    blocks = patches.reshape(B, h, w, C, patch_size, patch_size)
    blocks = blocks.permute(0, 3, 1, 4, 2, 5)  # (B, C, h, P, w, P)
    return blocks.reshape(B, C, H, W)


@exercise(
    hint="Undo `patchify` step by step: split N into (h, w) and the last axis into (C, P, P), `permute` to "
    "(B, C, h, P, w, P), and flatten h with its P, w with its P.",
    solution=my_unpatchify,
)
def unpatchify(function):
    """`fn(patches, patch_size, image_size)`, (B, N, C·P·P), P and (H, W) -> (B, C, H, W): patches back into images."""
    images = [pixel_ids(5, 4, 6, 24), pixel_ids(2, 3, 4, 4), pixel_ids(1, 5, 8, 6).double()]
    trials = [(my_patchify(x, P), P, tuple(x.shape[2:])) for x, P in zip(images, (3, 4, 2), strict=True)]
    narrow = [((my_patchify(pixel_ids(*shape), 3), 3, shape[2:]), sentence) for shape, sentence in NARROW]
    compare(function, my_unpatchify, trials, "(B, C, H, W)", UNPATCHIFY_MISTAKES, narrow=narrow)


def pixel_ids(*shape: int) -> Tensor:
    """Return images in which every value is different, counted from 0."""
    return torch.arange(math.prod(shape), dtype=torch.float32, device="cpu").reshape(shape)


# Easier images, cut with P = 3, for code that is wrong for four channels of 6×24 pixels.
NARROW = [
    ((2, 4, 6, 6), "Yours is right for a square image, and this one has 6×24 pixels: h = H / P and w = W / P differ."),
    ((5, 3, 6, 24), "Yours is right for 3 channels, and here there are 4. Take C from the shape of the input."),
    ((2, 3, 6, 6), "Yours is right for a square image with 3 channels. This one has 6×24 pixels and 4 channels."),
]


def regrouped(read: str, write: str) -> Callable:
    """Return the mistake that takes its input's axes for `read` and writes them as `write`.

    A single group, "(B h w C P Q)", is then cut into the right shape, as a bare `reshape` does it.
    """

    def mistaken(x: Tensor, P: int, image_size: tuple[int, int] | None = None) -> Tensor:
        sizes = sizes_of(x, P, image_size)
        result = regroup(x, read, write, **sizes)
        into = (sizes["C"] * P * P,) if image_size is None else image_size
        return result.reshape(len(x), -1, *into) if result.ndim == 1 else result

    return mistaken


def wrong(read: str, writes: str | Iterable[str], message: str, hint: str | None = None) -> list[Mistake]:
    """Return a mistake for each way to write the axes. "{axes}" in the message becomes "(B, h, w, C, P, P)"."""
    writes = [writes] if isinstance(writes, str) else writes
    axes = {write: ", ".join(write.replace("Q", "P").split()) for write in writes}
    return [Mistake(regrouped(read, write), message.format(axes=axes[write]), hint) for write in writes]


ANY_ORDER = [f"(B {' '.join(axes)})" for axes in permutations("hwCPQ")]
SPLIT = "First split into (B, C, h, P, w, P), then `permute`, then flatten."
PERMUTE = "`permute` puts the axes into another order; `reshape` only cuts the same row of values differently."
INSIDE = "Before you flatten, the axes must run (B, h, w, C, P, P). Another order works too, if all code keeps to it."

PATCHIFY_MISTAKES = [
    *wrong("B C h P w Q", "(B C h P w Q)", "Your rows are image rows, not patches: `reshape` alone keeps the values in "
           "their order, and there a pixel's neighbour below is a whole image row away.", SPLIT),
    *wrong("B C h P w Q", "(B h P w Q C)", "Your rows are image rows, not patches, with the channels last: a pixel and "
           "its neighbour below are a whole image row apart.", SPLIT),
    *(Mistake(regrouped("B C h P w Q", f"(B h w {order})"), "Every patch is in its place, but the values inside it "
              f"run {name}. The task asks for {ORDERS[OURS]}.", INSIDE) for order, name in OTHER_ORDERS.items()),
    *wrong("B C h P w Q", [f"(B w h {order})" for order in ORDERS], "Your patches are right, but they run down the "
           "columns of the grid. Go row by row, left to right: h before w."),
    *wrong("B C w P h Q", ANY_ORDER, "Height and width are exchanged: split the image's rows into (h, P), not "
           "(w, P). A square image would hide this.", "`B, C, H, W = images.shape`; h = H // P belongs to the rows."),
    *wrong("B C P h Q w", "(B h w C P Q)", "Each of your patches takes every h-th row of the image: the height is "
           "split into (P, h). Split it into (h, P): first which patch, then which row inside it."),
    *wrong("B C h P Q w", "(B h w C P Q)", "Each of your patches takes every w-th column of the image: the width is "
           "split into (P, w). Split it into (w, P), as you split the height into (h, P)."),
    *wrong("B C P h w Q", "(B h w C P Q)", "Each of your patches takes every h-th row of the image: the height is "
           "split into (P, h). Split it into (h, P), as you split the width into (w, P)."),
    *wrong("B C h P w Q", ANY_ORDER, "Your rows mix pixels of different patches: before you flatten, your axes run "
           "{axes}. They must run (B, h, w, C, P, P): first what counts the patches, then the inside of one.", PERMUTE),
    *wrong("B C h w P Q", ANY_ORDER, "Your first `reshape` splits into (B, C, h, w, P, P), which tears the rows of the "
           "image apart. Split each axis in place: H into (h, P), W into (w, P), that is (B, C, h, P, w, P).", PERMUTE),
    *wrong("B C h P w Q", "B (C P Q) (h w)", "The last two axes are exchanged, (B, C·P·P, N): each patch is a column. "
           "`F.unfold` returns them so.", "`.transpose(1, 2)` makes a patch a row."),
    *wrong("B C h P w Q", "(B h w) (C P Q)", "The batch is gone: the patches of all images are in one list, "
           "(B·N, C·P·P).", "Keep B as the first axis."),
    *wrong("B C h P w Q", "B h w (C P Q)", "The grid is still there, (B, h, w, C·P·P). Flatten h and w into N."),
    *wrong("B C h P w Q", [f"B (h w) {order}" for order in ORDERS], "The patches are still little images. Flatten the "
           "last three axes into one vector of C·P·P values."),
    *wrong("B C h P w Q", "B (C h w) (P Q)", "Each channel has patches of its own, (B, C·N, P·P). A patch holds all "
           "channels of its pixels."),
    *wrong("B C h P w Q", "(h w B C P Q)", "Your sequences mix patches of different images: the patches are in the "
           "order (N, B), and `reshape` does not exchange the two.", PERMUTE),
    Mistake(lambda x, P: F.unfold(x[..., : x.shape[2] // P + P - 1, : x.shape[3] // P + P - 1], P).mT, "Your slices "
            "begin at i and j, which count patches. Patch (i, j) begins at pixel (i·P, j·P): "
            "`images[..., i * P : (i + 1) * P, j * P : (j + 1) * P]`."),
    Mistake(lambda images, P: my_patchify(images, P)[0], "Only the first image is there. Cut the whole batch at once."),
]  # fmt: skip


def assuming_a_square(patches: Tensor, P: int, image_size: tuple[int, int]) -> Tensor:
    side = math.isqrt(patches.shape[1]) * P
    return my_unpatchify(patches, P, (side, side))


COLUMNS = "`patches.transpose(1, 2)` makes the columns."

UNPATCHIFY_MISTAKES = [
    *wrong("B h w C P Q", "(B h w C P Q)", "Your image rows are patches laid end to end: `reshape` alone leaves the "
           "values in their order.", "Split into (B, h, w, C, P, P), `permute` to (B, C, h, P, w, P), then flatten."),
    *wrong("B w h C P Q", "(B C h P w Q)", "You read the patches as running down the columns of the grid. They run row "
           "by row: split N into (h, w)."),
    *(Mistake(regrouped(f"B h w {order}", "(B C h P w Q)"), "Every patch is in its place, and wrong inside: you read "
              f"it as {name}, and it is {ORDERS[OURS]}.", "Split the last axis into (C, P, P), in this order.")
      for order, name in OTHER_ORDERS.items()),
    *known(COLUMNS, {
        "`F.fold` wants each patch as a column, (B, C·P·P, N), and `reshape` does not exchange axes.":
            lambda patches, P, size: F.fold(patches.reshape(len(patches), -1, patches.shape[1]), size, P, stride=P),
        "`F.fold` wants each patch as a column, (B, C·P·P, N), and yours are rows.":
            lambda patches, P, size: F.fold(patches, size, P, stride=P),
    }),
    *known(None, {
        "A patch has C·P·P values, and you divide by P once: C = patch_dim // (P·P).":
            lambda x, P, size: x.reshape(len(x), size[0] // P, size[1] // P, x.shape[2] // P, P, P),
        "Height and width are exchanged: `image_size` is (height, width), and your image is (width, height).":
            lambda patches, P, size: my_unpatchify(patches, P, size[::-1]),
        "Your image is the right one lying on its side: rows and columns are exchanged.":
            lambda patches, P, size: my_unpatchify(patches, P, size).mT,
        "You take the grid to be square, h = w = √N. Here it is not: h and w follow from `image_size`.":
            [assuming_a_square, lambda x, P, size: assuming_a_square(x, P, size).reshape(len(x), -1, *size)],
    }),
    *wrong("B h w C P Q", ANY_ORDER, "The pixels are in wrong places: before you flatten, your axes run {axes}. They "
           "must run (B, C, h, P, w, P), so that h meets its P and w meets its P.", PERMUTE),
    *wrong("B w h C P Q", ANY_ORDER, "The patches are split into (w, h), and then not brought back into their places. "
           "Split N into (h, w)."),
]  # fmt: skip
