"""How a notebook shows a figure: sharp on today's screens, small in the file, with its alternative text."""

from __future__ import annotations

import base64
import io
import sys

from PIL import Image

from .style import Figure, styled


@styled
def to_png(figure: Figure) -> tuple[str, dict[str, int | str]]:
    """Return the figure as PNG in base64 with two pixels to a point of the page, and its size and alternative text."""
    drawn, small = io.BytesIO(), io.BytesIO()
    look = {"dpi": 2 * figure.dpi, "bbox_inches": "tight", "pil_kwargs": {"compress_level": 0}}  # read at once
    figure.savefig(drawn, format="png", **look)
    image = Image.open(drawn).convert("RGB")
    with_palette(image).save(small, format="png", optimize=True)
    size = {"width": image.width // 2, "height": image.height // 2}
    return base64.b64encode(small.getvalue()).decode(), {**size, "alt": figure.alt}


def with_palette(image: Image.Image, colours: int = 256) -> Image.Image:
    """Return an RGB image with one byte per pixel, in which rare colours survive: a thin line over a photo, say."""
    return image.quantize(colours, method=Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)


def register() -> None:
    """Show the package's figures by `to_png` if this runs in a notebook; a reader's own figures stay as they are."""
    if "IPython" in sys.modules and (shell := sys.modules["IPython"].get_ipython()):
        shell.display_formatter.formatters["image/png"].for_type(Figure, to_png)
