"""How a notebook shows a figure: sharp on today's screens, small in the file, with its alternative text."""

from __future__ import annotations

import base64
import io
import sys
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import Blend

from .style import Figure, styled

FIRST, EACH = 1000, 250  # milliseconds, for the pictures of a figure that moves
TRANSPARENT = 255  # the last place in a palette


@styled
def to_png(figure: Figure) -> tuple[str, dict[str, int | str]]:
    """Return the figure as PNG in base64 with two pixels to a point of the page, and its size and alternative text.

    One with `moments` is an animated PNG, which browsers play over and over; elsewhere its first picture stands still.
    (As a GIF it would be missing from a page made by nbconvert, and nbval would compare it as text.)
    """
    if figure.moments:
        image, *changes = in_one_palette(draw_moments(figure))
        durations = [FIRST] + [EACH] * len(changes)
        moving = {"save_all": True, "append_images": changes, "duration": durations, "blend": Blend.OP_OVER}
    else:
        image, moving = with_palette(draw(figure, bbox_inches="tight")), {}
    image.save(small := io.BytesIO(), format="png", optimize=True, **moving)
    size = {"width": image.width // 2, "height": image.height // 2}
    return base64.b64encode(small.getvalue()).decode(), {**size, "alt": figure.alt}


def draw(figure: Figure, **options: str) -> Image.Image:
    """Return the figure as an image in RGB with two pixels to a point of the page."""
    figure.savefig(drawn := io.BytesIO(), format="png", dpi=2 * figure.dpi, pil_kwargs={"compress_level": 0}, **options)
    return Image.open(drawn).convert("RGB")


def draw_moments(figure: Figure) -> list[Image.Image]:
    """Return an image in RGB for each of the figure's moments, all laid out in the same way."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    images = []
    for change in figure.moments:
        change()
        images.append(draw(figure))
    return images


def in_one_palette(images: Sequence[Image.Image]) -> list[Image.Image]:
    """Return images of one size in one palette: the first, and of each other what changes; the rest is transparent."""
    column = with_palette(Image.fromarray(np.concatenate(images)), TRANSPARENT)
    pixels = np.split(np.asarray(column), len(images))
    changes = [np.where(after == before, np.uint8(TRANSPARENT), after) for before, after in pairwise(pixels)]
    found = [Image.fromarray(each) for each in (pixels[0], *changes)]
    for image in found:
        image.putpalette((column.getpalette() + 256 * [0, 0, 0])[: 3 * 256])
        image.info["transparency"] = TRANSPARENT
    return found


def with_palette(image: Image.Image, colours: int = 256) -> Image.Image:
    """Return an RGB image with one byte per pixel, in which rare colours survive: a thin line over a photo, say.

    The palette is made from every third pixel of every third row: from all of them it would be no better, and take
    seconds. The colour of the first corner, the page's white, is kept exactly: an average with pale colours would show
    as a box.
    """
    some = image.resize((image.width // 3, image.height // 3), Image.Resampling.NEAREST)
    palette = some.quantize(colours, method=Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
    found = image.quantize(palette=palette, dither=Image.Dither.NONE)
    colours_of, page = found.getpalette(), 3 * found.getpixel((0, 0))
    found.putpalette(colours_of[:page] + list(image.getpixel((0, 0))) + colours_of[page + 3 :])
    return found


def register() -> None:
    """Show the package's figures by `to_png` if this runs in a notebook; a reader's own figures stay as they are."""
    if "IPython" in sys.modules and (shell := sys.modules["IPython"].get_ipython()):
        shell.display_formatter.formatters["image/png"].for_type(Figure, to_png)
