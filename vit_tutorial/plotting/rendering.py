"""How a notebook shows a figure: sharp on today's screens, small in the file, with its alternative text."""

import base64
import io
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import Blend

from .style import Figure, styled

TRANSPARENT = 255  # the last place in a palette


def has_photo(figure: Figure) -> bool:
    """Return whether a picture in the figure has more pixels than a drawing: its colours do not fit a palette."""
    shown = [image.get_array().shape for axes in figure.axes for image in axes.images]
    return any(len(shape) == 3 and min(shape[:2]) > 100 for shape in shown)


@styled
def to_jpeg(figure: Figure) -> tuple[str, dict[str, int | str]]:
    """Return what `to_png` does, but as JPEG: a photo takes half the space, and its colours stay smooth."""
    (image,) = draw(figure)
    return encoded(image, figure, format="jpeg", quality=60, progressive=True)


@styled
def to_png(figure: Figure) -> tuple[str, dict[str, int | str]]:
    """Return the figure as PNG in base64 with two pixels to a point of the page, and its size and alternative text.

    One that moves is an animated PNG: a GIF would be missing from nbconvert's page, and nbval would compare it as text.
    """
    first, *changes = in_one_palette(draw(figure))
    moving = {"save_all": True, "append_images": changes, "duration": [1000] + [250] * len(changes)}  # milliseconds
    return encoded(first, figure, format="png", blend=Blend.OP_OVER, **moving)


def encoded(image: Image.Image, figure: Figure, **options: Any) -> tuple[str, dict[str, int | str]]:
    """Return an image's file in base64, and what a notebook's page is told of it."""
    small, about = io.BytesIO(), {"width": image.width // 2, "height": image.height // 2, "alt": figure.alt}
    image.save(small, optimize=True, **options)
    return base64.b64encode(small.getvalue()).decode(), about


def draw(figure: Figure) -> list[Image.Image]:
    """Return an image in RGB for each moment, with two pixels to a point of the page, all laid out alike."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    options = {"bbox_inches": figure.get_tightbbox().padded(0.15), "pil_kwargs": {"compress_level": 0}}
    images = []
    for change in figure.moments:
        change()
        drawn = io.BytesIO()
        figure.savefig(drawn, format="png", dpi=2 * figure.dpi, **options)
        images.append(Image.open(drawn).convert("RGB"))
    figure.moments[0]()  # as it was
    return images


def in_one_palette(images: Sequence[Image.Image]) -> list[Image.Image]:
    """Put images of one size in one palette: the first whole, of the others what changes, the rest transparent."""
    stacked = with_palette(Image.fromarray(np.concatenate(images)), TRANSPARENT)
    pixels = np.split(np.asarray(stacked), len(images))
    changes = [np.where(after == before, np.uint8(TRANSPARENT), after) for before, after in pairwise(pixels)]
    found = [Image.fromarray(each) for each in (pixels[0], *changes)]
    for image in found:
        image.putpalette((stacked.getpalette() + 256 * [0, 0, 0])[: 3 * 256])
        image.info["transparency"] = TRANSPARENT
    return found


def with_palette(image: Image.Image, colours: int = 256) -> Image.Image:
    """Return an RGB image with one byte per pixel, in which rare colours survive, such as a thin line.

    The palette is made from every third pixel of every third row, to be fast. A corner, the page's white, stays exact.
    """
    some = image.resize((image.width // 3, image.height // 3), Image.Resampling.NEAREST)
    palette = some.quantize(colours, method=Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
    found = image.quantize(palette=palette, dither=Image.Dither.NONE)
    table, white = np.reshape(found.getpalette(), (-1, 3)), found.getpixel((0, 0))
    table[white] = image.getpixel((0, 0))
    found.putpalette(table.flatten().tolist())
    return found


def register() -> None:
    """Show the package's figures so, if this runs in a notebook; a reader's own figures stay as they are."""
    if "IPython" in sys.modules and (shell := sys.modules["IPython"].get_ipython()):
        formatters = shell.display_formatter.formatters
        formatters["image/png"].for_type(Figure, lambda figure: None if has_photo(figure) else to_png(figure))
        formatters["image/jpeg"].for_type(Figure, lambda figure: to_jpeg(figure) if has_photo(figure) else None)
