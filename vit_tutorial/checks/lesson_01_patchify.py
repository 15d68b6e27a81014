"""Lesson 01: images into patches, and back."""

from itertools import permutations

import torch
from einops import rearrange

from .exercise import Exercise
from .probes import few, noise, origin
from .running import close


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


# The first are as most images are, square with 3 channels. All values differ, so each tells where it comes from.
IMAGES = [(noise(7, 3, 10, 10), 2), (noise(5, 4, 6, 24), 3), (noise(1, 5, 16, 4), 2)]


def image_sizes(B, C, H, W, P):
    h, w = H // P, W // P
    return {"B": B, "C": C, "H": H, "W": W, "P": P, "h": h, "w": w, "N": h * w, "C·P·P": C * P * P}


def probe_pixels(sequences, images, P, values, right):
    """Ask where the pixels of (B, N, C·P·P) come from, and then in which order those of a patch are."""
    found = origin(sequences, images)
    yield found is None, "Your result holds values that are no pixels of the images."
    image, channel, y, x = found
    mixed = image != torch.arange(len(images))[:, None, None]
    yield mixed.any(), f"Image 0 of your result holds pixels of images {few(image[0])}."
    patch = (y // P * (images.shape[3] // P) + x // P)[0]
    torn = (patch != patch[:, :1]).any(1)
    n = int(torn.byte().argmax())
    pixels = f"rows {few(y[0, n])}, columns {few(x[0, n])}, channels {few(channel[0, n])}"
    told = f"Where patch {n} belongs, your result holds pixels of patches {few(patch[n])} ({pixels})"
    yield torn.any(), f"{told}. It must hold one whole patch: {P} rows and {P} columns of all channels."
    order = patch[:, 0].tolist()
    yield order != list(range(len(order))), f"Your patches run {order[:6]} … They must run row by row, 0, 1, 2, …"
    run = order_of(values, right, P)
    yield True, f"Every patch is in its place, and its values run {run}: they must run as (channel, row, column)."


def order_of(values, right, P):
    """Say in which order values run that stand as (channel, row, column) in `right`, (…, C·P·P)."""
    for axes in permutations(["channel", "row", "column"]):
        if close(values, rearrange(right, f"... (channel row column) -> ... ({' '.join(axes)})", row=P, column=P)):
            return f"as ({', '.join(axes)})"
    return "in another order"


patchify = Exercise(
    my_patchify,
    task="`fn(images, patch_size)`, (B, C, H, W) and P → (B, N, C·P·P): images as sequences of patches.",
    trials=IMAGES,
    probes=lambda got, right, x, P: probe_pixels(got, x, P, got, right),
    clue="`reshape(B, C, h, P, w, P)` cuts both sides. Which of these axes, 0 to 5, comes when in (B, h, w, C, P, P)?",
    shape="(B, N, C·P·P)",
    sizes=lambda images, P: image_sizes(*images.shape, P),
)

unpatchify = Exercise(
    my_unpatchify,
    task="`fn(patches, patch_size, image_size)`, (B, N, C·P·P), P and (H, W) → (B, C, H, W): patches back into images.",
    trials=[(my_patchify(images, P), P, tuple(images.shape[2:])) for images, P in IMAGES],
    probes=lambda got, right, x, P, size: probe_pixels(my_patchify(got, P), right, P, x, my_patchify(got, P)),
    clue="Begin with `reshape(B, h, w, C, P, P)`. Which of its axes, 0 to 5, comes when in (B, C, h, P, w, P)?",
    shape="(B, C, H, W)",
    sizes=lambda patches, P, size: image_sizes(len(patches), patches.shape[2] // P**2, *size, P),
)
