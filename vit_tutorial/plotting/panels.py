"""What many figures draw: panels, pictures, lines with their look, colour bars."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.image import AxesImage
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from torch import Tensor

from .style import BLACK, CONTROL, DIVERGING, HIGHLIGHT, MAGNITUDE, Figure, Number, to_numpy

BESIDE = {"loc": "center left", "bbox_to_anchor": (1, 0.5)}  # where a legend hides nothing


def panel(width: Number, height: Number, title: str = "") -> tuple[Figure, Axes]:
    """Return a figure of this size in inches, and its only panel."""
    figure = blank(width, height)
    return figure, figure.add_subplot(title=title)


def blank(width: Number, height: Number, title: str = "", **options: Any) -> Figure:
    """Return a figure of this size in inches under its title, without panels."""
    figure = Figure(figsize=(width, height), **options)
    if title:
        figure.suptitle(title, x=0.01, ha="left")
    return figure


def panels(rows: int, columns: int, width: Number, height: Number, title: str = "", **options: Any) -> tuple:
    """Return a figure of this size in inches under one title, and its panels as an array (rows, columns)."""
    figure = blank(width, height, title)
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def bare(axes: Axes, title: str | None = None, **options: Any) -> None:
    """Remove ticks and frame, as around a picture, and write the title over it."""
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    if title is not None:
        axes.set_title(title, **{"fontsize": 11, **options})


def picture(axes: Axes, image: Tensor, title: str | None = None, **options: Any) -> None:
    """Draw an image (C, H, W) of 1 or 3 channels: floats from 0 to 1, or uint8."""
    axes.imshow(to_numpy(image.expand(3, -1, -1).permute(1, 2, 0)), **options)
    bare(axes, title)


def patches(axes: Axes, image: Tensor, h: int, w: int, title: str | None = None) -> None:
    """Draw an image (C, H, W) so that each of its h×w patches is one unit wide and high."""
    picture(axes, image, title, extent=(0, w, h, 0))


def patch_values(axes: Axes, values: Tensor, **options: Any) -> AxesImage:
    """Draw one value for each patch (h, w), on the same units as `patches`; return the image."""
    h, w = values.shape
    return axes.imshow(to_numpy(values), extent=(0, w, h, 0), **{"cmap": MAGNITUDE, **options})


def highlight(axes: Axes, patch: tuple[int, int]) -> None:
    """Put the yellow frame around a patch (row, column), edged in black so that it shows on any ground."""
    row, column = patch
    edge = {"path_effects": [withStroke(linewidth=4, foreground=BLACK)], "clip_on": False}
    axes.add_patch(Rectangle((column, row), 1, 1, fill=False, ec=HIGHLIGHT, lw=2, **edge))


def patch_lines(axes: Axes, h: int, w: int) -> None:
    """Draw the lines between the patches of a picture in which a patch is one unit wide and high."""
    look = {"color": "white", "lw": 0.6, "alpha": 0.6}
    axes.vlines(range(1, w), 0, h, **look)
    axes.hlines(range(1, h), 0, w, **look)


def number_patches(axes: Axes, h: int, w: int) -> None:
    """Number the rows and columns of a picture or map in which a patch is one unit wide and high."""
    axes.set_xticks(np.arange(w) + 0.5, range(w))
    axes.set_yticks(np.arange(h) + 0.5, range(h))
    axes.tick_params(length=0)


def values_in_cells(axes: Axes, table: Tensor, limit: Number) -> None:
    """Write the values of at least a tenth of `limit` into a map whose cells are one unit wide."""
    for row, column in (table.abs() >= limit / 10).nonzero().tolist():
        value = table[row, column].item()
        colour = "white" if abs(value) > limit / 2 else BLACK
        axes.text(column + 0.5, row + 0.5, f"{value:+.1f}", fontsize=10, ha="center", va="center", color=colour)


def diverging(axes: Axes, table: Tensor, limit: Number, **options: Any) -> AxesImage:
    """Draw a matrix in colours around zero, from -limit to limit; return the image."""
    return axes.imshow(to_numpy(table), cmap=DIVERGING, vmin=-limit, vmax=limit, **options)


def texts(axes: Axes, words: np.ndarray, dark: np.ndarray | bool = False, fontsize: Number = 10) -> None:
    """Write one text into each cell of a matrix drawn by `imshow`, in white where the cell is dark."""
    colours = np.where(np.broadcast_to(dark, words.shape), "white", "black")
    for (row, column), text in np.ndenumerate(words):
        axes.text(column, row, text, ha="center", va="center", color=colours[row, column], fontsize=fontsize)


def level(axes: Axes, value: Number, text: str, x: Number, ha: str = "right") -> None:
    """Draw a dashed grey line at a height, with a text that ends above it at `x`."""
    axes.axhline(value, color=CONTROL, lw=1, ls="--", zorder=0)
    place = {"color": CONTROL, "ha": ha, "va": "bottom", "fontsize": 10}
    axes.annotate(text, (x, value), (0, 2), textcoords="offset points", **place)


def zero(axes: Axes, vertical: bool = False) -> None:
    """Draw the thin grey line of zero."""
    (axes.axvline if vertical else axes.axhline)(0, color=CONTROL, lw=0.8, zorder=0)


def row_names(axes: Axes, names: Iterable[str]) -> None:
    """Write a name before each row, the first at the top."""
    names = list(names)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)


def colour_bar(
    figure: Figure, image, axes, label: str, ticks: Mapping[Number, str] | None = None, **options: Any
) -> None:
    """Put a colour bar beside one panel or several; `ticks` maps values to their labels."""
    bar = figure.colorbar(image, ax=list(np.ravel(axes)), label=label, **options)
    if ticks:
        bar.set_ticks(list(ticks), labels=list(ticks.values()))
        bar.minorticks_off()
