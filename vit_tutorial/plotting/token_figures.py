"""Figures of Eq. 1: filters, the class token, positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import torch
from jaxtyping import Float
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from torch import Tensor

from .style import BLUE, DIVERGING, GREY, MAGNITUDE, ORANGE, WIDTH, styled, to_numpy


@styled
def show_filters(
    photo: Float[Tensor, "3 H W"],
    filters: Float[Tensor, "D 3 P Q"],
    responses: Float[Tensor, "D h w"],
    names: Sequence[str],
    title: str,
) -> Figure:
    """Above, the filters of a patch projection as small pictures; below, what each answers to every patch.

    `responses[k, i, j]` is number k of the token of the patch in row i, column j. Filters are shown with
    grey for 0, lighter above it, darker below; responses in colours around zero, each with its own range,
    which stands above it.

    Raises ValueError if there is not one name and one map of responses for each filter.
    """
    if not len(filters) == len(responses) == len(names):
        raise ValueError(
            f"each filter needs its responses and its name: {len(filters)} filters, {len(responses)} maps of "
            f"responses, {len(names)} names"
        )
    figure, axes = plt.subplots(2, 1 + len(filters), figsize=(WIDTH, 4.1), height_ratios=(1, 1.6))
    text = "filters\nwhite: +\ngrey: 0\nblack: −\n\nanswers\nred: +\nwhite: 0\nblue: −"
    axes[0, 0].text(0.5, 0.5, text, ha="center", va="center", fontsize=10, transform=axes[0, 0].transAxes)
    axes[1, 0].imshow(to_numpy(photo.permute(1, 2, 0)))
    axes[1, 0].set_title("photo", loc="center", fontsize=11)
    for column, (weight, answer, name) in enumerate(zip(filters, responses, names, strict=True), start=1):
        axes[0, column].imshow(to_numpy(0.5 + weight / weight.abs().max() / 2).transpose(1, 2, 0))
        axes[0, column].set_title(name, loc="center", fontsize=11)
        limit = answer.abs().max().item()
        axes[1, column].imshow(to_numpy(answer), cmap=DIVERGING, vmin=-limit, vmax=limit)
        axes[1, column].set_title(
            f"{answer.min():.1f} to {answer.max():.1f}".replace("-", "−"), loc="center", fontsize=10
        )
    for panel in axes.flat:
        panel.set(xticks=(), yticks=())
        panel.spines[:].set(visible=panel is not axes[0, 0], color=GREY)
    figure.suptitle(title)
    return figure


@styled
def show_equation_one(
    patches: Float[Tensor, "N C P Q"],
    tokens: Float[Tensor, "T D"],
    positions: Float[Tensor, "T D"],
    title: str = "Eq. 1: a class token goes first, then every token gets its position added",
) -> Figure:
    """Eq. 1 with real numbers: patches, the tokens made of them with the class token first, positions, the sum.

    Each column is one token, each cell one of its D numbers; all three tables share one scale around zero.

    Raises ValueError if there are not 1 + N tokens and as many positions.
    """
    if not 1 + len(patches) == len(tokens) == len(positions):
        raise ValueError(
            f"{len(patches)} patches and a class token need {1 + len(patches)} tokens and positions, "
            f"got {len(tokens)} and {len(positions)}"
        )
    count, dim = tokens.shape
    total = tokens + positions
    limit = max(table.abs().max().item() for table in (tokens, positions, total))
    figure, rows = plt.subplots(4, 1, figsize=(WIDTH, 6.6), height_ratios=(1, 1.7, 1.7, 1.7), sharex=True)
    for i, patch in enumerate(patches, start=1):
        rows[0].imshow(to_numpy(patch.permute(1, 2, 0)), extent=(i - 0.4, i + 0.4, 0, 1), aspect="auto")
    rows[0].text(0, 0.5, "no patch:\na vector of\nits own", ha="center", va="center", fontsize=10)
    rows[0].set(ylim=(0, 1), ylabel="patches")
    rows[0].tick_params(left=False, labelleft=False)
    labels = (r"$[x_{class};\ x_1E;\ \ldots;\ x_NE]$", r"$+\ E_{pos}$", r"$=\ z_0$")
    for panel, table, label in zip(rows[1:], (tokens, positions, total), labels, strict=True):
        for i, token in enumerate(table):
            extent = (i - 0.4, i + 0.4, dim - 0.5, -0.5)
            image = panel.imshow(
                to_numpy(token[:, None]), cmap=DIVERGING, vmin=-limit, vmax=limit, extent=extent, aspect="auto"
            )
        panel.add_patch(Rectangle((-0.4, -0.5), 0.8, dim, fill=False, edgecolor=ORANGE, lw=3, clip_on=False))
        panel.set(ylim=(dim - 0.5, -0.5), yticks=(0, dim - 1), yticklabels=(1, dim), ylabel=label)
        panel.tick_params(left=False)
    for panel in rows:
        panel.tick_params(bottom=False)
        panel.spines[:].set_visible(False)
    rows[-1].set(xlim=(-0.6, count - 0.4), xticks=range(count), xlabel="token")
    rows[-1].set_xticklabels(["0\nclass", *(str(i) for i in range(1, count))])
    figure.colorbar(image, ax=list(rows[1:]), label="value", shrink=0.6)
    figure.suptitle(title)
    return figure


@styled
def show_shuffled(
    photo: Float[Tensor, "3 H W"],
    shuffled: Float[Tensor, "3 H W"],
    class_tokens: Mapping[str, Float[Tensor, "2 D"]],
    title: str,
) -> Figure:
    """The photo beside its shuffled patches; under them, how far apart the class tokens of the two come out.

    `class_tokens[name]` holds the class token after the encoder: for the photo, then for the shuffled one.
    Drawn is the second minus the first, number by number, on one scale for all names.

    Raises ValueError if there is no class token to draw.
    """
    if not class_tokens:
        raise ValueError("nothing to compare: class_tokens is empty, give at least one pair of class tokens")
    differences = {name: to_numpy(after - before) for name, (before, after) in class_tokens.items()}
    limit = 1.1 * max(abs(difference).max() for difference in differences.values()) or 1.0
    figure = plt.figure(figsize=(WIDTH, 3.4 + 1.6 * len(differences)))
    grid = figure.add_gridspec(1 + len(differences), 2, height_ratios=(2.2, *[1.0] * len(differences)))
    for column, (picture, name) in enumerate(((photo, "the photo"), (shuffled, "its patches, shuffled"))):
        panel = figure.add_subplot(grid[0, column])
        panel.imshow(to_numpy(picture.permute(1, 2, 0)))
        panel.set_title(name, loc="center")
        panel.axis("off")
    for row, (name, difference) in enumerate(differences.items(), start=1):
        panel = figure.add_subplot(grid[row, :])
        panel.bar(range(len(difference)), difference, color=BLUE)
        panel.axhline(0, color="black", lw=0.8)
        panel.set(title=name, ylabel="difference", xlim=(-1, len(difference)), ylim=(-limit, limit))
    panel.set_xlabel("number in the class token, after the encoder: shuffled minus photo")
    figure.suptitle(title)
    return figure


@styled
def show_sincos_table(table: Float[Tensor, "N D"], grid: tuple[int, int], title: str) -> Figure:
    """The sin-cos positions of a grid as a table: one line a patch in reading order, one column a number.

    Grey lines mark where a row of the grid ends, black ones the four quarters of the vector.
    Raises ValueError if the table does not hold one vector for each place of the grid.
    """
    h, w = grid
    if len(table) != h * w:
        raise ValueError(f"a {h}×{w} grid has {h * w} places, the table has {len(table)} rows")
    quarter = table.shape[1] / 4
    figure, axes = plt.subplots(figsize=(WIDTH, 4.8))
    image = axes.imshow(to_numpy(table), cmap=DIVERGING, vmin=-1, vmax=1, aspect="auto", interpolation="none")
    axes.set_yticks([i * w + (w - 1) / 2 for i in range(h)], labels=[str(i) for i in range(h)])
    axes.tick_params(left=False)
    for i in range(1, h):
        axes.axhline(i * w - 0.5, color=GREY, lw=0.5)
    for i, name in enumerate(("sines of the row", "cosines", "sines of the column", "cosines")):
        axes.axvline(i * quarter - 0.5, color="black", lw=2.5 if i == 2 else 1)
        axes.text((i + 0.5) * quarter - 0.5, -0.02 * len(table), name, ha="center", va="bottom", fontsize=10)
    axes.set_title(title, pad=22)
    axes.set(xlabel=f"number in the vector (D = {table.shape[1]})", ylabel=f"row of the grid, {w} patches each")
    figure.colorbar(image, label="value")
    return figure


@styled
def show_position_similarity(maps: Mapping[str, Float[Tensor, "h w h w"]], title: str) -> Figure:
    """Cosine similarity of every position with every other, one panel a model, one small map a place (Figure 7).

    The small map in row i, column j of a panel says how alike the position of patch (i, j) is to all the
    others. All panels share one scale from 0 to 1; what is below 0 has the colour of 0.

    Raises ValueError if there is no map to draw.
    """
    if not maps:
        raise ValueError("nothing to draw: maps is empty, give at least one similarity")
    figure, axes = plt.subplots(1, len(maps), figsize=(WIDTH, 0.4 + 0.95 * WIDTH / max(len(maps), 2)), squeeze=False)
    for panel, (name, similarity) in zip(axes[0], maps.items(), strict=True):
        image = panel.imshow(to_numpy(mosaic(similarity)), cmap=MAGNITUDE, vmin=0, vmax=1, interpolation="none")
        h, w = similarity.shape[:2]
        panel.set_xticks([j * (w + 1) + w / 2 for j in range(w)], labels=[str(j) for j in range(w)])
        panel.set_yticks([i * (h + 1) + h / 2 for i in range(h)], labels=[str(i) for i in range(h)])
        panel.set(title=name, xlabel="column of the patch")
        panel.tick_params(length=0)
        panel.spines[:].set_visible(False)
    axes[0, 0].set_ylabel("row of the patch")
    figure.colorbar(image, ax=list(axes[0]), label="cosine similarity", extend="min", shrink=0.9)
    figure.suptitle(title)
    return figure


def mosaic(similarity: Float[Tensor, "h w h w"]) -> Float[Tensor, "H W"]:
    """The h·w small maps side by side, with an empty line between them: (h·(h+1) + 1, w·(w+1) + 1)."""
    h, w = similarity.shape[:2]
    picture = torch.full((h * (h + 1) + 1, w * (w + 1) + 1), torch.nan)
    for i in range(h):
        for j in range(w):
            top, left = i * (h + 1) + 1, j * (w + 1) + 1
            picture[top : top + h, left : left + w] = similarity[i, j]
    return picture
