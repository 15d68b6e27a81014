"""An image, its patches, and the sequence that they become."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float, Shaped
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from ..config import Size, require_size, require_whole_patches, to_pair
from .style import BLUE, GREEN, GREY, MAGNITUDE, ORANGE, PINK, RED, SKY, WIDTH, YELLOW, styled, to_numpy


@styled
def show_grid(image: Float[Tensor, "C H W"], patch_size: Size, title: str | None = None) -> Figure:
    """An image (1 or 3 channels, values in [0, 1]) under the grid along which `patchify` cuts it.

    Raises ValueError if the image is not a whole number of patches.
    """
    (P, Q), (H, W) = to_pair(patch_size), image.shape[1:]
    require_whole_patches((H, W), (P, Q))
    h, w = H // P, W // Q
    figure, axes = plt.subplots(figsize=figure_size(H, W, height=4.1))
    axes.imshow(to_picture(image), extent=(0, W, H, 0))
    axes.hlines(np.arange(P, H, P), 0, W, color="white", linewidth=1)
    axes.vlines(np.arange(Q, W, Q), 0, H, color="white", linewidth=1)
    label_grid(axes, np.arange(h) * P + P / 2, np.arange(w) * Q + Q / 2, range(h), range(w))
    axes.set(xlabel="column of the grid", ylabel="row of the grid")
    axes.set_title(title or f"{h}×{w} = {h * w} patches of {P}×{Q} pixels")
    return figure


@styled
def show_apart(
    patches: Float[Tensor, "N patch_dim"], patch_size: Size, grid: tuple[int, int], title: str | None = None
) -> Figure:
    """Patches (flattened as by `patchify`) laid out row by row on `grid`, with gaps between them.

    Raises ValueError if the grid does not hold that many patches, or a patch is no picture.
    """
    h, w = grid
    if len(patches) != h * w:
        raise ValueError(f"{len(patches)} patches do not fill a grid of {h}×{w} = {h * w}")
    tiles = to_tiles(patches, patch_size)
    (P, Q), gap = tiles[0].shape[:2], max(2, tiles[0].shape[1] // 4)
    canvas = np.ones((h * (P + gap) - gap, w * (Q + gap) - gap, 3))
    for n, tile in enumerate(tiles):
        top, left = (n // w) * (P + gap), (n % w) * (Q + gap)
        canvas[top : top + P, left : left + Q] = tile
    figure, axes = plt.subplots(figsize=figure_size(*canvas.shape[:2], height=4.5))
    axes.imshow(canvas)
    rows, columns = np.arange(h) * (P + gap) + (P - 1) / 2, np.arange(w) * (Q + gap) + (Q - 1) / 2
    label_grid(axes, rows, columns, [f"{row * w}–{row * w + w - 1}" for row in range(h)], range(w))
    axes.set(xlabel="column of the grid", ylabel="patches in this row")
    axes.set_title(title or f"{h * w} patches, numbered row by row")
    return figure


@styled
def show_sequence(patches: Float[Tensor, "N patch_dim"], patch_size: Size, first: int = 0, count: int = 14) -> Figure:
    """What the model is given. Above: `count` patches, from number `first`. Below: the whole sequence as a table.

    Raises ValueError if the sequence has no patches `first` to `first + count - 1`, or a patch is no picture.
    """
    N, patch_dim = patches.shape
    if not 0 <= first < first + count <= N:
        raise ValueError(f"no patches {first} to {first + count - 1} in a sequence of patches 0 to {N - 1}")
    tiles = to_tiles(patches[first : first + count], patch_size)
    P, Q = tiles[0].shape[:2]
    gap = max(2, Q // 4)
    strip = np.ones((P, count * (Q + gap) - gap, 3))
    for n, tile in enumerate(tiles):
        strip[:, n * (Q + gap) : n * (Q + gap) + Q] = tile
    figure, (above, below) = plt.subplots(2, 1, figsize=(WIDTH, 4.2), height_ratios=(1, 4))
    above.imshow(strip)
    label_grid(above, [], np.arange(count) * (Q + gap) + (Q - 1) / 2, [], range(first, first + count))
    above.set_title(f"Patches {first} to {first + count - 1} as pictures: the rows between the two lines below")
    # Ten shades: noise in 256 of them makes a picture file three times the size.
    shades = plt.get_cmap(MAGNITUDE, 10)
    table = below.imshow(to_numpy(patches), cmap=shades, vmin=0, vmax=1, aspect="auto", interpolation="none")
    below.set_title(f"The whole sequence: {N} patches of {patch_dim} numbers each")
    channels = patch_dim // (P * Q)
    for channel in range(1, channels):
        below.axvline(channel * P * Q - 0.5, color="white", linewidth=2)
    below.set_xticks(np.arange(channels + 1) * P * Q)
    colours = ": red, then green, then blue" if channels == 3 else ""
    below.set(xlabel=f"place in the patch{colours}", ylabel="number of the patch")
    for edge in (first - 0.5, first + count - 0.5):
        below.axhline(edge, color=RED, linewidth=2)
    figure.colorbar(table, ax=below, label="value", pad=0.01)
    return figure


@styled
def show_cut(
    image: Shaped[Tensor, "H W"], patches: Shaped[Tensor, "N patch_dim"], patch_size: Size, title: str | None = None
) -> Figure:
    """A small image of whole numbers (left) and the sequence made of it (right), with one tint for each patch.

    In the sequence a number has the tint of the patch that it comes from in the image, so a wrong cut is seen.
    The numbers must be the image's own and no two the same; at most 8 patches. Raises ValueError otherwise.
    """
    (P, Q), (H, W) = to_pair(patch_size), image.shape
    require_whole_patches((H, W), (P, Q))
    ids, sequence, w = to_numpy(image), to_numpy(patches), W // Q
    home = {int(ids[i, j]): (i // P) * w + j // Q for i in range(H) for j in range(W)}
    if len(home) != ids.size:
        raise ValueError(f"the image repeats numbers: {len(home)} different ones for {ids.size} pixels")
    if strangers := sorted(set(sequence.flatten().tolist()) - home.keys()):
        raise ValueError(f"the sequence holds {strangers[0]}, which is not in the image")
    if (number := (H // P) * w) > len(TINTS):
        raise ValueError(f"{number} patches are more than the {len(TINTS)} tints")
    figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 2.9), width_ratios=(W, sequence.shape[1] + 1))
    for axes, numbers in ((left, ids), (right, sequence)):
        axes.imshow(np.array([[TINTS[home[int(number)]] for number in row] for row in numbers]))
        for (i, j), number in np.ndenumerate(numbers):
            axes.text(j, i, str(int(number)), ha="center", va="center", fontsize=10)
        axes.set(xticks=[], yticks=[])
    for top in range(0, H, P):
        for side in range(0, W, Q):
            left.add_patch(Rectangle((side - 0.5, top - 0.5), Q, P, fill=False, linewidth=2, clip_on=False))
    for n in range(len(sequence)):
        right.add_patch(Rectangle((-0.5, n - 0.5), sequence.shape[1], 1, fill=False, linewidth=2, clip_on=False))
    right.set_yticks(range(len(sequence)), [f"patch {n}" for n in range(len(sequence))])
    right.tick_params(length=0)
    left.set_title(f"image {H}×{W}")
    right.set_title(title or f"sequence {len(sequence)}×{sequence.shape[1]}")
    return figure


@styled
def show_cost(patch_sizes: Sequence[int], tokens: Sequence[int], pairs: Sequence[int], title: str) -> Figure:
    """How many tokens, and how many pairs of them, for each patch size, on logarithmic axes. P = 16 is marked."""
    if not len(patch_sizes) == len(tokens) == len(pairs):
        raise ValueError(
            f"one number for each patch size: {len(patch_sizes)} sizes, {len(tokens)} tokens, {len(pairs)} pairs"
        )
    figure, axes = plt.subplots(figsize=(WIDTH, 3.8))
    for counts, name, colour, marker in ((pairs, "pairs of tokens", ORANGE, "s"), (tokens, "tokens", BLUE, "o")):
        axes.loglog(patch_sizes, counts, color=colour, marker=marker, label=name)
    axes.axvline(16, color=GREY, linestyle="--", linewidth=1, zorder=0)
    axes.text(16.6, axes.get_ylim()[1], "P = 16", color=GREY, va="top")
    # 14 beside 16 leaves no room for both labels.
    crowded = [after < 1.2 * size for size, after in zip(patch_sizes, [*patch_sizes[1:], float("inf")], strict=True)]
    axes.set_xticks(patch_sizes, ["" if close else str(size) for size, close in zip(patch_sizes, crowded, strict=True)])
    axes.minorticks_off()
    axes.set(xlabel="patch size P, in pixels", ylabel="how many")
    axes.set_title(title)
    axes.legend()
    return figure


@styled
def show_pictures(images: Sequence[Float[Tensor, "_ H W"]], titles: Sequence[str], columns: int = 2) -> Figure:
    """Images of one size (1 or 3 channels) side by side, each under its title.

    Raises ValueError if there is not one title for each image.
    """
    if not images or len(images) != len(titles):
        raise ValueError(f"one title for each image: {len(images)} images, {len(titles)} titles")
    rows, columns = -(-len(images) // columns), min(columns, len(images))
    height, width = images[0].shape[1:]
    side = 0.8 * WIDTH / columns
    figure, grid = plt.subplots(
        rows, columns, figsize=(0.8 * WIDTH, rows * (side * height / width + 0.3)), squeeze=False
    )
    for axes in grid.flat:
        axes.axis("off")
    for axes, image, title in zip(grid.flat, images, titles, strict=False):
        axes.imshow(to_picture(image))
        axes.set_title(title)
    return figure


# Pale, so that black numbers read well on them.
TINTS = [0.35 * np.array(to_rgb(c)) + 0.65 for c in (BLUE, ORANGE, GREEN, PINK, SKY, RED, YELLOW, GREY)]


def to_picture(image: Tensor) -> np.ndarray:
    """(C, H, W) → (H, W, 3), as matplotlib wants it; one channel becomes grey."""
    if image.shape[0] not in (1, 3):
        raise ValueError(f"a picture has 1 or 3 channels, got {image.shape[0]}: shape {tuple(image.shape)}")
    # 52 shades a channel, too close to tell from 256: a picture file a quarter smaller.
    return np.round(to_numpy(image.expand(3, -1, -1).permute(1, 2, 0)) * 51) / 51


def to_tiles(patches: Tensor, patch_size: Size) -> list[np.ndarray]:
    """Each flattened patch as a picture: (N, C·P·P) → N times (P, P, 3)."""
    require_size("patch_size", patch_size)
    P, Q = to_pair(patch_size)
    if patches.shape[1] not in (P * Q, 3 * P * Q):
        raise ValueError(
            f"a patch of {patches.shape[1]} numbers is no {P}×{Q} picture: grey has {P * Q}, colour {3 * P * Q}"
        )
    return [to_picture(patch) for patch in patches.unflatten(1, (-1, P, Q))]


def figure_size(height_px: int, width_px: int, height: float) -> tuple[float, float]:
    """Inches for a picture of these proportions with labels around it, never wider than the page."""
    width = min(WIDTH, (height - 0.8) * width_px / height_px + 1.0)
    return width, min(height, (width - 1.0) * height_px / width_px + 0.8)


def label_grid(axes: Axes, rows, columns, row_labels, column_labels) -> None:
    """Ticks in the middle of the patches, and no frame."""
    axes.set_xticks(columns, [str(label) for label in column_labels])
    axes.set_yticks(rows, [str(label) for label in row_labels])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
