"""What a reader of a figure sees, panel by panel, as plain values that can be compared with what was given."""

import math

import numpy as np
import torch
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex, to_rgba
from matplotlib.legend import Legend
from matplotlib.offsetbox import AnnotationBbox
from matplotlib.patches import Rectangle
from matplotlib.text import Annotation
from matplotlib.ticker import FixedFormatter, FuncFormatter

from vit_tutorial.plotting import style

NAMES = ("ATTENTION", "MLP", "NORM", "CLASS_TOKEN", "BLACK", "TRAINED", "CONTROL", "MISTAKE", "HIGHLIGHT")
COLOURS = {getattr(style, name).lower(): name for name in NAMES} | {"#ffffff": "white"}
COLOURS |= {to_hex(tint): f"tint {number}" for number, tint in enumerate(style.TINTS)}


def plain(values):
    """Return numbers, tensors, lists and dictionaries of them as rounded Python numbers."""
    if isinstance(values, dict):
        return {plain(key): plain(value) for key, value in values.items()}
    if isinstance(values, (list, tuple)):
        return type(values)(plain(value) for value in values)
    if isinstance(values, (torch.Tensor, np.ndarray, np.generic)):
        return plain(values.tolist())
    if isinstance(values, float) and math.isnan(values):
        return "nothing"
    return round(float(values), 4) + 0.0 if isinstance(values, (int, float)) else values


def read(figure):
    """Return what is seen in each panel, each kind of thing under its key, and only what is there."""
    figure.draw_without_rendering()
    entries = {}
    for legend in figure.findobj(Legend):
        for handle, text in zip(legend.legend_handles, legend.get_texts(), strict=True):
            entries.setdefault(look(handle), []).append(text.get_text())
    named = {found: " or ".join(texts) for found, texts in entries.items()}
    found = [panel(axes, named) for axes in figure.axes]
    found[0]["below"] = figure.get_supxlabel()
    found[0]["legend"] = named
    return [{key: plain(value) for key, value in panel.items() if value} for panel in found]


def panel(axes, named):
    """Return what is seen in a panel; lines are called by their names in the legend, or by their looks."""
    seen = boxes(axes)
    found = {
        "title": axes.get_title("left") + axes.get_title("center"),
        "x": axes.get_xlabel(),
        "y": axes.get_ylabel(),
        "columns": written(axes.xaxis),
        "rows": written(axes.yaxis),
        "logarithmic": " ".join(axis.axis_name for axis in (axes.xaxis, axes.yaxis) if "log" in axis.get_scale()),
        "words": {place(text): text.get_text() for text in axes.texts if text.get_text()},
        "bold": [text.get_text() for text in axes.texts if text.get_weight() == "bold"],
        "boxed": {place(text): edge(text) for text in axes.texts if edge(text)},
        "images": [as_seen(image) for image in axes.images],
        "counted upwards": bool(axes.images) and not axes.yaxis_inverted(),  # places in it, from its lowest row
        "counted leftwards": axes.xaxis_inverted(),
        "scale": [scale(image) for image in axes.images if image.get_array().ndim == 2],
        "frames": [box[:2] for box in seen if box[-1] == "HIGHLIGHT"],
        "tints": {(box[1] + 0.5, box[0] + 0.5): box[-1] for box in seen if is_tinted_cell(box)},
        "boxes": [box for box in seen if box[-1] != "HIGHLIGHT" and not is_tinted_cell(box)],
        "segments": segments(axes),
        "under": {box.xy[0]: box.offsetbox.get_data() for box in axes.findobj(AnnotationBbox)},
        "lines": {},
    }
    for line in axes.lines:
        points = found["lines"].setdefault(named.get(look(line), look(line)), [])
        on_screen = line.get_transform().transform(line.get_xydata())
        for point, (x, y) in zip(plain(line.get_xydata()), on_screen, strict=True):
            hidden = not (axes.bbox.padded(1).contains(x, y) or "nothing" in point)
            points.append("out of sight" if hidden else tuple(point))
    return found


def as_seen(image):
    """Return an image's pixels from the top left as it is seen, whichever way its axes run; -99 is not drawn."""
    left, right, bottom, top = image.get_extent()
    (x0, y0), (x1, y1) = image.axes.transData.transform([(left, bottom), (right, top)])
    pixels = np.ma.filled(image.get_array(), -99)
    first_row_on_top = (y1 > y0) == (image.origin == "upper")
    return pixels[:: 1 if first_row_on_top else -1, :: 1 if x1 > x0 else -1]


def boxes(axes):
    """Return row, column, height, width and colour of each box: the colour inside, or else that of its edge."""
    found = [box for box in axes.patches if isinstance(box, Rectangle)]
    colours = [colour(box.get_facecolor() if box.get_fill() else box.get_edgecolor()) for box in found]
    colours = [" ".join(filter(None, [name, box.get_hatch()])) for name, box in zip(colours, found, strict=True)]
    places = [(box.get_y(), box.get_x(), box.get_height(), box.get_width()) for box in found]
    return [(*plain(spot), name) for spot, name in zip(places, colours, strict=True)]


def is_tinted_cell(box):
    return box[-1].startswith("tint") and box[2:4] == (1, 1)


def segments(axes):
    """Return the two ends of each straight line that is no curve, (x, y) and (x, y), by colour."""
    found = {}
    for lines in axes.collections:
        if isinstance(lines, LineCollection) and lines.get_segments():
            ends = [[*map(tuple, plain(line))] for line in lines.get_segments()]
            found.setdefault(colour(lines.get_colors()[0]), []).extend(ends)
    return found


def written(axis):
    """Return the labels that were written at places of an axis (not the numbers that matplotlib chose)."""
    if not isinstance(axis.get_major_formatter(), (FixedFormatter, FuncFormatter)):
        return {}
    labels = [(label, tick.get_loc()) for tick in axis.get_major_ticks() for label in (tick.label1, tick.label2)]
    return {label.get_text(): spot for label, spot in labels if label.get_visible() and label.get_text()}


def place(text):
    return plain(text.xy if isinstance(text, Annotation) else text.get_position())


def edge(text):
    """Return the colour of the frame around a text, or nothing."""
    box = text.get_bbox_patch()
    return colour(box.get_edgecolor()) if box and box.get_linewidth() else ""


def scale(image):
    """Say how an image's colours are chosen: the map, from where to where, and what stands in the middle of it."""
    norm, colours = image.norm, image.get_cmap()
    name = " ".join(map(colour, colours.colors)) if colours.N < 9 else colours.name
    return name, norm.vmin, norm.vmax, norm.inverse(0.5)


def look(drawn):
    """Say what a line or a box looks like, with the package's names of its colours."""
    if not hasattr(drawn, "get_marker"):
        return colour(drawn.get_facecolor())
    parts = [colour(drawn.get_color())]
    if str(drawn.get_marker()) not in ("None", ""):
        parts = [colour(drawn.get_markerfacecolor()), colour(drawn.get_markeredgecolor()), drawn.get_marker()]
    return " ".join(map(str, dict.fromkeys([*parts, drawn.get_linestyle().replace("None", "")]))).strip()


def colour(value):
    if str(value) == "none" or to_rgba(value)[3] == 0:
        return "empty"
    return COLOURS.get(to_hex(value), to_hex(value))
