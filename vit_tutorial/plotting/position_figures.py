"""Draw position embeddings: their table, how similar they are to each other, and how that forms in training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from . import panels, style
from .alt_text import amounts, brief, courses, describe, listed
from .style import WIDTH, Figure, styled, to_numpy


@styled
def show_sincos_table(table: Float[Tensor, "N D"], grid: tuple[int, int], title: str) -> Figure:
    """Draw the sin-cos positions of a grid as a table: one row per patch in reading order, one column per value.

    Grey lines mark where a row of the grid ends, black ones the four quarters of the vector.
    Raises ValueError if the table does not hold one vector for each position of the grid.
    """
    h, w = grid
    if len(table) != h * w:
        raise ValueError(f"a {h}×{w} grid has {h * w} places, the table has {len(table)} rows")
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
    return describe(figure, f"{text} {left} times, the right half {right} times.")


@styled
def show_position_similarity(maps: Mapping[str, Float[Tensor, "h w h w"]], title: str) -> Figure:
    """Draw the cosine similarity of all positions (Figure 7): one panel per model, one small map per position.

    The small map in row i, column j of a panel says how alike the position of patch (i, j) is to all the
    others. All panels share one scale from 0 to 1; what is below 0 has the colour of 0.
    """
    figure, (row,) = panels.panels(1, len(maps), WIDTH, 0.4 + 0.95 * WIDTH / max(len(maps), 2), title)
    for axes, (name, similarity) in zip(row, maps.items(), strict=True):
        image = draw_mosaic(axes, similarity, name)
        h, w = similarity.shape[:2]
        axes.set_xticks([j * (w + 1) + w / 2 for j in range(w)], range(w))
        axes.set_yticks([i * (h + 1) + h / 2 for i in range(h)], range(h))
        axes.set(xlabel="column of the patch")
        axes.tick_params(length=0)
    row[0].set_ylabel("row of the patch")
    panels.colour_bar(figure, image, row, "cosine similarity", extend="min", shrink=0.9)
    return describe(figure, f"Mean cosine similarity of two positions: {listed(map(neighbours, maps, maps.values()))}.")


def draw_mosaic(axes: Axes, similarity: Float[Tensor, "h w h w"], name: str):
    """Draw the h·w small maps side by side with an empty line between them, and return the image."""
    pictures = to_numpy(similarity.flatten(0, 1))
    canvas = panels.tile(pictures, similarity.shape[1], gap=1, border=1, between=float("nan"))
    image = axes.imshow(canvas, cmap=style.MAGNITUDE, vmin=0, vmax=1, interpolation="none")
    panels.bare(axes, name)
    return image


def neighbours(name: str, similarity: Float[Tensor, "h w h w"]) -> str:
    """Compare positions next to each other in a row with all others, in words."""
    h, w = similarity.shape[:2]
    near = similarity.diagonal(dim1=0, dim2=2).diagonal(offset=1, dim1=0, dim2=1).mean().item()
    every = (similarity.sum().item() - h * w) / (h * w * (h * w - 1))
    return f"{name}, {brief(round(near, 2))} for neighbours in a row, {brief(round(every, 2))} for all pairs"


@styled
def show_structure(
    names: Sequence[str], found: Mapping[str, Sequence[float]], chance: Mapping[str, Float[Tensor, "S n"]], title: str
) -> Figure:
    """Draw measures of structure, one line each, with a marker for each model.

    Grey bars reach from the smallest to the largest of S random draws, for the models that are in `chance`.
    """
    figure, axes = panels.panel(WIDTH * 0.85, 0.6 * len(names) + 1.6, title)
    told, look = [], style.looks(found)
    for index, (name, values) in enumerate(found.items()):
        heights = [row + 0.22 * (index - (len(found) - 1) / 2) for row in range(len(names))]
        if name in chance:
            low, high = map(to_numpy, chance[name].aminmax(dim=0))
            axes.hlines(heights, low, high, color=style.CONTROL, lw=7, alpha=0.35, zorder=1)
        axes.plot(values, heights, look[name][1], color=look[name][0], ls="none", ms=8, label=name, zorder=3)
        told.append(f"{name}: {amounts({n: round(value, 2) for n, value in zip(names, values, strict=True)})}")
    panels.zero(axes, vertical=True)
    panels.row_names(axes, names)
    axes.set(xlabel="difference of mean cosines (grey: what chance makes)")
    panels.legend_at_right(axes)
    return describe(figure, f"Differences of mean cosines. {'; '.join(told)}.")


@styled
def show_forming(
    similarities: Mapping[int, Float[Tensor, "h w h w"]],
    epochs: Sequence[int],
    measures: Mapping[str, Sequence[float]],
    title: str,
) -> Figure:
    """Draw above, similar positions after some epochs; below, measures of them after each of `epochs`."""
    figure = panels.blank(WIDTH * 0.9, 4.8, title)
    grid = figure.add_gridspec(2, len(similarities), height_ratios=(1, 1.2))
    for column, (epoch, similarity) in enumerate(similarities.items()):
        image = draw_mosaic(figure.add_subplot(grid[0, column]), similarity, f"epoch {epoch}" if epoch else "untrained")
    panels.colour_bar(figure, image, figure.axes, "cosine", extend="min", shrink=0.8)
    below = figure.add_subplot(grid[1, :])
    for name, look in style.looks(measures).items():
        panels.band(below, range(len(epochs)), torch.tensor([measures[name]]), name, look)
    panels.zero(below)
    below.set_xticks(range(len(epochs)), epochs)
    below.set(xlabel="epochs of training (not evenly spaced)", ylabel="difference of cosines")
    figure.legend(loc="outside lower center", ncols=len(measures))
    return describe(figure, f"From epoch {epochs[0]} to {epochs[-1]}: {courses(measures)}.")
