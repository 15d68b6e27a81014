"""A photo as a tensor: the one that matplotlib ships, and a reader's own."""

import pytest
import torch
from PIL import Image

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
