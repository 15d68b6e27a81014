"""A photo as a tensor: the one that matplotlib ships, and a reader's own."""

import pytest
import torch
from PIL import Image

from vit_tutorial import load_photo
from vit_tutorial.data import load_outline

RED, BLUE = (255, 0, 0), (0, 0, 255)


def save(path, picture: Image.Image, **options):
    picture.save(path, **options)
    return path


def plain(*colour, mode="RGB") -> Image.Image:
    return Image.new(mode, (16, 16), colour if len(colour) > 1 else colour[0])


def halves(left: tuple, right: tuple) -> Image.Image:
    """A picture of two colours side by side, 20 pixels high; Pillow's sizes are (width, height)."""
    picture = Image.new("RGB", (40, 20), left)
    picture.paste(right, (20, 0, 40, 20))
    return picture


@pytest.mark.parametrize("name", ["grace_hopper", "eileen_collins", "chelsea"])
def test_the_photos_that_come_with_matplotlib_and_with_the_package(name):
    photo = load_photo(name)
    assert (photo.shape, photo.dtype) == ((3, 224, 224), torch.float32)
    assert 0 <= photo.min() < 0.1
    assert 0.8 < photo.max() <= 1
    assert torch.equal(photo, load_photo(name, size=(224, 224)))
    assert load_photo(size=(6, 10)).shape == (3, 6, 10), "height and width"


@pytest.mark.parametrize(
    ("name", "on_her", "beside_her"),
    [
        ("grace_hopper", [(14, 18), (3, 18), (33, 8)], [(5, 3), (12, 33), (20, 4)]),  # cheek, cap, shoulder; sky, flag
        ("eileen_collins", [(9, 16), (20, 10), (31, 29)], [(8, 28), (21, 31), (24, 1)]),  # face, suit, helmet; shuttle
    ],
)
def test_each_outline_lies_on_its_photo(name, on_her, beside_her):
    for size in (518, 74):
        inside, step = load_outline(size, name), size / 37
        assert (inside.shape, inside.dtype) == ((size, size), torch.bool)
        assert all(inside[int(step * row), int(step * column)] for row, column in on_her)
        assert not any(inside[int(step * row), int(step * column)] for row, column in beside_her)


@pytest.mark.parametrize(
    ("orientation", "size", "red", "blue"),
    [(1, (20, 40), (10, 5), (10, 35)), (6, (40, 20), (5, 10), (35, 10))],
    ids=["as it is", "a telephone's photo: lies on its side, with a note how to turn it"],
)
def test_colours_and_sides_are_where_they_were(orientation, size, red, blue, tmp_path):
    exif = Image.Exif()
    exif[0x0112] = orientation
    photo = load_photo(str(save(tmp_path / "photo.png", halves(RED, BLUE), exif=exif)), size)
    assert photo[:, red[0], red[1]].tolist() == [1, 0, 0]
    assert photo[:, blue[0], blue[1]].tolist() == [0, 0, 1]


def test_what_does_not_fit_is_cropped_around_the_centre_not_squeezed(tmp_path):
    """A picture of three squares side by side: a square photo is the one in the centre."""
    picture = Image.new("RGB", (60, 20), (255, 255, 255))
    picture.paste((0, 255, 0), (20, 0, 40, 20))
    photo = load_photo(save(tmp_path / "photo.png", picture), size=20)
    assert photo[:, :, 2:-2].flatten(1).unique(dim=1).tolist() == [[0], [1], [0]]


# How a picture is stored, and the colour that it then has.
STORED = {
    "grey": ("tif", plain(51, mode="L"), {}, (0.2, 0.2, 0.2)),
    "palette": ("png", plain(*RED).quantize(4), {}, (1, 0, 0)),
    "CMYK": ("tif", plain(0, 255, 255, 0, mode="CMYK"), {}, (1, 0, 0)),
    "transparent": ("png", plain(255, 0, 0, 0, mode="RGBA"), {}, (1, 1, 1)),
    "transparent in the palette": ("png", plain(*RED).quantize(4), {"transparency": 0}, (1, 1, 1)),
    "transparent by its colour": ("png", plain(1, 2, 3), {"transparency": (1, 2, 3)}, (1, 1, 1)),
    "half transparent": ("png", plain(255, 0, 0, 51, mode="RGBA"), {}, (1, 0.8, 0.8)),
    "with broken notes": ("png", plain(*RED), {"exif": b"Exif\0\0nothing here"}, (1, 0, 0)),
}


@pytest.mark.parametrize("case", STORED)
def test_every_kind_of_picture_becomes_red_green_and_blue_on_white(case, tmp_path):
    ending, picture, options, colour = STORED[case]
    photo = load_photo(save(tmp_path / f"photo.{ending}", picture, **options), size=8)
    assert photo.shape == (3, 8, 8)
    assert photo[:, 4, 4].tolist() == pytest.approx(colour, abs=0.005)


def cut_off(path) -> None:
    path.write_bytes(save(path, halves(RED, BLUE)).read_bytes()[:60])


# A program, which Pillow would open by its content and hand to Ghostscript.
POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n"

# A file that cannot be read, and the reason that the message shows.
UNREADABLE = {
    "commands": (lambda path: path.write_bytes(POSTSCRIPT), "none of JPEG, PNG"),
    "cut off": (cut_off, "truncated"),
    "16 bits": (lambda path: plain(40_000, mode="I;16").save(path), "more than 8 bits a pixel, Pillow's mode I;16"),
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_a_file_that_cannot_be_read_is_named_in_one_error(case, tmp_path):
    make, reason = UNREADABLE[case]
    make(tmp_path / "photo.png")
    with pytest.raises(ValueError, match=r"no picture that can be read: .*photo\.png \(") as caught:
        load_photo(tmp_path / "photo.png")
    assert reason in str(caught.value)
    assert caught.value.__context__ is None
