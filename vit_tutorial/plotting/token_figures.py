"""Eq. 1: filters, the class token, positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor

from . import draw, style
from .alt_text import amounts, brief, describe, listed, span
from .style import WIDTH, Figure, styled, to_numpy


@styled
def show_filters(
    photo: Float[Tensor, "3 H W"],
    filters: Float[Tensor, "D 3 P Q"],
    responses: Float[Tensor, "D h w"],
    names: Sequence[str],
    title: str,
) -> Figure:
    """Draw the filters of a patch projection as small pictures, and below each what it answers to every patch.

    `responses[k, i, j]` is value k of the token of the patch in row i, column j. Each has its own range of colours
    around zero, which stands above it.
    """
    figure, axes = draw.panels(2, 1 + len(filters), WIDTH, 4.1, title, height_ratios=(1, 1.6))
    text = "filters\nwhite: +\ngrey: 0\nblack: −\n\nanswers\nred: +\nwhite: 0\nblue: −"
    axes[0, 0].text(0.5, 0.5, text, ha="center", va="center", fontsize=10, transform=axes[0, 0].transAxes)
    draw.bare(axes[0, 0])
    draw.picture(axes[1, 0], photo, "photo")
    answers = []
    for (above, below), weight, answer, name in zip(axes.T[1:], filters, responses, names, strict=True):
        draw.picture(above, 0.5 + weight / weight.abs().max() / 2)
        draw.diverging(below, answer, answer.abs().max().item())
        reach = f"{answer.min():.1f} to {answer.max():.1f}".replace("-", "−")
        for panel, label in ((above, name), (below, reach)):
            draw.bare(panel, label, loc="center")
            panel.spines[:].set(visible=True, color=style.CONTROL)
        answers.append(f"{name} answers {span(answer)}")
    return describe(figure, f"A photo, {len(filters)} filters, and their answers to each patch: {listed(answers)}.")


@styled
def show_equation_one(
    patches: Float[Tensor, "N C P Q"],
    tokens: Float[Tensor, "T D"],
    positions: Float[Tensor, "T D"],
    title: str = "Eq. 1: a class token goes first, then every token gets its position added",
) -> Figure:
    """Draw Eq. 1 with real values: patches, the tokens made of them with the class token first, positions, the sum.

    Each column is one token, each cell one of its D values; all three tables share one scale around zero.
    Raises ValueError if there are not 1 + N tokens and as many positions.
    """
    if not 1 + len(patches) == len(tokens) == len(positions):
        raise ValueError(
            f"{len(patches)} patches and a class token need {1 + len(patches)} tokens and positions, "
            f"got {len(tokens)} and {len(positions)}"
        )
    count, dim = tokens.shape
    tables = torch.stack([tokens, positions, tokens + positions])
    limit = tables.abs().max().item()
    figure, rows = draw.panels(4, 1, WIDTH, 6.6, title, height_ratios=(1, 1.7, 1.7, 1.7), sharex=True)
    top, *below = rows[:, 0]
    for i, patch in enumerate(patches, start=1):
        draw.picture(top, patch, extent=(i - 0.4, i + 0.4, 0, 1), aspect="auto")
    top.text(0, 0.5, "no patch:\na vector of\nits own", ha="center", va="center", fontsize=10)
    top.set(ylim=(0, 1), ylabel="patches")
    top.tick_params(length=0)
    labels = (r"$[x_{class};\ x_p^1E;\ \ldots;\ x_p^NE]$", r"$+\ E_{pos}$", r"$=\ z_0$")
    for axes, table, label in zip(below, tables, labels, strict=True):
        draw.bare(axes)
        for i, token in enumerate(table):
            extent = (i - 0.4, i + 0.4, dim - 0.5, -0.5)
            image = draw.diverging(axes, token[:, None], limit, extent=extent, aspect="auto")
        frame = Rectangle((-0.4, -0.5), 0.8, dim, fill=False, edgecolor=style.CLASS_TOKEN, lw=3, clip_on=False)
        axes.add_patch(frame)
        axes.set(ylim=(dim - 0.5, -0.5), yticks=(0, dim - 1), yticklabels=(1, dim), ylabel=label)
        axes.tick_params(length=0)
    names = ["0\nclass", *map(str, range(1, count))]
    below[-1].set(xlim=(-0.6, count - 0.4), xticks=range(count), xticklabels=names, xlabel="token")
    draw.colour_bar(figure, image, below, "value", shrink=0.6)
    text = f"{len(patches)} patches, and under them {count} tokens of {dim} values, their positions, and the sum"
    return describe(figure, f"{text}, which reaches from {span(tables[2])}.")


@styled
def show_shuffled(
    photo: Float[Tensor, "3 H W"],
    shuffled: Float[Tensor, "3 H W"],
    class_tokens: Mapping[str, Float[Tensor, "2 D"]],
    title: str,
) -> Figure:
    """Draw the photo beside its shuffled patches, and under them how far apart the class tokens of the two come out.

    `class_tokens[name]` holds the class token after the encoder, of the photo and of the shuffled one. Their difference
    is drawn value by value, on one scale for all names.
    """
    differences = {name: to_numpy(after - before) for name, (before, after) in class_tokens.items()}
    limit = 1.1 * max(abs(difference).max() for difference in differences.values()) or 1.0
    figure = draw.blank(WIDTH, 3.4 + 1.6 * len(differences), title)
    grid = figure.add_gridspec(1 + len(differences), 2, height_ratios=(2.2, *[1.0] * len(differences)))
    for column, (picture, name) in enumerate(((photo, "the photo"), (shuffled, "its patches, shuffled"))):
        draw.picture(figure.add_subplot(grid[0, column]), picture, name)
    for row, (name, difference) in enumerate(differences.items(), start=1):
        axes = figure.add_subplot(grid[row, :])
        axes.bar(range(len(difference)), difference, color=style.CLASS_TOKEN)
        draw.zero(axes)
        axes.set(title=name, ylabel="difference", xlim=(-1, len(difference)), ylim=(-limit, limit))
    axes.set_xlabel("value in the class token, after the encoder: shuffled minus photo")
    largest = amounts({name: abs(difference).max() for name, difference in differences.items()}, ", at most ")
    return describe(figure, f"The class tokens of a photo and of its shuffled patches differ: {largest}.")


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
    figure, axes = draw.panel(WIDTH, 4.8)
    image = draw.diverging(axes, table, 1, aspect="auto", interpolation="none")
    axes.set_yticks([i * w + (w - 1) / 2 for i in range(h)], range(h))
    axes.tick_params(left=False)
    for i in range(1, h):
        axes.axhline(i * w - 0.5, color=style.CONTROL, lw=0.5)
    for i, name in enumerate(("sines of the row", "cosines", "sines of the column", "cosines")):
        axes.axvline(i * quarter - 0.5, color=style.BLACK, lw=2.5 if i == 2 else 1)
        axes.text((i + 0.5) * quarter - 0.5, -0.02 * len(table), name, ha="center", va="bottom", fontsize=10)
    axes.set_title(title, pad=22)
    axes.set(xlabel=f"value in the vector (D = {table.shape[1]})", ylabel=f"row of the grid, {w} patches each")
    draw.colour_bar(figure, image, axes, "value")
    changes = [int((half.diff(dim=0).abs() > 1e-6).any(dim=1).sum()) for half in table.chunk(2, dim=1)]
    text = f"A table of {h * w} patches by {table.shape[1]} values. From patch to patch the left half changes"
    return describe(figure, f"{text} {changes[0]} times, the right half {changes[1]} times.")


@styled
def show_position_similarity(maps: Mapping[str, Float[Tensor, "h w h w"]], title: str) -> Figure:
    """Draw the cosine similarity of all positions (Figure 7): one panel per model, one small map per position.

    The small map in row i, column j of a panel says how alike the position of patch (i, j) is to all the
    others. All panels share one scale from 0 to 1; what is below 0 has the colour of 0.
    """
    figure, (row,) = draw.panels(1, len(maps), WIDTH, 0.4 + 0.95 * WIDTH / max(len(maps), 2), title)
    for axes, (name, similarity) in zip(row, maps.items(), strict=True):
        image = draw_mosaic(axes, similarity, name)
        h, w = similarity.shape[:2]
        axes.set_xticks([j * (w + 1) + w / 2 for j in range(w)], range(w))
        axes.set_yticks([i * (h + 1) + h / 2 for i in range(h)], range(h))
        axes.set(xlabel="column of the patch")
        axes.tick_params(length=0)
    row[0].set_ylabel("row of the patch")
    draw.colour_bar(figure, image, row, "cosine similarity", extend="min", shrink=0.9)
    return describe(figure, f"Mean cosine similarity of two positions: {listed(map(neighbours, maps, maps.values()))}.")


def draw_mosaic(axes: Axes, similarity: Float[Tensor, "h w h w"], name: str):
    """Draw the h·w small maps side by side with an empty line between them, and return the image."""
    pictures = to_numpy(similarity.flatten(0, 1))
    canvas = draw.tile(pictures, similarity.shape[1], gap=1, border=1, between=float("nan"))
    image = axes.imshow(canvas, cmap=style.MAGNITUDE, vmin=0, vmax=1, interpolation="none")
    draw.bare(axes, name)
    return image


def neighbours(name: str, similarity: Float[Tensor, "h w h w"]) -> str:
    """Compare positions next to each other in a row with all others, in words."""
    h, w = similarity.shape[:2]
    near = similarity.diagonal(dim1=0, dim2=2).diagonal(offset=1, dim1=0, dim2=1).mean().item()
    every = (similarity.sum().item() - h * w) / (h * w * (h * w - 1))
    return f"{name}, {brief(round(near, 2))} for neighbours in a row, {brief(round(every, 2))} for all pairs"
