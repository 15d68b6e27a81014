"""Read the `.npz` files of the paper's authors."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from ..config import to_pair
from ..model import VisionTransformer
from .converting import convert_tensors, read_config, write_card
from .unsupported import refuse_names

HALF = (0.5, 0.5, 0.5)  # pixels from -1 to 1
MOST_UNPACKED = 10  # times the size of the file: weights hardly get smaller


def from_google(npz_path: str | Path, gelu: str = "tanh") -> VisionTransformer:
    """Build the model of a file from github.com/google-research/vision_transformer, in the file's dtype.

    The image is taken to be square, since the file does not say. The classes are called "class 0", "class 1", ….

    Nor does the file say which GELU the weights were trained with. The authors' `MlpBlock` calls Flax's `nn.gelu(x)`
    (vit_jax/models_vit.py), which is JAX's, and there `approximate=True` is the default: the tanh form. timm reads the
    same files with the exact one. `gelu="exact"` is for weights that somebody else wrote into such a file.

    Raises FileNotFoundError; ValueError for a file that is no whole `.npz` or holds Python objects (which are never
    opened), for a ResNet in front or another pooling, and for tensors that do not fit, all of which it lists. Warns
    of a head of zeros, which the first files for 21,843 classes have.
    """
    path = Path(npz_path).expanduser()
    if not path.is_file():
        raise FileNotFoundError(f"no file {str(path)!r} (relative paths start at {Path.cwd()})")
    try:
        with zipfile.ZipFile(path) as file:
            unpacked, packed = sum(member.file_size for member in file.infolist()), path.stat().st_size
        if unpacked > MOST_UNPACKED * packed:
            raise ValueError(f"its {packed:,} bytes would unpack to {unpacked:,}")
        with np.load(path, allow_pickle=False) as file:
            tensors = {name: torch.from_numpy(file[name]) for name in file.files}
    except Exception as error:  # zip and NumPy have many classes for what a damaged file can be
        raise ValueError(f"{path} is not a whole .npz file of numbers: {error}") from None
    refuse_names(tensors)
    model = convert_tensors(tensors, "google", replace(read_config(tensors, "google"), gelu=gelu))
    side, _ = to_pair(model.config.image_size)
    whole_photo = {"resize": side, "crop": side, "squeeze": True, "interpolation": "bilinear"}
    return write_card(model, f"{path.name}, of the paper's authors", HALF, HALF, preprocessing=whole_photo)
