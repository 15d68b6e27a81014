"""Read the `.npz` files of the paper's authors."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..model import VisionTransformer
from .converting import convert_tensors, read_config, write_card
from .unsupported import refuse_names

HALF = (0.5, 0.5, 0.5)  # pixels from -1 to 1
MOST_UNPACKED = 10  # times the size of the file


def from_google(npz_path: str | Path) -> VisionTransformer:
    """Build the model of a file from github.com/google-research/vision_transformer, in the file's dtype.

    The image is taken to be square, since the file does not say. The classes are called "class 0", "class 1", ….

    Raises FileNotFoundError; ValueError for a file that is no whole `.npz` or holds Python objects (which are never
    opened), for a ResNet in front or another pooling, and for tensors that do not fit, all of which it lists. Warns of
    a head of zeros, which the first files for 21,843 classes have.
    """
    path = Path(npz_path).expanduser()
    tensors = read_npz(path)
    refuse_names(tensors)
    if "cls" not in tensors and "embedding/kernel" in tensors:
        raise ValueError("this file has no class token (cls): VisionTransformer always has one")
    model = convert_tensors(tensors, "google", read_config(tensors, "google"))
    whole_photo = {"resize": "both sides", "interpolation": "bilinear"}
    return write_card(model, f"{path.name}, of the paper's authors", HALF, HALF, preprocessing=whole_photo)


def read_npz(path: Path) -> dict[str, Tensor]:
    """Return all arrays of a file as tensors. Nothing in it is executed, and no zip bomb is unpacked."""
    if not path.is_file():
        raise FileNotFoundError(f"no file {str(path)!r} (relative paths start at {Path.cwd()})")
    try:
        with zipfile.ZipFile(path) as file:
            unpacked, packed = sum(member.file_size for member in file.infolist()), path.stat().st_size
        if unpacked > MOST_UNPACKED * packed:
            raise ValueError(f"its {packed:,} bytes unpack to {unpacked:,}, and weights hardly get smaller")
        with np.load(path, allow_pickle=False) as file:
            return {name: torch.from_numpy(file[name]) for name in file.files}
    except Exception as error:  # zip and NumPy have many classes for what a damaged file can be
        raise ValueError(f"{path} is not a whole .npz file of numbers: {error}") from None
