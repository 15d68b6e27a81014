"""Lesson 01: the number of patches, images into patches, and back."""

from __future__ import annotations

import torch
from einops import rearrange

from .exercise import Exercise
from .probes import few, origin
from .running import close


def my_num_patches(height, width, patch_size):
    return (height // patch_size) * (width // patch_size)


def counted(got, expected, H, W, P):
    h, w = H // P, W // P
    formulas = {
        "H·W, the number of pixels": H * W,
        "H·W / P: a patch is P pixels wide and P pixels high": H * W // P,
        "H·W / P·P from left to right, which divides by P and multiplies again": H * W // P * P,
        "h + w, the rows and the columns": h + w,
        "one side of the grid": h if got == h else w,
        "one side of the grid, squared": h * h if got == h * h else w * w,
        "(h - 1)·(w - 1): one too few each way": (h - 1) * (w - 1),
        "h·w + 1: the class token is no patch": h * w + 1,
        "P·P, the pixels of one patch": P * P,
        "how many places a window has that moves by one pixel": (H - P + 1) * (W - P + 1),
        "H/16 · W/16: use `patch_size`": (H // 16) * (W // 16),
    }
    meaning = next((text for text, number in formulas.items() if number == got), "")
    yield not meaning, f"Your result, {got}, is {meaning}. There are h = {h} rows of w = {w} patches here."


num_patches = Exercise(
    my_num_patches,
    task="`fn(height, width, patch_size) -> int`: how many patches an image is cut into.",
    trials=[(28, 35, 7), (12, 8, 4), (32, 32, 32)],
    probes=counted,
    hint="How many patches fit side by side, and how many fit above one another? `//` divides whole numbers.",
)


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


# Every value is different, so it tells where it comes from. The first images are square and have 3 channels, as most
# have: who takes all images for such is told that the code is right at the first size.
IMAGES = [
    (torch.arange(2100.0).reshape(7, 3, 10, 10), 2),
    (torch.arange(2880.0).reshape(5, 4, 6, 24), 3),
    (torch.arange(320.0).reshape(1, 5, 16, 4).double(), 2),
]
ORDERS = {  # of the values in a patch; "p" counts its rows, "q" its columns
    "p q c": "(row, column, channel)",
    "p c q": "(row, channel, column)",
    "c q p": "(channel, column, row)",
    "q p c": "(column, row, channel)",
    "q c p": "(column, channel, row)",
}


def image_sizes(B, C, H, W, P):
    return {"B": B, "C": C, "H": H, "W": W, "P": P, "h": H // P, "w": W // P, "N": (H // P) * (W // P)}


def whole_patches(sequences, images, P, row):
    """Ask where the pixels of (B, N, C·P·P) come from; `row` says what one of its rows is."""
    found = origin(sequences, images)
    yield found is not None, "Your result holds values that are no pixels of the images."
    b, c, y, x = found
    patch = y // P * (images.shape[3] // P) + x // P
    own = torch.arange(len(images))[:, None, None]
    yield not (b != own).any(), f"Image 0 of your result holds pixels of images {few(b[0].flatten().tolist())}."
    mixed = (patch != patch[..., :1]).any(2)[0]
    n = int(mixed.byte().argmax())
    box = ", ".join(f"{axis} {few(of[0, n].tolist())}" for axis, of in (("rows", y), ("columns", x), ("channels", c)))
    told = f"{row} {n} of your result holds pixels of patches {few(patch[0, n].tolist())} ({box})"
    yield not mixed.any(), f"{told}. It must hold one whole patch: {P} rows and {P} columns of all channels."
    order = patch[0, :, 0].tolist()
    yield (
        order == sorted(order),
        (f"Your patches run {order[:6]} … Row by row in the grid they are {sorted(order)[:6]} …"),
    )


def cut(got, expected, images, P):
    yield from whole_patches(got, images, P, "Row")
    orders = {text: rearrange(expected, f"b n (c p q) -> b n ({order})", p=P, q=P) for order, text in ORDERS.items()}
    yours = next((f"run {text}" for text, other in orders.items() if close(got, other)), "are in another order")
    yield False, f"Every patch is in its place, and the values in it {yours}. The task asks for (channel, row, column)."


patchify = Exercise(
    my_patchify,
    task="`fn(images, patch_size)`, (B, C, H, W) and P → (B, N, C·P·P): images as sequences of patches.",
    trials=IMAGES,
    probes=cut,
    hint="Split the height into (h, P) and the width into (w, P) with one `reshape`: the pixels stay in their order. "
    "Then `permute` so that h and w come first and C and both P last, and flatten.",
    shape="(B, N, C·P·P)",
    sizes=lambda images, P: image_sizes(*images.shape, P),
)


def put_together(got, expected, patches, P, size):
    sequences = my_patchify(got, P)
    yield from whole_patches(sequences, expected, P, "Block")
    orders = {text: rearrange(patches, f"b n ({order}) -> b n (c p q)", p=P, q=P) for order, text in ORDERS.items()}
    yours = next((f"you read it as {text}" for text, other in orders.items() if close(sequences, other)), "mixed up")
    yield False, f"Every patch is in its place, and wrong inside: {yours}. A patch is (channel, row, column)."


unpatchify = Exercise(
    my_unpatchify,
    task="`fn(patches, patch_size, image_size)`, (B, N, C·P·P), P and (H, W) → (B, C, H, W): patches back into images.",
    trials=[(my_patchify(images, P), P, tuple(images.shape[2:])) for images, P in IMAGES],
    probes=put_together,
    hint="Undo `patchify` step by step: split N into (h, w) and the last axis into (C, P, P), `permute` to "
    "(B, C, h, P, w, P), and flatten h with its P, w with its P.",
    shape="(B, C, H, W)",
    sizes=lambda patches, P, size: image_sizes(len(patches), patches.shape[2] // P**2, *size, P),
)
