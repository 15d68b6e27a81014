"""A notebook shows the package's figures sharp, small and with their words, and leaves a reader's own figures alone."""

import base64
import subprocess
import sys
from io import BytesIO

import numpy as np
import pytest
import torch
from IPython.core.formatters import DisplayFormatter
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from PIL import Image, ImageColor

from vit_tutorial import load_photo
from vit_tutorial.plotting import show_attention_stops, show_pictures, show_positions_forming
from vit_tutorial.plotting.rendering import draw, register, to_jpeg, to_png
from vit_tutorial.plotting.style import GROUND, HIGHLIGHT

PHOTO = torch.rand(1, 3, 48, 48, generator=torch.Generator().manual_seed(0))


def test_two_pixels_to_each_of_the_page_in_256_colours_with_the_words():
    figure = show_pictures(PHOTO.expand(5, -1, -1, -1), list("abcde"))
    data, shown = to_png(figure)
    image = Image.open(BytesIO(base64.b64decode(data)))
    assert image.mode == "P", "a palette: one byte per pixel"
    assert (shown["width"], shown["height"]) == (image.width // 2, image.height // 2)
    assert abs(shown["width"] - 100 * figure.get_figwidth()) < 25
    assert shown["alt"] == figure.alt != ""


@pytest.mark.parametrize("to_file", [to_png, to_jpeg])
def test_a_rare_colour_survives_among_many(to_file):
    data, _ = to_file(show_attention_stops(load_photo("grace_hopper", 224)[None], torch.rand(1, 14, 14), {"": 7}, ""))
    pixels = np.asarray(Image.open(BytesIO(base64.b64decode(data))).convert("RGB")) / 255
    assert np.abs(pixels - to_rgb(HIGHLIGHT)).max(axis=-1).min() < 0.1


def test_a_figure_that_moves_is_an_animated_png_with_a_picture_for_each_moment():
    """Each as the figure looks at that moment, although a picture holds only what changes."""
    history = dict(enumerate(torch.rand(4, 2, 3, 2, 3, generator=torch.Generator().manual_seed(0)) / 4))
    figure, again = (show_positions_forming(history, [0, 1, 2], "title") for _ in range(2))
    data, shown = to_png(figure)
    image = Image.open(BytesIO(base64.b64decode(data)))
    assert (image.format, image.n_frames, image.mode) == ("PNG", 4, "P")
    assert (shown["width"], shown["height"]) == (image.width // 2, image.height // 2)
    assert shown["alt"] == figure.alt
    milliseconds = []
    for n, drawn in enumerate(draw(again)):
        image.seek(n)
        milliseconds.append(image.info["duration"])
        found = image.convert("RGB")
        assert np.abs(np.asarray(found).astype(int) - np.asarray(drawn)).mean() < 2
        assert found.getpixel((1, 1)) == ImageColor.getrgb(GROUND)
    assert milliseconds[0] > 3 * milliseconds[1], "it rests where training ends"


def test_only_the_packages_own_figures_are_shown_so(monkeypatch):
    class Shell:
        display_formatter = DisplayFormatter()

    shown, photos = (Shell.display_formatter.formatters[kind] for kind in ("image/png", "image/jpeg"))
    shown.for_type(Figure, lambda figure: "as ever")
    monkeypatch.setattr("IPython.get_ipython", Shell)
    register()
    assert shown(Figure()) == "as ever"
    data, metadata = shown(figure := show_pictures(PHOTO, ["one"]))
    assert metadata["alt"] == figure.alt
    assert base64.b64decode(data).startswith(b"\x89PNG")
    data, metadata = photos(photo := show_pictures(load_photo("chelsea", 224)[None], ["one"]))
    assert metadata["alt"] == photo.alt
    assert base64.b64decode(data).startswith(b"\xff\xd8"), "a JPEG"
    assert shown(photo) is photos(figure) is None, "each in one kind"


def test_drawing_needs_neither_ipython_nor_pyplot():
    code = "import sys, vit_tutorial.plotting; print({'IPython', 'matplotlib.pyplot'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "set()\n"
