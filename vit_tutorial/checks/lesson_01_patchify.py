"""Lesson 01: hint, solution, judge and known mistakes of each exercise."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import permutations

import torch
import torch.nn.functional as F
from torch import Tensor

from .comparing import Mistake, compare
from .exercise import exercise
from .references import ORDERS, OURS, cut, image_sizes, join, patch_sizes, regroup
from .running import call


def cut_as(read: str, write: str) -> Callable:
    """Patchify that reads the image as axes `read` and writes them in the order `write`, cut into rows of C·P·P."""

    def mistaken(images: Tensor, P: int) -> Tensor:
        (B, C, H, W), sizes = images.shape, image_sizes(images, P)
        return regroup(images, read, f"B ({write})", **sizes).reshape(B, H * W // (P * P), C * P * P)

    return mistaken


def join_as(read: str, write: str) -> Callable:
    """Unpatchify that reads the patches as axes `read` and writes them in the order `write`, cut into image rows."""

    def mistaken(patches: Tensor, P: int, image_size: tuple[int, int]) -> Tensor:
        sizes = patch_sizes(patches, P, image_size)
        return regroup(patches, read, f"B ({write})", **sizes).reshape(len(patches), -1, *image_size)

    return mistaken


def other_orders(axes: str) -> Iterator[str]:
    return map(" ".join, permutations(axes.split()))


def named(axes: str) -> str:
    return f"(B, {', '.join(axes.replace('Q', 'P').split())})"


def square(patches: Tensor, P: int, image_size: tuple[int, int]) -> Tensor:
    side = math.isqrt(patches.shape[1]) * P
    return join(patches, P, (side, side))


def little_images(images: Tensor, P: int, order: str) -> Tensor:
    sizes = image_sizes(images, P)
    return cut(images, P, order).unflatten(2, [sizes[axis] for axis in order.split()])


AXES = "h w C P Q"


PERMUTE = "`permute` puts the axes into another order; `reshape` only cuts the same row of numbers differently."


PATCHIFY_MISTAKES = [
    Mistake(
        cut_as("B C h P w Q", "C h P w Q"),
        "Your rows are image rows, not patches: `reshape` alone keeps the numbers in the order in which they lie in "
        "memory, and there a pixel's neighbour below is a whole image row away.",
        "First split into (B, C, h, P, w, P), then `permute`, then flatten.",
    ),
    Mistake(
        cut_as("B C h P w Q", "h P w Q C"),
        "Your rows are image rows, not patches, with the channels last: a pixel's neighbour below is not beside it.",
        "First split into (B, C, h, P, w, P), then `permute`, then flatten.",
    ),
    *(
        Mistake(
            cut_as("B C h P w Q", f"w h {order}"),
            "Your patches are right, their order is not: they run down the columns of the grid. Go row by row, left to "
            "right: h before w.",
        )
        for order in ORDERS
    ),
    *(
        Mistake(
            cut_as("B C w P h Q", order),
            "Height and width are exchanged: the rows of the image are h·P, and you split them into (w, P). A square "
            "image would hide this.",
            "`B, C, H, W = images.shape`; h = H // P belongs to the rows.",
        )
        for order in other_orders(AXES)
    ),
    *(
        Mistake(
            cut_as("B C P h Q w", order),
            "Your patches take pixels from all over the image, every h-th row of it: the height is split into (P, h). "
            "Split it into (h, P): which patch first, which row within it second.",
        )
        for order in other_orders(AXES)
    ),
    *(
        Mistake(
            cut_as("B C h P w Q", order),
            f"Your rows mix pixels of different patches: before you flatten, your axes run {named(order)}. They must "
            f"run {named(AXES)}, what counts patches before what is inside one.",
            PERMUTE,
        )
        for order in other_orders(AXES)
    ),
    *(
        Mistake(
            cut_as("B C h w P Q", order),
            "Your first `reshape` splits into (B, C, h, w, P, P), and so tears the rows of the image apart. Split each "
            "axis where it stands: H into (h, P), W into (w, P), that is (B, C, h, P, w, P).",
            PERMUTE,
        )
        for order in other_orders(AXES)
    ),
    Mistake(
        lambda images, P: cut(images, P).transpose(1, 2),
        "The last two axes are exchanged, (B, C·P·P, N): each patch is a column. `F.unfold` gives them so.",
        "`.transpose(1, 2)` makes a patch a row.",
    ),
    Mistake(
        lambda images, P: cut(images, P).flatten(0, 1),
        "The batch is gone: the patches of all images stand in one list, (B·N, C·P·P).",
        "Keep B as the first axis.",
    ),
    Mistake(
        lambda images, P: cut(images, P).unflatten(1, (-1, images.shape[3] // P)),
        "The grid is still there, (B, h, w, C·P·P). The encoder wants a sequence: flatten h and w into N.",
    ),
    *(
        Mistake(
            lambda images, P, order=order: little_images(images, P, order),
            "The patches are still little images. Flatten the last three axes into one vector of C·P·P numbers.",
        )
        for order in ORDERS
    ),
    Mistake(
        lambda images, P: cut(images.flatten(0, 1)[:, None], P).reshape(len(images), -1, P * P),
        "Each channel has patches of its own, (B, C·N, P·P). A patch holds all channels of its pixels.",
    ),
    Mistake(
        lambda images, P: cut(images, P).transpose(0, 1).reshape(cut(images, P).shape),
        "Your sequences mix patches of different images: the patches are in the order (N, B), and `reshape` does not "
        "exchange the two.",
        PERMUTE,
    ),
    Mistake(
        lambda images, P: cut(images[:1], P)[0],
        "Only the first image is there. The whole batch goes through at once, without a loop.",
    ),
]


UNPATCHIFY_MISTAKES = [
    Mistake(
        join_as("B h w C P Q", AXES),
        "Your image rows are patches laid end to end: `reshape` alone moves no number.",
        "Split into (B, h, w, C, P, P), then `permute` to (B, C, h, P, w, P), then flatten.",
    ),
    Mistake(
        join_as("B w h C P Q", "C h P w Q"),
        "You take the patches as running down the columns of the grid. They run row by row: split N into (h, w).",
    ),
    *(
        Mistake(
            join_as(f"B h w {order}", "C h P w Q"),
            f"Every patch is in its place, and wrong inside: you read it as {ORDERS[order]}, and it is {ORDERS[OURS]}.",
            "Split the last axis into (C, P, P), in this order.",
        )
        for order in ORDERS
    ),
    Mistake(
        lambda patches, P, size: F.fold(patches.reshape(len(patches), -1, patches.shape[1]), size, P, stride=P),
        "`F.fold` wants each patch as a column, (B, C·P·P, N), and `reshape` does not exchange axes.",
        "`patches.transpose(1, 2)` makes the columns.",
    ),
    Mistake(
        lambda patches, P, size: join(patches, P, size[::-1]),
        "Height and width are exchanged: `image_size` is (height, width), and your image is (width, height).",
    ),
    Mistake(
        lambda patches, P, size: join(patches, P, size).transpose(2, 3),
        "Your image is the right one lying on its side: rows and columns are exchanged.",
    ),
    Mistake(
        square,
        "You take the grid to be square, h = w = √N. Here it is not: h and w follow from `image_size`.",
    ),
    Mistake(
        lambda patches, P, size: square(patches, P, size).reshape(len(patches), -1, *size),
        "You take the grid to be square, h = w = √N. Here it is not: h and w follow from `image_size`.",
    ),
    *(
        Mistake(
            join_as(f"B h w {OURS}", order),
            f"The pixels are in wrong places: before you flatten, your axes run {named(order)}. They must run "
            f"{named('C h P w Q')}, so that h meets its P and w meets its P.",
            PERMUTE,
        )
        for order in other_orders(AXES)
    ),
    *(
        Mistake(
            join_as(f"B w h {OURS}", order),
            "The patches are split into (w, h), and then not brought back into their places. Split N into (h, w).",
        )
        for order in other_orders(AXES)
    ),
]


def pixel_ids(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Images in which every pixel of every channel has a number of its own, counted from 0."""
    return torch.arange(math.prod(shape), device="cpu").reshape(shape).to(dtype)


