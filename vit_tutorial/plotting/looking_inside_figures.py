"""Draw what is inside a trained model: its filters, where heads look, what maps find, what heads are worth."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from jaxtyping import Bool, Float
from matplotlib.colors import LogNorm
from matplotlib.patheffects import withStroke
from torch import Tensor

from . import panels, style
from .alt_text import amounts, brief, listed, with_alt
from .style import WIDTH, Figure, styled, to_numpy

HeadTables = Mapping[str, Float[Tensor, "L h"]]


@styled
def show_patch_filters(filters: Mapping[str, Float[Tensor, "n 3 P Q"]], columns: int, title: str) -> Figure:
    """Draw filters, or components of filters, as small pictures, one panel per model; 0 is grey, each has its range."""
    rows = max(math.ceil(len(weights) / columns) for weights in filters.values())
    figure, (row,) = panels.panels(1, len(filters), WIDTH, WIDTH / len(filters) * rows / columns + 0.8, title)
    figure.get_layout_engine().set(w_pad=0.15)
    for axes, (name, weights) in zip(row, filters.items(), strict=True):
        scaled = 0.5 + weights / weights.abs().amax(dim=(1, 2, 3), keepdim=True) / 2
        axes.imshow(panels.tile(to_numpy(scaled.permute(0, 2, 3, 1)), columns, gap=1))
        panels.bare(axes, name)
    P, Q = weights.shape[2:]
    counts = listed(f"{len(weights)} of {name}" for name, weights in filters.items())
    return with_alt(figure, f"Filters of {P}×{Q} pixels as small pictures: {counts}.")


@styled
def show_distances(
    distances: HeadTables, bands: Mapping[str, tuple[float, float]], even: Mapping[str, float], title: str
) -> Figure:
    """Draw mean attention distance, a dot for each head of each layer (Figure 7, right), one panel per model.

    `bands` reach from the smallest to the largest distance among the heads of untrained models; `even` is the distance
    of a head that looks at all patches alike, the dashed line.
    """
    figure, (row,) = panels.panels(1, len(distances), WIDTH * 0.9, 3.3, title)
    told = []
    for axes, (name, far) in zip(row, distances.items(), strict=True):
        low, high = bands[name]
        axes.axhspan(low, high, color=style.CONTROL, alpha=0.25, lw=0, label="heads of untrained models")
        layers = np.repeat(range(len(far)), far.shape[1])
        axes.plot(layers, to_numpy(far.flatten()), "o", color=style.TRAINED, alpha=0.8, label="trained heads")
        axes.axhline(even[name], color=style.CONTROL, lw=1, ls="--", zorder=0, label="all patches alike")
        axes.set(title=name, xlabel="layer", ylabel="mean distance (pixels)", xticks=range(len(far)))
        axes.set_ylim(0, 1.25 * max(even.values()))
        told.append(f"{name}, {int(((far < low) | (far > high)).sum())} of {far.numel()}")
    figure.legend(*row[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return with_alt(figure, f"Heads outside the band of untrained models: {listed(told)}.")


@styled
def show_found(
    pictures: Float[Tensor, "B 3 H W"],
    masks: Bool[Tensor, "B H W"],
    maps: Mapping[str, Float[Tensor, "B h w"]],
    title: str,
) -> Figure:
    """Draw pictures and maps over their patches, with the object's outline: one row per picture, one column per map.

    Maps are multiples of their own mean, on one logarithmic scale from 1/4 to 4.
    """
    rows, columns = len(pictures), 1 + len(maps)
    figure, grid = panels.panels(rows, columns, 0.85 * WIDTH, 0.6 + 0.85 * WIDTH / (columns + 1) * rows, title)
    H, W = pictures.shape[2:]
    relative = {name: found / found.mean(dim=(1, 2), keepdim=True) for name, found in maps.items()}
    outline = {"colors": "white", "linewidths": 1.5, "extent": (0, W, 0, H)}
    look = {"cmap": style.MAGNITUDE, "norm": LogNorm(1 / 4, 4), "extent": (0, W, H, 0)}
    for row, (line, picture, mask) in enumerate(zip(grid, pictures, masks, strict=True)):
        panels.picture(line[0], picture, extent=(0, W, H, 0))
        for axes, found in zip(line[1:], relative.values(), strict=True):
            image = axes.imshow(to_numpy(found[row]), **look)
        for axes, name in zip(line, ["picture", *maps], strict=True):
            panels.bare(axes, name.replace(" ", "\n") if row == 0 else "", loc="center")
            drawn = axes.contour(to_numpy(mask.float()), [0.5], **outline)
            drawn.set_path_effects([withStroke(linewidth=3.5, foreground=style.BLACK)])
    ticks = {1 / 4: "1/4", 1 / 2: "1/2", 1: "1", 2: "2", 4: "4"}
    panels.colour_bar(figure, image, grid, "weight (1 = the map's mean)", ticks, extend="both", shrink=0.7)
    peaks = amounts({name: found.amax() for name, found in relative.items()})
    return with_alt(figure, f"{rows} pictures and their maps; the largest multiple of the mean: {peaks}.")


@styled
def show_ranking(
    scores: Mapping[str, Mapping[str, tuple[float, float]]], chance: Mapping[str, float], title: str
) -> Figure:
    """Draw a mean and half the width of its 95 % interval for each name, one panel per measure, in the order given.

    The dashed line is what chance reaches. A name that begins with "untrained" or ends in "(blind)" is a control,
    and one that ends in "(mask)" knows the right answer.
    """
    names = list(dict.fromkeys(name for found in scores.values() for name in found))
    figure, (row,) = panels.panels(1, len(scores), WIDTH, 0.42 * len(names) + 1.5, title, sharey=True)
    told = []
    for axes, (measure, found) in zip(row, scores.items(), strict=True):
        panels.row_names(axes, names)
        for name, (mean, half) in found.items():
            look = {"color": style.TRAINED, "marker": "o"}
            if name.startswith("untrained") or name.endswith("(blind)"):
                look = {"color": style.CONTROL, "marker": "X"}
            elif name.endswith("(mask)"):
                look = {"color": style.BLACK, "marker": "D"}
            panels.interval(axes, (mean, names.index(name)), half, brief(mean), lw=2, **look)
        if measure in chance:
            axes.axvline(chance[measure], color=style.CONTROL, lw=1, ls="--", zorder=0)
        low, high = axes.get_xlim()
        axes.set_xlim(low, high + 0.2 * (high - low))  # room for the value at the right of the last dot
        axes.set_xlabel(measure)
        told.append(f"{measure}: {listed(f'{n} {brief(mean)} ± {half:.2g}' for n, (mean, half) in found.items())}")
    text = "bars: 95 % interval of the mean; grey: controls; black: knows the mask"
    figure.supxlabel(text + ("; dashed line: chance" if chance else ""), fontsize=10)
    return with_alt(figure, f"Means and 95 % intervals. {'; '.join(told)}.")


@styled
def show_head_costs(costs: HeadTables, spreads: HeadTables, title: str) -> Figure:
    """Draw the points of accuracy lost without a head, one panel per model; in brackets where the spread reaches 0."""
    ratios = [cost.shape[1] for cost in costs.values()]
    figure, (row,) = panels.panels(1, len(costs), 0.92 * WIDTH, 3.3, title, width_ratios=ratios)
    limit = 100 * max(cost.abs().max().item() for cost in costs.values())
    told = []
    for axes, (name, cost) in zip(row, costs.items(), strict=True):
        image = panels.diverging(axes, 100 * cost, limit, aspect="auto")
        texts = np.vectorize(write_cost)(100 * cost.double(), 100 * spreads[name].double())
        panels.texts(axes, texts, dark=to_numpy(100 * cost.abs()) > 0.6 * limit)
        axes.set(title=name, xlabel="head", ylabel="layer", xticks=range(cost.shape[1]), yticks=range(len(cost)))
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        layer, head = divmod(int(cost.argmax()), cost.shape[1])
        told.append(f"{name}, head {head} of layer {layer}: {brief(100 * cost.max())} points")
    panels.colour_bar(figure, image, row, "cost in points of accuracy")
    return with_alt(figure, f"The head that costs most: {'; '.join(told)}.")


def write_cost(points: float, spread: float) -> str:
    """Write a cost with its spread, in brackets where the spread reaches 0."""
    text = f"{points:.1f}±{spread:.1f}".replace("-", "−")
    return f"({text})" if spread >= abs(points) else text
