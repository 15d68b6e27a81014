"""One picture file as a tensor."""

from __future__ import annotations

from pathlib import Path

from jaxtyping import Float, UInt8
from PIL import Image, ImageOps
from torch import Tensor
from torchvision.transforms.functional import pil_to_tensor

from ..config import Size, to_pair
from ..validation import check_size

PHOTOS = {"grace_hopper": "grace_hopper.jpg"}


def load_photo(name_or_path: str | Path = "grace_hopper", size: Size = 224) -> Float[Tensor, "3 H W"]:
    """A photo as a tensor of floats in [0, 1]: (3, H, W), filled to `size` by resizing and cropping the middle.

    `"grace_hopper"` is the photo that matplotlib ships (1984, US Navy, public domain); anything else is
    the path of a picture file of your own.

    Raises FileNotFoundError if there is no such photo, ValueError for a size that is not positive.
    """
    check_size("size", size)
    return read_picture(find_photo(name_or_path), size).float() / 255


def read_picture(path: Path, size: Size | None) -> UInt8[Tensor, "3 H W"]:
    """A picture file, upright and in colour: bytes, (3, H, W), of its own size if `size` is None.

    Raises ValueError for one with more than 8 bits a colour in a single channel: Pillow would cut them off at 255.
    """
    with Image.open(path) as picture:
        if picture.mode.startswith(("I", "F")):
            raise ValueError(f"{path} has more than 8 bits a colour (Pillow's mode {picture.mode}): save it with 8")
        ImageOps.exif_transpose(picture, in_place=True)
        upright = picture.convert("RGB")
    if size is not None:
        height, width = to_pair(size)
        upright = ImageOps.fit(upright, (width, height), Image.Resampling.BICUBIC)
    return pil_to_tensor(upright)


def find_photo(name_or_path: str | Path) -> Path:
    if str(name_or_path) in PHOTOS:
        # Imported here so that a reader's own picture needs no matplotlib.
        from matplotlib import get_data_path

        return Path(get_data_path(), "sample_data", PHOTOS[str(name_or_path)])
    if not (path := Path(name_or_path).expanduser()).is_file():
        raise FileNotFoundError(
            f"no photo {str(name_or_path)!r}: give {' or '.join(map(repr, PHOTOS))}, or the path of a picture file "
            f"(relative paths start at {Path.cwd()})"
        )
    return path
