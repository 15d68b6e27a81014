"""One picture file as a tensor."""

import os
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float, UInt8
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor

from ..config import Size, to_pair
from ..errors import require_choice, require_size
from ..files import as_path

PHOTOS = Path(__file__).with_name("photos")  # CREDITS.txt says whose they are
SHIPPED = ("eileen_collins", "chelsea")
# Pixels alone: left to itself, Pillow would hand an EPS file to Ghostscript, whatever the file is called.
FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP", "PPM", "JPEG2000")


def load_photo(name_or_path: str | os.PathLike = "grace_hopper", size: Size = 224) -> Float[Tensor, "3 H W"]:
    """Load a photo as floats in [0, 1], resized and cropped around its centre to `size`: (3, H, W).

    `"grace_hopper"` is the photo that matplotlib ships (1984, US Navy, public domain), `"eileen_collins"` (NASA, public
    domain) and `"chelsea"`, a cat (Stefan van der Walt, CC0), ship with this package; anything else is the path of a
    picture file of your own. Transparent pixels become white.

    Raises FileNotFoundError if there is none, ValueError for what is no picture, damaged, or grey with over 8 bits.
    """
    return crop_to(open_picture(find_photo(name_or_path)), require_size("size", size)).float() / 255


def load_outline(size: Size = 224, name: str = "grace_hopper") -> Bool[Tensor, "H W"]:
    """Return where the photo "grace_hopper" or "eileen_collins" shows her, as drawn by hand: true on her, (H, W)."""
    require_choice("outline", name, ("grace_hopper", "eileen_collins"))
    return crop_to(open_picture(PHOTOS / f"{name}_outline.png"), require_size("size", size))[0] > 127


def crop_to(picture: Image.Image, size: Size) -> UInt8[Tensor, "3 H W"]:
    """Resize a picture in colour and crop it around its centre: bytes, (3, H, W)."""
    return as_tensor(ImageOps.fit(picture, to_pair(size)[::-1], Image.Resampling.BICUBIC))


def as_tensor(picture: Image.Image) -> UInt8[Tensor, "3 H W"]:
    return torch.from_numpy(np.array(picture)).permute(2, 0, 1).contiguous()  # (H, W, 3) → (3, H, W)


def open_picture(path: Path) -> Image.Image:
    """Open a picture file as `to_rgb` does. Raises ValueError that names the file and the reason."""
    try:
        with Image.open(path, formats=FORMATS) as picture:
            picture.load()
        return to_rgb(picture)
    except UnidentifiedImageError:
        reason = f"none of {', '.join(FORMATS)}"
    except Exception as error:  # a damaged file can make Pillow raise anything
        reason = str(error) or type(error).__name__
    raise ValueError(f"no picture that can be read: {path} ({reason})")


def to_rgb(picture: Image.Image) -> Image.Image:
    """Return a picture upright, in colour and on white. Raises ValueError for more than 8 bits a pixel."""
    if picture.mode.startswith(("I", "F")):  # Pillow would cut these off at 255
        raise ValueError(f"more than 8 bits a pixel, Pillow's mode {picture.mode}: save it with 8")
    with suppress(Exception):  # broken EXIF notes are no reason to refuse a good picture
        picture = ImageOps.exif_transpose(picture)
    if picture.mode.endswith(("A", "a")) or "transparency" in picture.info:
        picture = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture)
    return picture.convert("RGB")


def find_photo(name_or_path: str | os.PathLike) -> Path:
    """Return the path of a photo. Raises FileNotFoundError if there is none, ValueError for what is no path."""
    path = as_path("a photo that is no tensor, no array and no picture of Pillow", name_or_path)
    if str(path) == "grace_hopper":
        from matplotlib import get_data_path  # here, so that a reader's own picture needs no matplotlib

        return Path(get_data_path(), "sample_data", "grace_hopper.jpg")
    if str(path) in SHIPPED:
        return PHOTOS / f"{path}.jpg"
    if path.is_dir():
        each = f"[predict(model, path) for path in sorted(Path({str(path)!r}).glob('*.jpg'))]"
        raise FileNotFoundError(f"{str(path)!r} is a folder, and this takes one picture. For all of them: {each}")
    if not path.is_file():
        there = f"give {', '.join(map(repr, ('grace_hopper', *SHIPPED)))} or the path of a picture file"
        raise FileNotFoundError(f"no photo {str(path)!r}: {there} (relative paths start at {Path.cwd()})")
    return path
