"""What many figures draw: panels, pictures, tables of cells, named rows, colour bars."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.image import AxesImage
from matplotlib.offsetbox import AnnotationBbox, OffsetImage
from matplotlib.patches import Rectangle
from matplotlib.patheffects import withStroke
from matplotlib.ticker import Formatter
from torch import Tensor

from . import style
from .style import Figure, Number, Pair, Panels, Patch, to_numpy

BESIDE = {"loc": "center left", "bbox_to_anchor": (1, 0.5)}  # where a legend hides nothing


def blank(width: Number, height: Number, title: str = "", **options: Any) -> Figure:
    """Return a figure of this size in inches under its title, without panels."""
    figure = Figure(figsize=(width, height), **options)
    figure.suptitle(title, x=0.01, ha="left")
    return figure


def one(width: Number, height: Number, title: str = "") -> tuple[Figure, Axes]:
    """Return a figure of this size in inches under its title, and its only panel."""
    figure = blank(width, height, title)
    return figure, figure.subplots()


def many(rows: int, columns: int, width: Number, height: Number, title: str, **options: Any) -> tuple[Figure, Panels]:
    """Return a figure of this size in inches under one title, and its panels as an array (rows, columns)."""
    figure = blank(width, height, title)
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def beside_picture(figure: Figure, image: Tensor, maps: Tensor, times: Number) -> tuple[Axes, Panels]:
    """Draw an image, `times` as wide as each of its maps (rows, columns, h, w); return its panel, and theirs."""
    rows, columns, h, w = maps.shape
    split = figure.add_gridspec(rows, 1 + columns, width_ratios=[times, *[1] * columns])
    left = figure.add_subplot(split[:, 0])
    patches(left, image, h, w)
    return left, np.array([[figure.add_subplot(split[i, 1 + j]) for j in range(columns)] for i in range(rows)])


def bare(axes: Axes, title: str = "") -> None:
    """Remove ticks and frame, as around a picture, and write the title over it."""
    axes.set(xticks=[], yticks=[])
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_title(title)


def picture(axes: Axes, image: Tensor, title: str = "", **options: Any) -> None:
    """Draw an image (C, H, W) of 1 or 3 channels: floats from 0 to 1, or uint8."""
    axes.imshow(to_numpy(image.expand(3, -1, -1).permute(1, 2, 0)), **options)
    bare(axes, title)


def patches(axes: Axes, image: Tensor, h: int, w: int, title: str = "", **options: Any) -> None:
    """Draw an image (C, H, W) so that each of its h×w patches is one unit wide and high, as in `cells`."""
    picture(axes, image, title, extent=(0, w, h, 0), **options)


def cells(axes: Axes, values: Tensor, title: str = "", limit: Number | None = None, **options: Any) -> AxesImage:
    """Draw a matrix in cells one unit wide and high, from -limit to limit if there is one, and return the image."""
    look = {"cmap": style.MAGNITUDE} if limit is None else {"cmap": style.DIVERGING, "vmin": -limit, "vmax": limit}
    image = axes.imshow(to_numpy(values), extent=(0, values.shape[1], values.shape[0], 0), **{**look, **options})
    bare(axes, title)
    return image


def numbers(axes: Axes, values: Tensor, form: str = "{:g}", dark: Tensor | None = None, **options: Any) -> None:
    """Write the values into their `cells`, in white where it is dark; nan is not written."""
    colours = np.where(np.zeros(values.shape) if dark is None else to_numpy(dark), "white", "black")
    for (row, column), value in np.ndenumerate(to_numpy(values)):
        if not np.isnan(value):
            text = Formatter.fix_minus(form.format(value))
            axes.text(column + 0.5, row + 0.5, text, color=colours[row, column], ha="center", va="center", **options)


def name_cells(axes: Axes, rows: Sequence[object] = (), columns: Sequence[object] = ()) -> None:
    """Write a name beside each row, and one under each column, of `cells` or patches."""
    axes.set_yticks(np.arange(len(rows)) + 0.5, rows)
    axes.set_xticks(np.arange(len(columns)) + 0.5, columns)


def grid(axes: Axes, ys: Sequence[Number], xs: Sequence[Number], **look: Any) -> None:
    """Draw level lines at the heights `ys`, and upright ones at `xs`."""
    axes.hlines(ys, xs[0], xs[-1], **look)
    axes.vlines(xs, ys[0], ys[-1], **look)


def patch_lines(axes: Axes, h: int, w: int) -> None:
    """Draw the grid of a picture in which a patch is one unit wide and high."""
    grid(axes, range(h + 1), range(w + 1), color="white", lw=0.6, alpha=0.6)


def highlight(axes: Axes, patch: Patch) -> None:
    """Put the yellow frame around a patch, edged in black so that it shows on any ground."""
    edge = {"path_effects": [withStroke(linewidth=4, foreground=style.BLACK)], "clip_on": False}
    axes.add_patch(Rectangle(patch[::-1], 1, 1, fill=False, ec=style.HIGHLIGHT, lw=2, **edge))


def level(axes: Axes, value: Number, text: str, x: Number, ha: str = "right") -> None:
    """Draw a dashed grey line at a height; the text above it ends at `x`, or with `ha` "left" begins there."""
    axes.axhline(value, color=style.CONTROL, lw=1, ls="--", zorder=0)
    beside(axes, text, (x, value), (0, 2), color=style.CONTROL, ha=ha, va="bottom")


def beside(axes: Axes, text: str, place: Pair, offset: Pair = (8, 0), va: str = "center", **options: Any) -> None:
    """Write a text beside a place of the axes, `offset` points to the right and up."""
    axes.annotate(text, place, offset, textcoords="offset points", va=va, **options)


def under(axes: Axes, image: Tensor, x: Number, side: Number = 28) -> None:
    """Draw an image (C, H, W) with values from 0 to 1, `side` points wide, under the numbers of the x axis."""
    numbers = 22  # points, with the gap below them
    drawn = OffsetImage(to_numpy(image.permute(1, 2, 0)), zoom=side / image.shape[2])
    look = {"xycoords": axes.get_xaxis_transform(), "boxcoords": "offset points", "frameon": False}
    axes.add_artist(AnnotationBbox(drawn, (x, 0), (0, -numbers - side / 2), **look))
    axes.xaxis.labelpad = 8 + side


def row_names(axes: Axes, names: Iterable[object]) -> None:
    """Write a name before each row, the first at the top; row n has the height n."""
    names = list(names)
    axes.set(yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.5, -0.5))
    axes.tick_params(axis="y", length=0)


def colour_bar(image: AxesImage, axes: Sequence[Axes] | Panels, label: str, **options: Any) -> None:
    """Put a colour bar beside the panels whose colours are those of the image."""
    image.get_figure().colorbar(image, ax=[*np.ravel(axes)], label=label, format="{x:g}", **options).minorticks_off()
