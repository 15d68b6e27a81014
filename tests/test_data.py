"""A photo as a tensor: the one that matplotlib ships, and a reader's own."""

import os
import subprocess
import zlib

import pytest
import torch
from PIL import Image, PngImagePlugin

from vit_tutorial import load_photo


def test_the_photo_that_comes_with_matplotlib():
    photo = load_photo()
    assert (photo.shape, photo.dtype) == ((3, 224, 224), torch.float32)
    assert 0 <= photo.min() < 0.1
    assert 0.9 < photo.max() <= 1
    assert torch.equal(photo, load_photo("grace_hopper", size=(224, 224)))


def save(path, picture: Image.Image, **options):
    picture.save(path, **options)
    return path


def halves(left: tuple, right: tuple, size: tuple[int, int] = (40, 20)) -> Image.Image:
    """A picture of two colours side by side; Pillow's sizes are (width, height)."""
    picture = Image.new("RGB", size, left)
    picture.paste(right, (size[0] // 2, 0, size[0], size[1]))
    return picture


@pytest.mark.parametrize("size", [8, (6, 10), (10, 6)])
def test_size_is_height_and_width(size, tmp_path):
    path = save(tmp_path / "photo.png", halves((255, 0, 0), (0, 0, 255)))
    height, width = size if isinstance(size, tuple) else (size, size)
    assert load_photo(path, size).shape == (3, height, width)


def test_colours_and_sides_are_where_they_were(tmp_path):
    photo = load_photo(str(save(tmp_path / "photo.png", halves((255, 0, 0), (0, 0, 255)))), size=(20, 40))
    assert photo[:, 10, 5].tolist() == [1, 0, 0]
    assert photo[:, 10, 35].tolist() == [0, 0, 1]


def test_what_does_not_fit_is_cropped_from_the_middle_not_squeezed(tmp_path):
    """A picture of three squares side by side: a square photo is the middle one."""
    picture = Image.new("RGB", (60, 20), (255, 255, 255))
    picture.paste((0, 255, 0), (20, 0, 40, 20))
    photo = load_photo(save(tmp_path / "photo.png", picture), size=20)
    assert photo[:, :, 2:-2].flatten(1).unique(dim=1).tolist() == [[0], [1], [0]]


@pytest.mark.parametrize(
    ("mode", "colour"), [("L", 51), ("RGBA", (51, 51, 51, 255)), ("1", 1), ("P", 3), ("CMYK", (0, 0, 0, 0))]
)
def test_every_kind_of_picture_becomes_three_channels(mode, colour, tmp_path):
    path = save(tmp_path / "photo.tif", Image.new(mode, (16, 16), colour))
    assert load_photo(path, size=8).shape == (3, 8, 8)


def test_a_telephones_photo_stands_upright(tmp_path):
    """Its pixels lie on their side, and a note in the file says how to turn them."""
    exif = Image.Exif()
    exif[0x0112] = 6  # orientation: to be turned a quarter to the right
    path = save(tmp_path / "photo.png", halves((255, 0, 0), (0, 0, 255)), exif=exif)
    photo = load_photo(path, size=(40, 20))
    assert photo[:, 5, 10].tolist() == [1, 0, 0], "left becomes top"
    assert photo[:, 35, 10].tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    ("picture", "options"),
    [
        (Image.new("RGBA", (16, 16), (255, 0, 0, 0)), {}),
        (Image.new("LA", (16, 16), (0, 0)), {}),
        (Image.new("RGB", (16, 16), (255, 0, 0)).quantize(4), {"transparency": 0}),
        (Image.new("RGB", (16, 16), (1, 2, 3)), {"transparency": (1, 2, 3)}),
    ],
    ids=lambda value: value.mode if isinstance(value, Image.Image) else "",
)
def test_what_is_transparent_becomes_white(picture, options, tmp_path):
    assert load_photo(save(tmp_path / "photo.png", picture, **options), size=8).eq(1).all()


def test_half_transparent_lets_half_of_the_white_through(tmp_path):
    path = save(tmp_path / "photo.png", Image.new("RGBA", (16, 16), (255, 0, 0, 51)))
    assert load_photo(path, size=8)[:, 4, 4].tolist() == pytest.approx([1, 0.8, 0.8])


BROKEN_NOTES = {
    "no notes at all": ("png", b"Exif\0\0nothing here"),
    "a text where a number belongs": (
        "jpg",
        b"Exif\0\0MM\0*\0\0\0\x08\0\2\1\1\0\2\0\0\0\4abc\0\1\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0",
    ),
}


@pytest.mark.parametrize("case", BROKEN_NOTES)
def test_broken_notes_do_not_stop_a_good_picture(case, tmp_path):
    ending, notes = BROKEN_NOTES[case]
    path = save(tmp_path / f"photo.{ending}", Image.new("RGB", (16, 16), (255, 0, 0)), exif=notes)
    assert load_photo(path, size=8)[0].min() > 0.95


def with_long_text(path) -> None:
    notes = PngImagePlugin.PngInfo()
    notes.add_text("story", "a" * 2**21, zip=True)
    save(path, Image.new("RGB", (8, 8)), pnginfo=notes)


def cut_off(path) -> None:
    path.write_bytes(save(path, halves((0, 0, 0), (255, 9, 9)), format="PNG").read_bytes()[:60])


def wrong_chunk(path) -> None:
    save(path, Image.new("RGB", (8, 8)), format="PNG")
    header = b"IHDR" + bytes(13)
    path.write_bytes(path.read_bytes()[:12] + header + zlib.crc32(header).to_bytes(4, "big"))


UNREADABLE = {
    "not a picture": lambda path: path.write_bytes(b"<html>not found</html>"),
    "empty": lambda path: path.write_bytes(b""),
    "cut off": cut_off,
    "2 MB of text": with_long_text,
    "no size": wrong_chunk,
}


@pytest.mark.parametrize("case", UNREADABLE)
def test_a_file_that_cannot_be_read_is_named(case, tmp_path):
    UNREADABLE[case](tmp_path / "photo.png")
    with pytest.raises(ValueError, match=r"no picture that can be read: .*photo\.png \(") as caught:
        load_photo(tmp_path / "photo.png")
    assert caught.value.__suppress_context__, "one error, not two"


def test_a_file_of_commands_is_never_handed_to_ghostscript(tmp_path, monkeypatch):
    """PostScript is a programming language, and Pillow opens a file by its content, not by its name."""
    started = []
    for name in ("Popen", "check_call", "run"):
        monkeypatch.setattr(subprocess, name, lambda *args, **options: started.append(args))
    path = tmp_path / "photo.jpg"
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n")
    with pytest.raises(ValueError, match="none of JPEG, PNG"):
        load_photo(path)
    assert not started


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("given", [None, 3, b"photo.jpg", "", ["photo.jpg"]])
def test_what_is_no_path(given):
    with pytest.raises(ValueError, match="a photo must be a path, got"):
        load_photo(given)


def test_a_size_beyond_every_picture():
    with pytest.raises(ValueError, match="100000×100000 is more than the 89,478,485 pixels"):
        load_photo(size=100_000)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no named pipes in folders")
def test_a_pipe_does_not_keep_the_reader_waiting(tmp_path):
    os.mkfifo(tmp_path / "photo.png")
    with pytest.raises(FileNotFoundError, match="no photo"):
        load_photo(tmp_path / "photo.png")
