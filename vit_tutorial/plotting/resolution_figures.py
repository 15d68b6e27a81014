"""Figures of notebook 08: a model at another size, its positions resized, and a model on another task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float, UInt8
from matplotlib.figure import Figure
from torch import Tensor

from .style import BLUE, DIVERGING, GREEN, GREY, ORANGE, PINK, RED, WIDTH, styled, to_numpy

# Colour, marker and dash together, so that the colour is never alone.
MARKS = ((BLUE, "o", "-"), (RED, "s", "--"), (GREEN, "^", "-."), (PINK, "D", ":"))


@styled
def show_sizes(pictures: Mapping[str, UInt8[Tensor, "3 H W"]], patch_size: int, title: str) -> Figure:
    """Pictures of several sizes side by side, all pixels equally large, with the grid of their patches."""
    heights, widths = zip(*(picture.shape[1:] for picture in pictures.values()), strict=True)
    inches = WIDTH / (sum(widths) + 6 * len(widths))
    figure, panels = plt.subplots(
        1, len(pictures), figsize=(WIDTH, max(heights) * inches + 0.9), width_ratios=widths, squeeze=False
    )
    for axes, (name, picture) in zip(panels[0], pictures.items(), strict=True):
        H, W = picture.shape[1:]
        axes.imshow(to_numpy(picture).transpose(1, 2, 0), extent=(0, W, H, 0))
        axes.hlines(range(0, H + 1, patch_size), 0, W, color="white", lw=0.8)
        axes.vlines(range(0, W + 1, patch_size), 0, H, color="white", lw=0.8)
        axes.set(xlim=(0, W), ylim=(max(heights), 0), xticks=[], yticks=[])
        axes.set_title(name, fontsize=11)
        axes.spines[:].set_visible(False)
    figure.suptitle(title, x=0.01, ha="left")
    return figure


@styled
def show_row(old: Sequence[float], new: Mapping[str, Sequence[float]], title: str) -> Figure:
    """A row of numbers at the middles of its cells, and what it becomes in rows of other lengths.

    All rows are as long as the picture, from 0 to 1; straight lines join the old numbers and go on level at both ends.
    """
    figure, axes = plt.subplots(figsize=(0.85 * WIDTH, 3.0))
    places = middles(len(old))
    axes.plot([0, *places, 1], [old[0], *old, old[-1]], color=GREY, lw=1.5, zorder=1)
    axes.plot(places, old, "s", color="black", ms=11, label=f"{len(old)} old numbers", zorder=2)
    for (name, values), (colour, marker, _) in zip(new.items(), cycle(MARKS), strict=False):
        axes.plot(middles(len(values)), values, marker, color=colour, ms=8, label=name, zorder=3)
        for place, value in zip(middles(len(values)), values, strict=True):
            axes.annotate(f"{value:g}", (place, value), (0, 9), textcoords="offset points", ha="center", color=colour)
    axes.set(xlim=(0, 1), xlabel="place in the picture, from its left edge to its right edge", ylabel="number")
    axes.margins(y=0.25)
    axes.set_title(title)
    axes.legend(loc="upper left")
    return figure


def middles(count: int) -> list[float]:
    """Where the middles of `count` equal cells lie, from 0 to 1."""
    return [(index + 0.5) / count for index in range(count)]


@styled
def show_channels(channels: Mapping[str, Float[Tensor, "h w"]], title: str) -> Figure:
    """One number of each position vector, as a picture of its grid; all panels on one scale around zero."""
    limit = max(channel.abs().max().item() for channel in channels.values())
    figure, panels = plt.subplots(1, len(channels), figsize=(WIDTH, 0.9 + 0.9 * WIDTH / len(channels)), squeeze=False)
    for axes, (name, channel) in zip(panels[0], channels.items(), strict=True):
        image = axes.imshow(to_numpy(channel), cmap=DIVERGING, vmin=-limit, vmax=limit)
        axes.set_title(name, fontsize=11)
        axes.set(xticks=[], yticks=[])
        axes.spines[:].set_visible(False)
    figure.colorbar(image, ax=list(panels[0]), label="value", shrink=0.8)
    figure.suptitle(title, x=0.01, ha="left")
    return figure


@styled
def show_by_size(
    sides: Sequence[int], accuracies: Mapping[str, Sequence[float]], trained_on: int, num_classes: int, title: str
) -> Figure:
    """Accuracy (from 0 to 1) of square pictures by the side of their grid, a line a way; the trained side is marked."""
    figure, axes = plt.subplots(figsize=(WIDTH, 3.7))
    axes.axvline(trained_on, color=ORANGE, lw=10, alpha=0.25)
    for (name, values), (colour, marker, dash) in zip(accuracies.items(), cycle(MARKS), strict=False):
        axes.plot(sides, [100 * value for value in values], dash, color=colour, marker=marker, lw=2, label=name)
    axes.axhline(100 / num_classes, color=GREY, linestyle=":", linewidth=1)
    axes.text(sides[-1], 100 / num_classes, "a guess", color=GREY, ha="right", va="bottom")
    axes.set_xticks(sides, [f"{side}×{side}" for side in sides])
    axes.set(ylim=(0, 103), xlabel="grid of the picture, patches", ylabel="test accuracy, %", title=title)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure


@styled
def show_before_after(
    results: Mapping[str, Mapping[str, tuple[Sequence[float], Sequence[float]]]], num_classes: int, title: str
) -> Figure:
    """A panel a size, a line a way: accuracies (from 0 to 1) of the seeds before training, hollow, and after, filled.

    `results[size][way]` is (before, after); `before` may be empty.
    """
    figure, panels = plt.subplots(
        len(results), 1, sharex=True, squeeze=False, height_ratios=[len(ways) + 0.6 for ways in results.values()],
        figsize=(WIDTH, 1.3 + sum(0.42 * len(ways) + 0.35 for ways in results.values())),
    )  # fmt: skip
    for axes, (size, ways) in zip(panels[:, 0], results.items(), strict=True):
        for row, (before, after) in enumerate(ways.values()):
            if before and max(before) < min(after):
                axes.annotate(
                    "", (100 * min(after), row), (100 * max(before), row),
                    arrowprops={"arrowstyle": "->", "color": GREY, "shrinkA": 6, "shrinkB": 6},
                )  # fmt: skip
            hollow = {"mec": "black", "mfc": "none", "mew": 1.3, "zorder": 3}  # above the filled, where both are alike
            for values, look in ((before, hollow), (after, {"color": BLUE, "mec": "none", "alpha": 0.6})):
                axes.plot([100 * value for value in values], [row] * len(values), "o", ms=9, **look)
        axes.set_yticks(range(len(ways)), ways)
        axes.set(xlim=(0, 102), ylim=(len(ways) - 0.5, -0.5))
        axes.axvline(100 / num_classes, color=GREY, linestyle=":", linewidth=1)
        axes.tick_params(axis="y", length=0)
        axes.grid(axis="x", color="#DDDDDD", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.set_title(size, fontsize=11)
    panels[-1, 0].set_xlabel("test accuracy, % (hollow: before training, filled: after; dotted: a guess)")
    figure.suptitle(title, x=0.01, ha="left")
    return figure


@styled
def show_by_examples(results: Mapping[str, Mapping[int, Sequence[float]]], num_classes: int, title: str) -> Figure:
    """Accuracy (from 0 to 1) by the number of examples of a new task: every seed, and a line through their means."""
    figure, axes = plt.subplots(figsize=(WIDTH, 3.9))
    counts = sorted({count for table in results.values() for count in table})
    for (name, table), (colour, marker, dash) in zip(results.items(), cycle(MARKS), strict=False):
        points = [(count, 100 * accuracy) for count, accuracies in table.items() for accuracy in accuracies]
        axes.plot(*zip(*points, strict=True), marker, color=colour, alpha=0.5)
        means = [100 * np.mean(accuracies) for accuracies in table.values()]
        axes.plot(list(table), means, dash, color=colour, marker=marker, ms=4, lw=2, label=name)
    axes.axhline(100 / num_classes, color=GREY, linestyle=":", linewidth=1)
    axes.text(counts[-1], 100 / num_classes, "a guess", color=GREY, ha="right", va="bottom")
    axes.set_xscale("log")
    axes.set_xticks(counts, [f"{count:,}" for count in counts])
    axes.minorticks_off()
    axes.set(ylim=(0, 103), xlabel="examples of the new classes (log scale)", ylabel="test accuracy, %", title=title)
    axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
    return figure
