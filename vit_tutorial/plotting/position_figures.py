"""Draw position embeddings: their table, how similar they are to each other, and how that forms in training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product

import numpy as np
import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.image import AxesImage
from matplotlib.lines import Line2D
from matplotlib.patheffects import withStroke
from torch import Tensor

from . import panels, style
from .alt_text import amounts, brief, courses, listed, with_alt
from .style import WIDTH, Figure, styled, to_numpy

OWN = {"marker": "s", "ms": 8, "mfc": style.HIGHLIGHT, "mec": style.BLACK, "mew": 1.4, "ls": "none"}
HALO = [withStroke(linewidth=3.5, foreground="white")]  # so that a mark shows on dark colours
MIRROR = {"ms": 7, "mfc": "none", "mec": style.BLACK, "mew": 1.6, "ls": "none", "path_effects": HALO}
MARKS = {
    "the patch itself": OWN,
    "its mirror image in the row": {"marker": "o", **MIRROR},
    "its mirror image in the column": {"marker": "D", **MIRROR},
}
EDGE = {"ms": 9, "mec": style.TRAINED, "mew": 1.6, "ls": "none"}
EDGES = {
    "left and right": {"marker": "o", "mfc": style.TRAINED, **EDGE},
    "top and bottom": {"marker": "D", "mfc": "white", **EDGE},
}
FIVE = {-1: "−1", -0.5: "−0.5", 0: "0", 0.5: "0.5", 1: "1"}


@styled
def show_sincos_table(table: Float[Tensor, "N D"], grid: tuple[int, int], title: str) -> Figure:
    """Draw the sin-cos positions of a grid as a table: one row per patch in reading order, one column per value.

    Grey lines mark where a row of the grid ends, black ones the four quarters of the vector.
    """
    h, w = grid
    quarter = table.shape[1] / 4
    figure, axes = panels.panel(WIDTH, 4.8)
    image = panels.diverging(axes, table, 1, aspect="auto", interpolation="none")
    axes.set_yticks([i * w + (w - 1) / 2 for i in range(h)], range(h))
    axes.tick_params(left=False)
    for i in range(1, h):
        axes.axhline(i * w - 0.5, color=style.CONTROL, lw=0.5)
    for i, name in enumerate(("sines of the row", "cosines", "sines of the column", "cosines")):
        axes.axvline(i * quarter - 0.5, color=style.BLACK, lw=2.5 if i == 2 else 1)
        axes.text((i + 0.5) * quarter - 0.5, -0.02 * len(table), name, ha="center", va="bottom", fontsize=10)
    axes.set_title(title, pad=22)
    axes.set(xlabel=f"value in the vector (D = {table.shape[1]})", ylabel=f"row of the grid, {w} patches each")
    panels.colour_bar(figure, image, axes, "value")
    left, right = (int((half.diff(dim=0).abs() > 1e-6).any(dim=1).sum()) for half in table.chunk(2, dim=1))
    text = f"A table of {h * w} patches by {table.shape[1]} values. From patch to patch the left half changes"
    return with_alt(figure, f"{text} {left} times, the right half {right} times.")


@styled
def show_position_similarity(maps: Mapping[str, Float[Tensor, "h w h w"]], title: str) -> Figure:
    """Draw the cosine similarity of all positions (Figure 7): one panel per model, one small map per position.

    The small map in row i, column j of a panel says how alike the position of patch (i, j) is to all the
    others. All panels share one scale from −1 to 1, with zero in the middle.
    """
    figure, (row,) = panels.panels(1, len(maps), WIDTH, 0.4 + 0.95 * WIDTH / max(len(maps), 2), title)
    for axes, (name, similarity) in zip(row, maps.items(), strict=True):
        h, w = similarity.shape[:2]
        image = draw_maps(axes, similarity, name)
        number_maps(axes, (h, w), range(h), range(w))
        axes.set_xlabel("column of the patch")
    row[0].set_ylabel("row of the patch")
    panels.colour_bar(figure, image, row, "cosine similarity", FIVE, shrink=0.9)
    return with_alt(figure, f"Mean cosine similarity of positions: {compare_pairs(maps)}.")


@styled
def show_chosen_positions(
    similarity: Float[Tensor, "h w h w"],
    control: Float[Tensor, "h w h w"],
    rows: Sequence[int],
    columns: Sequence[int],
    title: str,
) -> Figure:
    """Draw how similar all positions are to chosen ones, a map for each of these rows and columns.

    The large maps, each marked at its own patch, are those of `similarity`, the small ones of an untrained `control`;
    all from −1 to 1.
    """
    (h, w), places = similarity.shape[:2], torch.meshgrid(torch.tensor(rows), torch.tensor(columns), indexing="ij")
    height = 1.15 + 0.52 * WIDTH * len(rows) * h / (len(columns) * w)
    figure, ((large, small),) = panels.panels(1, 2, WIDTH, height, title, width_ratios=(2.4, 1))
    both = {"trained": similarity, "untrained": control}
    for axes, (name, maps) in zip((large, small), both.items(), strict=True):
        image = draw_maps(axes, maps[places], name)
    number_maps(large, (h, w), [f"row {row}" for row in rows], [f"column {column}" for column in columns])
    for (i, row), (j, column) in product(enumerate(rows), enumerate(columns)):
        large.plot(1 + j * (w + 1) + column, 1 + i * (h + 1) + row, **OWN)
    panels.colour_bar(figure, image, (large, small), "cosine similarity", FIVE, shrink=0.9)
    told = compare_pairs(both)
    return with_alt(figure, f"Maps of {len(rows)}×{len(columns)} positions. Mean cosine similarity: {told}.")


def draw_maps(axes: Axes, maps: Float[Tensor, "rows columns h w"], name: str) -> AxesImage:
    """Draw small maps on the scale from −1 to 1 that all of them share, and return the image."""
    image = axes.imshow(mosaic(maps), cmap=style.DIVERGING, vmin=-1, vmax=1, interpolation="none")
    panels.bare(axes, name)
    return image


def mosaic(maps: Float[Tensor, "rows columns h w"]) -> np.ndarray:
    """Lay small maps row by row on one canvas, with an empty line (nan, which is not drawn) around each."""
    rows, columns, h, w = maps.shape
    canvas = np.full((rows * (h + 1) + 1, columns * (w + 1) + 1), np.nan)
    for row, column in np.ndindex(rows, columns):
        top, left = 1 + row * (h + 1), 1 + column * (w + 1)
        canvas[top : top + h, left : left + w] = to_numpy(maps[row, column])
    return canvas


def number_maps(axes: Axes, grid: tuple[int, int], rows: Sequence[object], columns: Sequence[object]) -> None:
    """Write the row and the column of its patch beside each line of maps."""
    h, w = grid
    axes.set_xticks([j * (w + 1) + w / 2 for j in range(len(columns))], columns)
    axes.set_yticks([i * (h + 1) + h / 2 for i in range(len(rows))], rows)
    axes.tick_params(length=0)


def compare_pairs(maps: Mapping[str, Float[Tensor, "h w h w"]]) -> str:
    """Say for each model how alike patches are that touch, and mirror images in a row."""
    told = []
    for name, similarity in maps.items():
        near, mirror = (brief(round(mean, 2)) for mean in likeness(similarity))
        told.append(f"{name}, {near} for neighbours and {mirror} for mirror images")
    return listed(told)


@styled
def show_positions_forming(history: Mapping[int, Float[Tensor, "h w h w"]], stops: Sequence[int], title: str) -> Figure:
    """Draw the maps of all positions after each epoch, and how two kinds of pairs grow alike: a figure that moves.

    Touching neighbours may touch at a corner; mirror images in the row count if two columns or more lie between them.
    The figure begins with the last epoch. The maps of `stops`, some earlier epochs, stand beside it
    and do not move, for readers who see it standing still.
    """
    epochs, last = list(history), list(history)[-1]
    figure = panels.blank(WIDTH, 5.6, title)
    grid = figure.add_gridspec(1, 3, width_ratios=(0.42, 1.2, 0.78))
    early = grid[0].subgridspec(len(stops), 1)
    left, right = figure.add_subplot(grid[1]), figure.add_subplot(grid[2])
    for line, stop in enumerate(stops):
        draw_maps(figure.add_subplot(early[line]), history[stop], epoch_name(stop))
    image = draw_maps(left, history[last], "")
    name = left.set_title("", fontsize=20)
    panels.colour_bar(figure, image, left, "cosine similarity", FIVE, location="bottom", aspect=40)
    means = list(zip(*map(likeness, history.values()), strict=True))
    kinds = dict(zip(("touching neighbours", "mirror image in the row"), means, strict=True))
    dots = {}
    for kind, (colour, marker, dash) in style.looks(kinds).items():
        right.plot(epochs, kinds[kind], dash, color=colour, lw=2)
        look = {"marker": marker, "color": colour, "ms": 11, "mec": style.BLACK, "clip_on": False, "zorder": 3}
        (dots[kind],) = right.plot([], [], dash, lw=2, label=kind, **look)
    panels.zero(right)
    right.set_xscale("symlog", linthresh=1, linscale=0.3)
    right.set_xlim(0, last)
    from_the_end = zip(reversed(range(len(epochs))), epochs, strict=True)  # every second label, and the first
    right.set_xticks(epochs, ["" if n % 2 and n < len(epochs) - 1 else str(epoch) for n, epoch in from_the_end])
    right.minorticks_off()
    right.set_box_aspect(1.25)
    right.set(xlabel="epochs of training\n(logarithmic)", ylabel="mean cosine similarity")
    right.legend(loc="lower center", bbox_to_anchor=(0.5, 1.02))

    def move(epoch: int) -> None:
        name.set_text(epoch_name(epoch))
        image.set_data(mosaic(history[epoch]))
        for kind, dot in dots.items():
            dot.set_data([epoch], [kinds[kind][epochs.index(epoch)]])

    move(last)
    figure.moments = [partial(move, epoch) for epoch in [last, *epochs[:-1]]]
    rounded = {kind: [round(value, 2) for value in line] for kind, line in kinds.items()}
    return with_alt(figure, f"Mean cosine similarity from epoch {epochs[0]} to epoch {last}: {courses(rounded)}.")


def epoch_name(epoch: int) -> str:
    return f"epoch {epoch}" if epoch else "untrained"


@styled
def show_mirror(
    edges: Mapping[str, Float[Tensor, "S 2"]],
    maps: Mapping[str, Float[Tensor, "h w h w"]],
    title: str,
    patch: tuple[int, int],
) -> Figure:
    """Draw how similar opposite edges are, left and right (circles), top and bottom (diamonds), for each way to train.

    Beside each way, whose seeds have a line each, stands its map of one patch (row, column) with its mirror images.
    """
    h, w = next(iter(maps.values())).shape[:2]
    (row, column), options = patch, {"width_ratios": (2.2, 1), "sharex": "col"}
    figure, grid = panels.panels(len(edges), 2, WIDTH, 6, title, **options)
    for (left, right), (name, runs) in zip(grid, edges.items(), strict=True):
        for seed, pair in enumerate(runs.tolist()):
            left.plot(pair, [seed, seed], color=style.CONTROL, lw=1, zorder=1)
            for value, look in zip(pair, EDGES.values(), strict=True):
                left.plot(value, seed, **look)
        panels.zero(left, vertical=True)
        left.set(ylim=(len(runs) - 0.4, -0.6), yticks=range(len(runs)), ylabel="seed")
        left.tick_params(labelbottom=True)
        left.set_title(f"photos {name}")
        image = panels.diverging(right, maps[name][patch], 1, interpolation="none")
        panels.bare(right)
        places = (column, row), (w - 1 - column, row), (column, h - 1 - row)
        for place, look in zip(places, MARKS.values(), strict=True):
            right.plot(*place, **look)
    left.set_xlabel("mean similarity of opposite edges")
    panels.colour_bar(figure, image, grid[:, 1], f"cosine similarity to row {row}, column {column}", FIVE)
    for looks, place in (({f"{name} edge": look for name, look in EDGES.items()}, "upper"), (MARKS, "lower")):
        lines = [Line2D([], [], **look) for look in looks.values()]
        figure.legend(lines, list(looks), loc=f"outside {place} right", ncols=len(looks))
    means = {name: dict(zip(EDGES, runs.mean(0).round(decimals=2), strict=True)) for name, runs in edges.items()}
    told = "; ".join(f"{name}, {amounts(mean)}" for name, mean in means.items())
    return with_alt(figure, f"Mean similarity of opposite edges: {told}.")


def likeness(similarity: Float[Tensor, "h w h w"]) -> tuple[float, float]:
    """Return the mean similarity of patches that touch, and of mirror images in a row with a column between them."""
    h, w = similarity.shape[:2]
    row, column = torch.arange(h), torch.arange(w)
    down = (row[:, None, None, None] - row[:, None]).abs()
    across = (column[:, None, None] - column).abs()
    mirror = (down == 0) & (across >= 2) & (column[:, None, None] + column == w - 1)
    near = (down <= 1) & (across <= 1) & (down + across > 0)
    return similarity[near].mean().item(), similarity[mirror].mean().item()
