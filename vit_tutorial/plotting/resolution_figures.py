"""A model at another size, its positions resized, and what a size costs before and after fine-tuning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jaxtyping import Float, UInt8
from torch import Tensor

from . import panels, style
from .alt_text import describe, listed, span
from .style import WIDTH, Figure, styled


@styled
def show_sizes(pictures: Mapping[str, UInt8[Tensor, "3 H W"]], patch_size: int, title: str) -> Figure:
    """Draw pictures of several sizes side by side, all pixels equally large, with the grid of their patches."""
    heights, widths = zip(*(picture.shape[1:] for picture in pictures.values()), strict=True)
    height = max(heights) * WIDTH / (sum(widths) + 6 * len(widths)) + 0.9
    figure, (row,) = panels.panels(1, len(pictures), WIDTH, height, title, width_ratios=widths)
    told = []
    for axes, (name, picture) in zip(row, pictures.items(), strict=True):
        H, W = picture.shape[1:]
        panels.picture(axes, picture, name, extent=(0, W, H, 0))
        axes.hlines(range(0, H + 1, patch_size), 0, W, color="white", lw=0.8)
        axes.vlines(range(0, W + 1, patch_size), 0, H, color="white", lw=0.8)
        axes.set(xlim=(0, W), ylim=(max(heights), 0))
        told.append(f"{name} pixels, {H // patch_size}×{W // patch_size} patches")
    return describe(figure, f"{len(pictures)} pictures: {listed(told)}.")


@styled
def show_row(old: Sequence[float], new: Mapping[str, Sequence[float]], title: str) -> Figure:
    """Draw a row of values at the centres of its cells, and what it becomes in rows of other lengths.

    All rows are as long as the picture, from 0 to 1; straight lines join the old values and go on level at both ends.
    """
    figure, axes = panels.panel(0.85 * WIDTH, 3.0, title)
    axes.plot([0, *centres(old), 1], [old[0], *old, old[-1]], color=style.CONTROL, lw=1.5, zorder=1)
    axes.plot(centres(old), old, "s", color=style.BLACK, ms=11, label=f"{len(old)} old values", zorder=2)
    for name, (colour, marker, _) in style.looks(new).items():
        axes.plot(centres(new[name]), new[name], marker, color=colour, ms=8, label=name, zorder=3)
        for point in zip(centres(new[name]), new[name], strict=True):
            axes.annotate(f"{point[1]:g}", point, (0, 9), textcoords="offset points", ha="center", color=colour)
    axes.set(xlim=(0, 1), xlabel="place in the picture, from its left edge to its right edge", ylabel="value")
    axes.margins(y=0.25)
    axes.legend(loc="upper left")
    rows = [f"{name}: {', '.join(f'{value:g}' for value in values)}" for name, values in {"old": old, **new}.items()]
    return describe(figure, f"A row of values before and after: {'; '.join(rows)}.")


def centres(cells: Sequence[float]) -> list[float]:
    """Return where the centres of equal cells lie, from 0 to 1."""
    return [(index + 0.5) / len(cells) for index in range(len(cells))]


@styled
def show_channels(channels: Mapping[str, Float[Tensor, "h w"]], title: str) -> Figure:
    """Draw one value of each position vector, as a picture of its grid; all panels on one scale around zero."""
    limit = max(channel.abs().max().item() for channel in channels.values())
    figure, (row,) = panels.panels(1, len(channels), WIDTH, 0.9 + 0.9 * WIDTH / len(channels), title)
    for axes, (name, channel) in zip(row, channels.items(), strict=True):
        image = panels.diverging(axes, channel, limit)
        panels.bare(axes, name)
    panels.colour_bar(figure, image, row, "value", shrink=0.8)
    return describe(figure, f"One value over the grid: {listed(f'{name}, {span(c)}' for name, c in channels.items())}.")


@styled
def show_before_after(
    results: Mapping[str, Mapping[str, tuple[Sequence[float], Sequence[float]]]], num_classes: int, title: str
) -> Figure:
    """Draw the accuracies (from 0 to 1) of the seeds before training, hollow, and after, filled: one panel per size.

    `results[size][way]` is (before, after); `before` may be empty.
    """
    rows = [len(ways) for ways in results.values()]
    height, ratios = 1.3 + sum(0.42 * count + 0.35 for count in rows), [count + 0.6 for count in rows]
    figure, column = panels.panels(len(results), 1, WIDTH, height, title, sharex=True, height_ratios=ratios)
    hollow = {"mec": style.BLACK, "mfc": "none", "mew": 1.3, "zorder": 3}  # above the filled, where both are alike
    filled = {"color": style.TRAINED, "mec": "none", "alpha": 0.6}
    arrow = {"arrowstyle": "->", "color": style.CONTROL, "shrinkA": 6, "shrinkB": 6}
    told = []
    for axes, (size, ways) in zip(column[:, 0], results.items(), strict=True):
        for row, (way, (before, after)) in enumerate(ways.items()):
            if before and max(before) < min(after):
                axes.annotate("", (100 * min(after), row), (100 * max(before), row), arrowprops=arrow)
            for values, look in ((before, hollow), (after, filled)):
                axes.plot([100 * value for value in values], [row] * len(values), "o", ms=9, **look)
            means = [f"{100 * sum(values) / len(values):.1f} %" for values in (before, after) if values]
            told.append(f"{size}, {way}: {' then '.join(means)}")
        panels.accuracy_rows(axes, ways)
        axes.set(xlim=(0, 102))
        axes.axvline(100 / num_classes, color=style.CONTROL, linestyle=":", linewidth=1)
        axes.set_title(size, fontsize=11)
    axes.set_xlabel("test accuracy, % (hollow: before training, filled: after; dotted: a guess)")
    return describe(figure, f"Mean test accuracy. {'; '.join(told)}.")
