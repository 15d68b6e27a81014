"""Position embeddings: those of sines, how similar learned ones are to each other, and how that forms in training."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import pad

from . import panels, style
from .alt_text import amounts, brief, first_to_last, listed, with_alt
from .style import WIDTH, Figure, Patch, Similarity, styled, to_numpy

MARK = {"ms": 8, "mec": style.BLACK, "mew": 1.5, "ls": "none"}
MARKS = {
    "the patch itself": {"marker": "s", "mfc": style.HIGHLIGHT, **MARK},
    "its mirror image in the row": {"marker": "o", "mfc": "white", **MARK},
    "its mirror image in the column": {"marker": "D", "mfc": "white", **MARK},
}
EDGES = {
    "left and right": {"marker": "o", **MARK, "mfc": style.TRAINED, "mec": style.TRAINED},
    "top and bottom": {"marker": "D", **MARK, "mfc": "white", "mec": style.TRAINED},
}


@styled
def show_chosen_positions(
    similarity: Similarity, control: Similarity, rows: Sequence[int], columns: Sequence[int], title: str
) -> Figure:
    """Draw how similar all positions are to those in chosen rows and columns, and beside it an untrained `control`."""
    (h, w), places = similarity.shape[:2], np.ix_(rows, columns)
    height = 1.15 + 0.52 * WIDTH * len(rows) * h / (len(columns) * w)
    figure, ((large, small),) = panels.panels(1, 2, WIDTH, height, title, width_ratios=(2.4, 1))
    told = []
    for axes, name, maps in ((large, "trained", similarity), (small, "untrained", control)):
        image = panels.cells(axes, mosaic(maps[places]), name, limit=1)
        near, mirror = (brief(round(mean, 2)) for mean in likeness(maps))
        told.append(f"{name}, {near} for neighbours and {mirror} for mirror images")
    tops, lefts = 1 + (h + 1) * np.arange(len(rows)), 1 + (w + 1) * np.arange(len(columns))
    large.set_yticks(tops + h / 2, [f"row {row}" for row in rows])
    large.set_xticks(lefts + w / 2, [f"column {column}" for column in columns])
    large.plot(*np.meshgrid(lefts + columns + 0.5, tops + rows + 0.5), **MARKS["the patch itself"])
    panels.colour_bar(figure, image, (large, small), "cosine similarity", shrink=0.9)
    return with_alt(figure, f"Maps of {len(rows)}×{len(columns)} positions. Mean cosine similarity: {listed(told)}.")


def mosaic(maps: Float[Tensor, "rows columns h w"]) -> Float[Tensor, "_ _"]:
    """Lay small maps row by row on one canvas, each after an empty line (nan, which is not drawn) above and left."""
    return pad(maps, (1, 0, 1, 0), value=torch.nan).transpose(1, 2).flatten(2).flatten(0, 1)


def likeness(similarity: Similarity) -> tuple[float, float]:
    """Return the mean similarity of patches that touch, and of mirror images in a row with a column between them."""
    h, w = similarity.shape[:2]
    row, column, other_row, other_column = np.ogrid[:h, :w, :h, :w]
    down, across = abs(row - other_row), abs(column - other_column)
    near = np.maximum(down, across) == 1
    mirror = (down == 0) & (across >= 2) & (column + other_column == w - 1)
    return similarity[near].mean().item(), similarity[mirror].mean().item()


@styled
def show_positions_forming(history: Mapping[int, Similarity], stops: Sequence[int], title: str) -> Figure:
    """Draw all maps of positions after each epoch, and how pairs grow alike: they move, those of `stops` stand."""
    *epochs, last = history
    names = {epoch: f"epoch {epoch}" for epoch in history} | {0: "untrained"}
    figure = panels.blank(WIDTH, 5.6, title)
    grid = figure.add_gridspec(len(stops), 3, width_ratios=(0.42, 1.2, 0.78))
    left, right = figure.add_subplot(grid[:, 1]), figure.add_subplot(grid[:, 2])
    for line, stop in enumerate(stops):
        panels.cells(figure.add_subplot(grid[line, 0]), mosaic(history[stop]), names[stop], limit=1)
    image = panels.cells(left, mosaic(history[last]), limit=1)
    panels.colour_bar(figure, image, left, "cosine similarity", location="bottom", aspect=40)
    alike = {epoch: likeness(similarity) for epoch, similarity in history.items()}
    near, mirror = zip(*alike.values(), strict=True)
    kinds = {"touching neighbours": near, "mirror image in the row": mirror}
    dots = []
    for kind, (colour, marker, dash) in style.looks(kinds).items():
        right.plot(list(history), kinds[kind], dash, color=colour, lw=2, label=kind)
        dots += right.plot([], [], marker, color=colour, ms=11, mec=style.BLACK, clip_on=False)
    right.set_xscale("symlog", linthresh=1, linscale=0.3)
    right.set(xlim=(0, last), xlabel="epochs of training\n(logarithmic)", ylabel="mean cosine similarity")
    right.set(xticks=[*stops, last], xticklabels=[*stops, last], box_aspect=1.25)
    right.minorticks_off()
    right.legend(loc="lower center", bbox_to_anchor=(0.5, 1.02))

    def move(epoch: int) -> None:
        left.set_title(names[epoch], fontsize=20, loc="left")
        image.set_data(to_numpy(mosaic(history[epoch])))
        for dot, height in zip(dots, alike[epoch], strict=True):
            dot.set_data([epoch], [height])

    move(last)
    figure.moments = [partial(move, epoch) for epoch in (last, *epochs)]
    rounded = {kind: [round(value, 2) for value in line] for kind, line in kinds.items()}
    return with_alt(figure, f"Mean cosine similarity from epoch {epochs[0]} to epoch {last}: {first_to_last(rounded)}.")


@styled
def show_mirror(
    edges: Mapping[str, Float[Tensor, "S 2"]], maps: Mapping[str, Similarity], title: str, patch: Patch
) -> Figure:
    """Draw how similar opposite edges are, in a line for each seed, and the map of one patch, for each way to train."""
    (row, column), told = patch, []
    figure, grid = panels.panels(len(edges), 2, WIDTH, 6, title, width_ratios=(2.2, 1), sharex="col")
    for (left, right), (name, runs) in zip(grid, edges.items(), strict=True):
        pairs = runs.T.tolist()
        left.hlines(range(len(runs)), *pairs, color=style.CONTROL, lw=1)
        left.axvline(0, color=style.CONTROL, lw=0.8)
        for look, values in zip(EDGES.values(), pairs, strict=True):
            left.plot(values, range(len(runs)), **look)
        panels.row_names(left, range(len(runs)))
        left.set(title=f"photos {name}", ylabel="seed")
        h, w = maps[name].shape[:2]
        image = panels.cells(right, maps[name][patch], limit=1)
        places = (column, row), (w - 1 - column, row), (column, h - 1 - row)
        for (x, y), look in zip(places, MARKS.values(), strict=True):
            right.plot(x + 0.5, y + 0.5, **look)
        told.append(f"{name}, {amounts(dict(zip(EDGES, runs.mean(0).round(decimals=2), strict=True)))}")
    left.set_xlabel("mean similarity of opposite edges")
    panels.colour_bar(figure, image, grid[:, 1], f"cosine similarity to row {row}, column {column}")
    figure.legend(left.lines[-2:], [f"{name} edge" for name in EDGES], loc="outside upper right", ncols=2)
    figure.legend(right.lines, MARKS, loc="outside lower right", ncols=3)
    return with_alt(figure, f"Mean similarity of opposite edges: {'; '.join(told)}.")
