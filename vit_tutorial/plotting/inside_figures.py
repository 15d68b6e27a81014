"""Figures of notebook 07: positions, filters, where heads look, what maps find, what heads are worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle

import matplotlib.pyplot as plt
import torch
from jaxtyping import Bool, Float
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from torch import Tensor

from .style import BLUE, DIVERGING, GREEN, GREY, MAGNITUDE, ORANGE, PINK, RED, WIDTH, styled, to_numpy
from .token_figures import mosaic

# Colour and marker together, so that the colour is never alone.
MARKS = ((BLUE, "o"), (RED, "s"), (GREEN, "^"), (ORANGE, "D"), (PINK, "v"))


@styled
def show_by_offset(table: Float[Tensor, "h w"], control: Float[Tensor, "h w"], title: str) -> Figure:
    """Mean similarity of two positions by how far apart they are, along a row and along a column; a control in grey."""
    figure, axes = plt.subplots(figsize=(WIDTH * 0.7, 3.2))
    for name, given, colours in (("trained", table, (BLUE, RED)), ("untrained", control, (GREY, GREY))):
        lines = {"in one row": given[0], "in one column": given[:, 0]}
        for (label, line), colour, marker in zip(lines.items(), colours, "os", strict=True):
            axes.plot(range(len(line)), to_numpy(line), color=colour, marker=marker, label=f"{name}, {label}")
    axes.axhline(0, color=GREY, lw=1, ls="--")
    axes.set(xlabel="patches apart", ylabel="mean cosine similarity", xticks=range(max(table.shape)), title=title)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


@styled
def show_structure(
    names: Sequence[str], found: Mapping[str, Sequence[float]], chance: Mapping[str, Float[Tensor, "S n"]], title: str
) -> Figure:
    """Measures of structure, one line each: a marker for each model, and a bar as wide as what chance makes of it.

    `found` and `chance` are by model; `chance[model]` holds S draws of all measures, and the bar reaches from the
    smallest to the largest. Models without an entry there get no bar.
    """
    figure, axes = plt.subplots(figsize=(WIDTH * 0.85, 0.6 * len(names) + 1.6))
    step = 0.22
    for index, ((name, values), (colour, marker)) in enumerate(zip(found.items(), cycle(MARKS), strict=False)):
        heights = [row + step * (index - (len(found) - 1) / 2) for row in range(len(names))]
        if name in chance:
            low, high = chance[name].amin(dim=0), chance[name].amax(dim=0)
            axes.hlines(heights, to_numpy(low), to_numpy(high), color=GREY, lw=7, alpha=0.35, zorder=1)
        axes.plot(values, heights, marker, color=colour, ls="none", ms=8, label=name, zorder=3)
    axes.axvline(0, color=GREY, lw=1, ls="--")
    axes.set_yticks(range(len(names)), names)
    axes.set(xlabel="difference of mean cosines (grey: what chance makes)", ylim=(len(names) - 0.5, -0.5), title=title)
    axes.tick_params(axis="y", length=0)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


@styled
def show_forming(
    similarities: Mapping[int, Float[Tensor, "h w h w"]],
    epochs: Sequence[int],
    measures: Mapping[str, Sequence[float]],
    title: str,
) -> Figure:
    """Above, similar positions after some epochs; below, measures of them after each of `epochs`."""
    figure = plt.figure(figsize=(WIDTH * 0.9, 4.8))
    grid = figure.add_gridspec(2, len(similarities), height_ratios=(1, 1.2))
    above = [figure.add_subplot(grid[0, column]) for column in range(len(similarities))]
    for axes, (epoch, similarity) in zip(above, similarities.items(), strict=True):
        image = axes.imshow(to_numpy(mosaic(similarity)), cmap=MAGNITUDE, vmin=0, vmax=1, interpolation="none")
        axes.set_title("untrained" if epoch == 0 else f"epoch {epoch}", fontsize=11)
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
    figure.colorbar(image, ax=above, label="cosine", extend="min", shrink=0.8)
    below = figure.add_subplot(grid[1, :])
    for (name, values), (colour, marker) in zip(measures.items(), cycle(MARKS), strict=False):
        below.plot(range(len(epochs)), values, color=colour, marker=marker, label=name)
    below.axhline(0, color=GREY, lw=1, ls="--")
    below.set_xticks(range(len(epochs)), [str(epoch) for epoch in epochs])
    below.set(xlabel="epochs of training (not evenly spaced)", ylabel="difference of cosines")
    below.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    figure.suptitle(title, x=0.01, ha="left")
    return figure


@styled
def show_patch_filters(filters: Mapping[str, Float[Tensor, "n 3 P Q"]], columns: int, title: str) -> Figure:
    """Filters, or components of filters, as small pictures: a panel a model. Grey is 0; each has its own range."""
    rows = max(-(-len(weights) // columns) for weights in filters.values())
    height = WIDTH / len(filters) * rows / columns + 0.8
    figure, panels = plt.subplots(1, len(filters), figsize=(WIDTH, height), squeeze=False)
    figure.get_layout_engine().set(w_pad=0.15)
    for axes, (name, weights) in zip(panels[0], filters.items(), strict=True):
        axes.imshow(to_numpy(tiled(weights, columns)))
        axes.set_title(name, fontsize=11)
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
    figure.suptitle(title, x=0.01, ha="left")
    return figure


def tiled(weights: Float[Tensor, "n 3 P Q"], columns: int) -> Float[Tensor, "H W 3"]:
    """Small pictures row by row, a white line between them, each scaled so that 0 is grey."""
    count, _, P, Q = weights.shape
    rows = -(-count // columns)
    picture = torch.ones(rows * (P + 1) - 1, columns * (Q + 1) - 1, 3)
    for index, weight in enumerate(weights):
        top, left = index // columns * (P + 1), index % columns * (Q + 1)
        picture[top : top + P, left : left + Q] = (0.5 + weight / weight.abs().max() / 2).permute(1, 2, 0)
    return picture


@styled
def show_gains(gains: Mapping[str, Float[Tensor, " n"]], title: str) -> Figure:
    """How strongly filters answer to each of n patterns, those with the most variance in photographs first."""
    figure, axes = plt.subplots(figsize=(WIDTH * 0.75, 3.2))
    for (name, gain), (colour, marker) in zip(gains.items(), cycle(MARKS), strict=False):
        axes.plot(range(1, len(gain) + 1), to_numpy(gain), color=colour, marker=marker, ms=4, label=name)
    axes.set(
        yscale="log",
        xlabel="pattern, by its variance in photographs (largest first)",
        ylabel="sum of squared answers",
        title=title,
    )
    axes.yaxis.set_major_locator(LogLocator(base=2))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.minorticks_off()
    axes.legend()
    return figure


@styled
def show_distances(
    distances: Mapping[str, Float[Tensor, "L h"]],
    bands: Mapping[str, tuple[float, float]],
    even: Mapping[str, float],
    title: str,
) -> Figure:
    """Mean attention distance, a dot for each head of each layer (Figure 7, right). A panel a model.

    `bands` are the smallest and the largest distance among the heads of untrained models, drawn as a grey band;
    `even` is the distance of a head that looks at all patches alike, the dashed line.
    """
    figure, panels = plt.subplots(1, len(distances), figsize=(WIDTH * 0.9, 3.3), squeeze=False)
    for axes, (name, far) in zip(panels[0], distances.items(), strict=True):
        axes.axhspan(*bands[name], color=GREY, alpha=0.25, lw=0, label="heads of untrained models")
        axes.axhline(even[name], color=GREY, lw=1, ls="--", label="all patches alike")
        layers = torch.arange(len(far))[:, None].expand_as(far)
        axes.plot(
            to_numpy(layers.flatten()), to_numpy(far.flatten()), "o", color=BLUE, alpha=0.8, label="trained heads"
        )
        axes.set(title=name, xlabel="layer", ylabel="mean distance (pixels)", xticks=range(len(far)))
        axes.set_ylim(0, 1.25 * even[name])
        axes.legend(loc="lower left")
    figure.suptitle(title, x=0.01, ha="left")
    return figure


@styled
def show_found(
    pictures: Float[Tensor, "B 3 H W"],
    masks: Bool[Tensor, "B H W"] | None,
    maps: Mapping[str, Float[Tensor, "B h w"]],
    title: str,
) -> Figure:
    """Pictures, and what maps over their patches make of them: a row a picture, a column a map.

    The object's outline, where masks are given, is drawn into all of them. Maps are multiples of their own
    mean, on one logarithmic scale from 1/4 to 4.
    """
    rows, columns = len(pictures), 1 + len(maps)
    figure, panels = plt.subplots(
        rows, columns, figsize=(0.85 * WIDTH, 0.6 + 0.85 * WIDTH / (columns + 1) * rows), squeeze=False
    )
    H, W = pictures.shape[2:]
    for row in range(rows):
        panels[row, 0].imshow(to_numpy(pictures[row].permute(1, 2, 0)), extent=(0, W, H, 0))
        for axes, (name, found) in zip(panels[row, 1:], maps.items(), strict=True):
            relative = to_numpy(found[row] / found[row].mean())
            drawn = axes.imshow(relative, cmap=MAGNITUDE, norm=LogNorm(1 / 4, 4), extent=(0, W, H, 0))
            axes.set_title(name.replace(" ", "\n") if row == 0 else "", fontsize=11, loc="center")
        for axes in panels[row]:
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set_visible(False)
            if masks is not None:
                inside = to_numpy(masks[row].float())
                axes.contour(inside, [0.5], colors=RED, linewidths=1.5, extent=(0, W, 0, H), origin=None)
    panels[0, 0].set_title("picture", fontsize=11, loc="center")
    bar = figure.colorbar(drawn, ax=panels, extend="both", shrink=0.7)
    bar.set_label("weight (1 = the map's mean)")
    bar.set_ticks([1 / 4, 1 / 2, 1, 2, 4], labels=["1/4", "1/2", "1", "2", "4"])
    bar.minorticks_off()
    figure.suptitle(title, x=0.01, ha="left")
    return figure


@styled
def show_scores(scores: Mapping[str, Mapping[str, Float[Tensor, " B"]]], chance: Sequence[float], title: str) -> Figure:
    """Scores over many images, a panel a measure and a line a map: the median, and a bar from quartile to quartile."""
    figure, panels = plt.subplots(1, len(scores), figsize=(WIDTH, 4.2), sharey=True, squeeze=False)
    for axes, (measure, maps), none in zip(panels[0], scores.items(), chance, strict=True):
        for height, values in enumerate(maps.values()):
            low, middle, high = values.quantile(values.new_tensor([0.25, 0.5, 0.75])).tolist()
            axes.plot([low, high], [height, height], color=BLUE, lw=6, alpha=0.35, solid_capstyle="butt")
            axes.plot(middle, height, "o", color=BLUE)
        axes.axvline(none, color=GREY, lw=1, ls="--")
        axes.set_yticks(range(len(maps)), list(maps))
        axes.set(xlabel=measure, ylim=(len(maps) - 0.5, -0.5))
        axes.tick_params(axis="y", length=0)
    figure.suptitle(title, x=0.01, ha="left")
    return figure


@styled
def show_covering(counts: Sequence[int], right: Mapping[str, Sequence[float]], chance: float, title: str) -> Figure:
    """Accuracy against the number of patches covered, a line for each way to choose them."""
    figure, axes = plt.subplots(figsize=(WIDTH * 0.75, 3.3))
    for (name, values), (colour, marker) in zip(right.items(), cycle(MARKS), strict=False):
        axes.plot(counts, values, color=colour, marker=marker, label=name)
    axes.axhline(chance, color=GREY, lw=1, ls="--")
    axes.text(counts[0], chance, "a guess", color=GREY, va="bottom")
    axes.set(xlabel="patches covered", ylabel="accuracy", ylim=(0, 1.03), xticks=counts, title=title)
    axes.legend(title="covered first", loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


@styled
def show_head_costs(
    costs: Mapping[str, Float[Tensor, "L h"]], spreads: Mapping[str, Float[Tensor, "L h"]], title: str
) -> Figure:
    """Points of accuracy that are missing without a head, a panel a model. In brackets where the spread reaches 0."""
    ratios = [cost.shape[1] for cost in costs.values()]
    figure, panels = plt.subplots(1, len(costs), figsize=(0.92 * WIDTH, 3.3), squeeze=False, width_ratios=ratios)
    limit = 100 * max(cost.abs().max().item() for cost in costs.values())
    for axes, (name, cost) in zip(panels[0], costs.items(), strict=True):
        drawn = axes.imshow(to_numpy(100 * cost), cmap=DIVERGING, vmin=-limit, vmax=limit, aspect="auto")
        for layer, row in enumerate((100 * cost).tolist()):
            for head, points in enumerate(row):
                unclear = 100 * spreads[name][layer, head].item() >= abs(points)
                text = f"{points:.1f}±{100 * spreads[name][layer, head]:.1f}".replace("-", "−")
                colour = "white" if abs(points) > 0.6 * limit else "black"
                text = f"({text})" if unclear else text
                axes.text(head, layer, text, ha="center", va="center", color=colour, fontsize=10)
        axes.set(title=name, xlabel="head", ylabel="layer", xticks=range(cost.shape[1]), yticks=range(len(cost)))
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
    figure.colorbar(drawn, ax=panels, label="cost in points of accuracy")
    figure.suptitle(title, x=0.01, ha="left")
    return figure
