"""One picture file as a tensor."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from jaxtyping import Float, UInt8
from PIL import Image, ImageOps, UnidentifiedImageError
from torch import Tensor
from torchvision.transforms.functional import pil_to_tensor

from ..config import Size, to_pair
from ..errors import require_size
from .download import as_path

PHOTOS = {"grace_hopper": "grace_hopper.jpg"}
# Pixels alone: left to itself, Pillow would hand an EPS file to Ghostscript, whatever the file is called.
FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "TIFF", "BMP", "PPM", "JPEG2000")


def load_photo(name_or_path: str | os.PathLike = "grace_hopper", size: Size = 224) -> Float[Tensor, "3 H W"]:
    """A photo as a tensor of floats in [0, 1]: (3, H, W), filled to `size` by resizing and cropping the middle.

    `"grace_hopper"` is the photo that matplotlib ships (1984, US Navy, public domain); anything else is
    the path of a picture file of your own. What is transparent becomes white.

    Raises FileNotFoundError if there is no such photo, ValueError for a size that is not positive, and for a file
    that is no picture, damaged, or has more than 8 bits a colour.
    """
    require_size("size", size)
    return read_picture(find_photo(name_or_path), size).float() / 255


def read_picture(path: Path, size: Size | None) -> UInt8[Tensor, "3 H W"]:
    """A picture file, upright, in colour and on white: bytes, (3, H, W), of its own size if `size` is None.

    Raises ValueError that names the file, whatever is wrong with it. More than 8 bits a colour in a single channel are
    wrong, too: Pillow would cut them off at 255.
    """
    if size is not None:
        check_area(*to_pair(size))
    if not path.is_file():  # a pipe would keep the reader waiting
        raise ValueError(f"no picture that can be read: {path} (not a file)")
    try:
        with Image.open(path, formats=FORMATS) as picture:
            picture.load()
        coloured = None if picture.mode.startswith(("I", "F")) else on_white(upright(picture))
    except UnidentifiedImageError:
        raise ValueError(f"no picture that can be read: {path} (none of {', '.join(FORMATS)})") from None
    except Exception as error:  # a damaged file can make Pillow raise anything
        raise ValueError(f"no picture that can be read: {path} ({str(error) or type(error).__name__})") from None
    if coloured is None:
        raise ValueError(f"{path} has more than 8 bits a colour (Pillow's mode {picture.mode}): save it with 8")
    if size is not None:
        height, width = to_pair(size)
        coloured = ImageOps.fit(coloured, (width, height), Image.Resampling.BICUBIC)
    return pil_to_tensor(coloured)


def upright(picture: Image.Image) -> Image.Image:
    """Turn the picture as its EXIF notes say. Broken notes are no reason to refuse a good picture."""
    with suppress(Exception):
        ImageOps.exif_transpose(picture, in_place=True)
    return picture


def on_white(picture: Image.Image) -> Image.Image:
    if picture.mode in ("RGBA", "RGBa", "LA", "La", "PA") or "transparency" in picture.info:
        picture = picture.convert("RGBA")
        picture = Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture)
    return picture.convert("RGB")


def check_area(height: int, width: int) -> None:
    limit = Image.MAX_IMAGE_PIXELS
    if limit is not None and height * width > limit:
        raise ValueError(f"{height}×{width} is more than the {limit:,} pixels that Pillow takes for a picture")


def find_photo(name_or_path: str | os.PathLike) -> Path:
    if str(name_or_path) in PHOTOS:
        # Imported here so that a reader's own picture needs no matplotlib.
        from matplotlib import get_data_path

        return Path(get_data_path(), "sample_data", PHOTOS[str(name_or_path)])
    if not (path := as_path("a photo", name_or_path)).is_file():
        raise FileNotFoundError(
            f"no photo {str(name_or_path)!r}: give {' or '.join(map(repr, PHOTOS))}, or the path of a picture file "
            f"(relative paths start at {Path.cwd()})"
        )
    return path
