"""How a notebook shows a figure: sharp on today's screens, small in the file, with its alternative text."""

from __future__ import annotations

import base64
import io
import sys
from collections.abc import Sequence

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
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
    small = io.BytesIO()
    if figure.moments:
        image, *changes = in_one_palette(draw_moments(figure))
        durations = [FIRST] + [EACH] * len(changes)
        moving = {"save_all": True, "append_images": changes, "duration": durations, "blend": Blend.OP_OVER}
        image.save(small, format="png", **moving)
    else:
        options = {"dpi": 2 * figure.dpi, "bbox_inches": "tight", "pil_kwargs": {"compress_level": 0}}
        figure.savefig(drawn := io.BytesIO(), format="png", **options)
        image = with_palette(Image.open(drawn).convert("RGB"))
        image.save(small, format="png", optimize=True)
    size = {"width": image.width // 2, "height": image.height // 2}
    return base64.b64encode(small.getvalue()).decode(), {**size, "alt": figure.alt}


def draw_moments(figure: Figure) -> list[Image.Image]:
    """Return an image in RGB for each of the figure's moments, all laid out in the same way.

    Drawn on a canvas, since `savefig` would draw each twice.
    """
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    figure.set_dpi(2 * figure.dpi)
    canvas, images = FigureCanvasAgg(figure), []
    for change in figure.moments:
        change()
        canvas.draw()
        images.append(Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB"))
    figure.set_dpi(figure.dpi / 2)
    return images


def in_one_palette(images: Sequence[Image.Image]) -> list[Image.Image]:
    """Return the first image with one byte per pixel, and of the others what changes; the rest is transparent."""
    some = [np.asarray(image)[::2, ::2] for image in images[:: max(1, len(images) // 5)]]
    palette = with_palette(Image.fromarray(np.concatenate(some)), TRANSPARENT)
    found, before, page = [], None, palette.getpixel((0, 0))
    for image in images:
        pixels, near = np.asarray(image), image.quantize(palette=palette, dither=Image.Dither.NONE)
        after = np.where((pixels == pixels[0, 0]).all(axis=2), np.uint8(page), near)  # Pillow's nearest is a rough one
        found.append(Image.fromarray(np.where(after == before, np.uint8(TRANSPARENT), after)))
        found[-1].putpalette((palette.getpalette() + 256 * [0, 0, 0])[: 3 * 256])
        found[-1].info["transparency"] = TRANSPARENT
        before = after
    return found


def with_palette(image: Image.Image, colours: int = 256) -> Image.Image:
    """Return an RGB image with one byte per pixel, in which rare colours survive: a thin line over a photo, say.

    The colour of the first corner, the page's white, is kept exactly: an average with pale colours would show as a box.
    """
    found = image.quantize(colours, method=Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
    palette, page = found.getpalette(), 3 * found.getpixel((0, 0))
    found.putpalette(palette[:page] + list(image.getpixel((0, 0))) + palette[page + 3 :])
    return found


def register() -> None:
    """Show the package's figures by `to_png` if this runs in a notebook; a reader's own figures stay as they are."""
    if "IPython" in sys.modules and (shell := sys.modules["IPython"].get_ipython()):
        shell.display_formatter.formatters["image/png"].for_type(Figure, to_png)
