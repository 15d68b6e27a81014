"""Wrong ways to cut an image and to join it, each with what it looks like. Axes are named as in `rearranging`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import permutations

import torch.nn.functional as F
from torch import Tensor

from .comparing import Mistake
from .rearranging import ORDERS, OURS, cut, image_sizes, join, patch_sizes, regroup


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