def my_num_patches(height, width, patch_size):
    return (height // patch_size) * (width // patch_size)


@exercise(
    hint="How many patches fit side by side, how many fit above one another? `//` divides whole numbers.",
    solution=my_num_patches,
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


def my_patchify(images, patch_size):
    B, C, H, W = images.shape
    h, w = H // patch_size, W // patch_size
    blocks = images.reshape(B, C, h, patch_size, w, patch_size)
    blocks = blocks.permute(0, 2, 4, 1, 3, 5)  # (B, h, w, C, P, P)
    return blocks.reshape(B, h * w, C * patch_size * patch_size)


@exercise(
    hint="Split the height into (h, P) and the width into (w, P) with one `reshape`: that moves no number. Then "
    "`permute` so that h and w come first and C and both P last, and flatten.",
    solution=my_patchify,
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


def my_unpatchify(patches, patch_size, image_size):
    B, _, patch_dim = patches.shape
    H, W = image_size
    h, w = H // patch_size, W // patch_size
    C = patch_dim // (patch_size * patch_size)
    blocks = patches.reshape(B, h, w, C, patch_size, patch_size)
    blocks = blocks.permute(0, 3, 1, 4, 2, 5)  # (B, C, h, P, w, P)
    return blocks.reshape(B, C, H, W)


@exercise(
    hint="Go the way of `patchify` backwards: split N into (h, w) and the last axis into (C, P, P), `permute` to "
    "(B, C, h, P, w, P), and flatten h with its P, w with its P.",
    solution=my_unpatchify,
)
def unpatchify(function):
    """`fn(patches, patch_size, image_size)`, (B, N, C·P·P), P and (H, W) -> (B, C, H, W): patches back into images."""
    images = [pixel_ids(5, 4, 6, 24), pixel_ids(2, 3, 4, 4), pixel_ids(1, 5, 8, 6, dtype=torch.float64)]
    trials = [(cut(x, P), P, tuple(x.shape[2:])) for x, P in zip(images, (3, 4, 2), strict=True)]
    compare(function, join, trials, "(B, C, H, W)", UNPATCHIFY_MISTAKES)
