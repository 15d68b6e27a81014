"""Eq. 1: filters, the class token, positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from matplotlib.patches import Rectangle
from torch import Tensor

from . import panels, style
from .alt_text import amounts, describe, listed, span
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
    figure, axes = panels.panels(2, 1 + len(filters), WIDTH, 4.1, title, height_ratios=(1, 1.6))
    text = "filters\nwhite: +\ngrey: 0\nblack: −\n\nanswers\nred: +\nwhite: 0\nblue: −"
    axes[0, 0].text(0.5, 0.5, text, ha="center", va="center", fontsize=10, transform=axes[0, 0].transAxes)
    panels.bare(axes[0, 0])
    panels.picture(axes[1, 0], photo, "photo")
    answers = []
    for (above, below), weight, answer, name in zip(axes.T[1:], filters, responses, names, strict=True):
        panels.picture(above, 0.5 + weight / weight.abs().max() / 2)
        panels.diverging(below, answer, answer.abs().max().item())
        reach = f"{answer.min():.1f} to {answer.max():.1f}".replace("-", "−")
        for panel, label in ((above, name), (below, reach)):
            panels.bare(panel, label, loc="center")
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
    figure, rows = panels.panels(4, 1, WIDTH, 6.6, title, height_ratios=(1, 1.7, 1.7, 1.7), sharex=True)
    top, *below = rows[:, 0]
    for i, patch in enumerate(patches, start=1):
        panels.picture(top, patch, extent=(i - 0.4, i + 0.4, 0, 1), aspect="auto")
    top.text(0, 0.5, "no patch:\na vector of\nits own", ha="center", va="center", fontsize=10)
    top.set(ylim=(0, 1), ylabel="patches")
    top.tick_params(length=0)
    labels = (r"$[x_{class};\ x_p^1E;\ \ldots;\ x_p^NE]$", r"$+\ E_{pos}$", r"$=\ z_0$")
    for axes, table, label in zip(below, tables, labels, strict=True):
        panels.bare(axes)
        for i, token in enumerate(table):
            extent = (i - 0.4, i + 0.4, dim - 0.5, -0.5)
            image = panels.diverging(axes, token[:, None], limit, extent=extent, aspect="auto")
        frame = Rectangle((-0.4, -0.5), 0.8, dim, fill=False, edgecolor=style.CLASS_TOKEN, lw=3, clip_on=False)
        axes.add_patch(frame)
        axes.set(ylim=(dim - 0.5, -0.5), yticks=(0, dim - 1), yticklabels=(1, dim), ylabel=label)
        axes.tick_params(length=0)
    names = ["0\nclass", *map(str, range(1, count))]
    below[-1].set(xlim=(-0.6, count - 0.4), xticks=range(count), xticklabels=names, xlabel="token")
    panels.colour_bar(figure, image, below, "value", shrink=0.6)
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
    figure = panels.blank(WIDTH, 3.4 + 1.6 * len(differences), title)
    grid = figure.add_gridspec(1 + len(differences), 2, height_ratios=(2.2, *[1.0] * len(differences)))
    for column, (picture, name) in enumerate(((photo, "the photo"), (shuffled, "its patches, shuffled"))):
        panels.picture(figure.add_subplot(grid[0, column]), picture, name)
    for row, (name, difference) in enumerate(differences.items(), start=1):
        axes = figure.add_subplot(grid[row, :])
        axes.bar(range(len(difference)), difference, color=style.CLASS_TOKEN)
        panels.zero(axes)
        axes.set(title=name, ylabel="difference", xlim=(-1, len(difference)), ylim=(-limit, limit))
    axes.set_xlabel("value in the class token, after the encoder: shuffled minus photo")
    largest = amounts({name: abs(difference).max() for name, difference in differences.items()}, ", at most ")
    return describe(figure, f"The class tokens of a photo and of its shuffled patches differ: {largest}.")
