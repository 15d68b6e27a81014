"""An image of any size, its patches, the sequence that they become, and the tokens of Eq. 1."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int64, Num, Shaped, UInt8
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch, Rectangle
from torch import Tensor

from ..config import Size, to_pair
from ..errors import require_whole_patches
from . import panels, style
from .alt_text import listed, span, with_alt
from .style import WIDTH, Figure, styled, to_numpy

KIND_COLOURS = ListedColormap(["none", style.MLP, style.ATTENTION])  # nothing over the ground


@styled
def show_grid(image: Float[Tensor, "C H W"], patch_size: Size, title: str) -> Figure:
    """Draw an image (1 or 3 channels, values in [0, 1]) under the grid along which `patchify` cuts it.

    Raises ValueError if the image is not a whole number of patches.
    """
    (P, Q), (H, W) = to_pair(patch_size), image.shape[1:]
    require_whole_patches((H, W), (P, Q))
    h, w = H // P, W // Q
    width = min(WIDTH, 3.3 * W / H + 1.0)  # inches, with room for the labels
    figure, axes = panels.panel(width, min(4.1, (width - 1.0) * H / W + 0.8), title)
    panels.picture(axes, image, extent=(0, w, h, 0), aspect=P / Q)
    panels.patch_lines(axes, h, w)
    panels.number_patches(axes, h, w)
    axes.set(xlabel="column of the grid", ylabel="row of the grid")
    return with_alt(figure, f"An image of {H}×{W} pixels under a white grid of {h} rows and {w} columns.")


@styled
def show_sizes(
    pictures: Mapping[str, UInt8[Tensor, "3 H W"]],
    patch_size: int,
    title: str,
    kinds: Mapping[str, Int64[Tensor, " N"]] | None = None,
) -> Figure:
    """Draw pictures of several sizes side by side, all pixels equally large, with the grid of their patches.

    With `kinds`, patches of kind 1 (the outline) and 2 (the inside) of a picture's object are tinted.
    """
    heights, widths = zip(*(picture.shape[1:] for picture in pictures.values()), strict=True)
    height = max(heights) * WIDTH / (sum(widths) + 6 * len(widths)) + 0.9
    figure, (row,) = panels.panels(1, len(pictures), WIDTH, height, title, width_ratios=widths)
    told = []
    for axes, (name, picture) in zip(row, pictures.items(), strict=True):
        H, W = picture.shape[1:]
        h, w = H // patch_size, W // patch_size
        panels.patches(axes, picture, h, w, name)
        panels.patch_lines(axes, h, w)
        told.append(f"{name}, {H}×{W} pixels in {h}×{w} patches")
        if kinds:
            panels.patch_values(axes, kinds[name].reshape(h, w), cmap=KIND_COLOURS, vmin=0, vmax=2, alpha=0.6)
        axes.set(xlim=(0, w), ylim=(max(heights) / patch_size, 0))
    if kinds:
        handles = [Patch(color=KIND_COLOURS(1), label="outline"), Patch(color=KIND_COLOURS(2), label="inside")]
        figure.legend(handles=handles, loc="outside lower left", ncols=2)
    return with_alt(figure, f"{len(pictures)} pictures: {listed(told)}.")


@styled
def show_cut(image: Shaped[Tensor, "H W"], patches: Shaped[Tensor, "N patch_dim"], patch_size: Size) -> Figure:
    """Draw a small image of whole numbers (left) and the sequence made of it (right), with one tint for each patch.

    In the sequence a number has the tint of the patch that it comes from in the image, so a wrong cut is seen.
    No two numbers are the same, and there are at most 8 patches.
    """
    (P, Q), (H, W) = to_pair(patch_size), image.shape
    ids, sequence, w = to_numpy(image), to_numpy(patches), W // Q
    home = {int(ids[i, j]): (i // P) * w + j // Q for i in range(H) for j in range(W)}
    figure, ((left, right),) = panels.panels(1, 2, WIDTH, 2.9, width_ratios=(W, sequence.shape[1] + 1))
    for axes, numbers in ((left, ids), (right, sequence)):
        axes.imshow(np.array([[style.TINTS[home[int(number)]] for number in row] for row in numbers]))
        panels.texts(axes, numbers)
        axes.set(xticks=[], yticks=[])
    boxes = [(left, side, top, Q, P) for top in range(0, H, P) for side in range(0, W, Q)]
    boxes += [(right, 0, n, sequence.shape[1], 1) for n in range(len(sequence))]
    for axes, x, y, width, height in boxes:
        axes.add_patch(Rectangle((x - 0.5, y - 0.5), width, height, fill=False, linewidth=2, clip_on=False))
    right.set_yticks(range(len(sequence)), [f"patch {n}" for n in range(len(sequence))])
    right.tick_params(length=0)
    left.set_title(f"picture {H}×{W}")
    right.set_title(f"list {len(sequence)}×{sequence.shape[1]}")
    sources = [listed(sorted({home[int(number)] for number in row})) for row in sequence]
    rows = [f"row {n} from patch {source}" for n, source in enumerate(sources)]
    return with_alt(figure, f"Beside it, {right.get_title(loc='left')}; its values come, {listed(rows)} of the image.")


@styled
def show_pictures(
    images: Sequence[Num[Tensor, "_ _ _"]] | Num[Tensor, "N _ H W"],
    captions: Sequence[str],
    title: str = "",
    columns: int = 8,
) -> Figure:
    """Draw images of one size in rows of `columns`, each under its caption.

    An image has 1 or 3 channels, and is uint8, or floats from 0 to 1.
    """
    columns = min(columns, len(images))
    rows, lines = math.ceil(len(images) / columns), 1 + max(caption.count("\n") for caption in captions)
    side = min(WIDTH / columns, 0.2 * WIDTH)
    height = rows * (side * images[0].shape[1] / images[0].shape[2] + 0.22 * lines) + (0.5 if title else 0.08)
    figure, grid = panels.panels(rows, columns, columns * side, height, title)
    for axes, (image, caption) in zip(grid.flat, zip(images, captions, strict=True), strict=False):
        panels.picture(axes, image)
        axes.set_title(caption, fontsize=10, loc="center")
    for axes in grid.flat[len(images) :]:
        axes.axis("off")
    count = "1 picture" if len(images) == 1 else f"{len(images)} pictures"
    return with_alt(figure, f"{count}: {listed(' '.join(caption.split()) for caption in captions)}.")


@styled
def show_maps(
    picture: Float[Tensor, "3 H W"],
    maps: Mapping[str, Float[Tensor, "n h w"]],
    names: Sequence[str],
    title: str,
    frames: Sequence[tuple[int, int]] = (),
) -> Figure:
    """Draw n values of every patch beside the picture, one row of maps for each model, in colours around zero.

    All maps of a column share one scale, up to their largest value, which stands under them. `frames` marks a patch
    in each column of maps, by its row and column, and all of them in the picture. A single row of small maps has the
    numbers of rows and columns, and the values that are at least a tenth of the largest.
    """
    first = 1.2 if len(maps) > 1 else 1  # the picture is as large as the map in a single row
    figure = panels.blank(min(WIDTH, 4.4 + 2 * len(names)), 0.6 + max(1.9 * len(maps), 3), title)
    grid = figure.add_gridspec(len(maps), 1 + len(names), width_ratios=[first, *[1] * len(names)])
    h, w = next(iter(maps.values())).shape[1:]
    panels.patches(whole := figure.add_subplot(grid[:, 0]), picture, h, w)
    limits = torch.stack([values.abs().amax(dim=(1, 2)) for values in maps.values()]).amax(dim=0).tolist()
    for row, (model, values) in enumerate(maps.items()):
        for column, (name, value) in enumerate(zip(names, values, strict=True), start=1):
            axes, limit = figure.add_subplot(grid[row, column]), limits[column - 1]
            panels.diverging(axes, value, limit, extent=(0, w, h, 0))
            panels.bare(axes, name if row == 0 else "", loc="center")
            axes.spines[:].set(visible=True, color=style.CONTROL)
            if (value < 0).any():
                axes.set_xlabel(f"darkest colour: ±{limit:.1f}", fontsize=10)
            axes.set_ylabel(model if column == 1 else "", fontsize=12)
            if frames:
                panels.highlight(axes, frames[column - 1])
            if len(maps) == 1:
                panels.number_patches(axes, h, w)
                panels.values_in_cells(axes, value, limit)
    for frame in set(frames):
        panels.highlight(whole, frame)
    reach = {model: listed(map(span, values)) for model, values in maps.items()}
    told = listed(f"{model}, {text}" if model else text for model, text in reach.items())
    return with_alt(figure, f"Maps of {h}×{w} patches for {listed(names)}, from lowest to highest: {told}.")


@styled
def show_equation_one(
    patches: Float[Tensor, "N C P Q"],
    tokens: Float[Tensor, "T D"],
    positions: Float[Tensor, "T D"],
    names: Sequence[object],
    title: str,
) -> Figure:
    """Draw Eq. 1 with real values: patches, the tokens made of them with the class token first, positions, the sum.

    Each column is one token under its name, each cell one of its D values. The tables share one scale:
    anything larger than the largest position is as dark.
    """
    count, dim = tokens.shape
    tables = tokens, positions, tokens + positions
    limit = positions.abs().max().item()
    figure, rows = panels.panels(4, 1, WIDTH, 6.6, title, height_ratios=(1.2, 1.6, 1.6, 1.6), sharex=True)
    top, *below = rows[:, 0]
    side = 0.128 * count  # of a square: the panel is about this many times as wide as it is high
    for i, patch in enumerate(patches, start=1):
        panels.picture(top, patch, extent=(i - side / 2, i + side / 2, 0, 1), aspect="auto")
    top.text(0, 0.5, "no patch:\na vector of\nits own", ha="center", va="center", fontsize=10)
    top.set(ylim=(0, 1), ylabel="patches")
    top.tick_params(length=0)
    labels = (r"$[\,x_{class};\ x_p E\,]$", r"$+\ E_{pos}$", r"$=\ z_0$")
    for axes, table, label in zip(below, tables, labels, strict=True):
        panels.bare(axes)
        panels.diverging(axes, table.T, limit, aspect="auto")
        values = to_numpy(table.T).round(2) + 0.0  # −0 is 0
        panels.texts(axes, np.char.replace(np.char.mod("%.2f", values), "-", "−"), dark=abs(values) > 0.6 * limit)
        axes.vlines(np.arange(count - 1) + 0.5, -0.5, dim - 0.5, color="white", lw=12)
        frame = Rectangle((-0.45, -0.5), 0.9, dim, fill=False, edgecolor=style.CLASS_TOKEN, lw=3, clip_on=False)
        axes.add_patch(frame)
        axes.set(ylim=(dim - 0.5, -0.5), yticks=(0, dim - 1), yticklabels=(0, dim - 1))
        axes.set_ylabel(label, **style.FORMULA)
        axes.tick_params(length=0)
    below[-1].set(xlim=(-0.46, count - 0.54), xticks=range(count), xticklabels=names, xlabel="token")
    text = f"{len(patches)} patches, and under them {count} tokens of {dim} values, their positions, and the sum"
    return with_alt(figure, f"{text}, which reaches from {span(tables[2])}.")
