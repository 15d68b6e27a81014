"""The `.npz` files of the paper's authors."""

from __future__ import annotations

import math
import re
import zipfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ..config import ViTConfig
from ..model import VisionTransformer
from .converting import check_tensors, convert_tensors, expect
from .published_cards import WHOLE_PHOTO, write_card
from .unsupported import refuse, refuse_names

HALF = (0.5, 0.5, 0.5)  # pixels from -1 to 1
MOST_UNPACKED = 10  # times the size of the file

# The tensors that tell the sizes, and what their axes are.
QUERY = "Transformer/encoderblock_0/MultiHeadDotProductAttention_1/query/kernel"
EXPAND = "Transformer/encoderblock_0/MlpBlock_3/Dense_0/kernel"
POSITION = "Transformer/posembed_input/pos_embedding"
AXES = {"embedding/kernel": "P Q C D", POSITION: "1 T D", QUERY: "D h d", EXPAND: "D M", "head/kernel": "D K"}


def from_google(npz_path: str | Path) -> VisionTransformer:
    """A file of github.com/google-research/vision_transformer (a ViT with a class token) as ours, in the file's dtype.

    The image is taken to be square, since the file does not say. The classes have numbers for names, pixels go from
    -1 to 1.

    Raises FileNotFoundError; ValueError for a file that is no whole `.npz` or holds Python objects (which are never
    opened), for a ResNet in front or another pooling, and for tensors that do not fit, all of which it lists. Warns of
    a head of zeros, which the first files for 21,843 classes have.
    """
    tensors = read_npz(Path(npz_path).expanduser())
    refuse_names(tensors)
    if "cls" not in tensors and "embedding/kernel" in tensors:
        raise ValueError("this file has no class token (cls): VisionTransformer always has one")
    model = convert_tensors(tensors, "google", read_config(tensors))
    return write_card(model, f"{Path(npz_path).name}, of the paper's authors", HALF, HALF, preprocessing=WHOLE_PHOTO)


def read_npz(path: Path) -> dict[str, Tensor]:
    """Read all arrays of a file, as tensors. Nothing in it is executed, and nothing read that unpacks to far more."""
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


def read_config(tensors: dict[str, Tensor]) -> ViTConfig:
    """What the shapes say."""
    layers = {int(number) for name in tensors for number in re.findall(r"encoderblock_(\d+)/", name)}
    representation = tensors.get("pre_logits/kernel", torch.empty(()))
    facts = {
        "depth": min(max(layers, default=0) + 1, len(tensors)),  # a layer has tensors, whatever number it is given
        "representation_size": representation.shape[-1] if representation.ndim else None,
    }
    try:
        return read_sizes(tensors, facts)
    except (KeyError, ValueError):
        # The sizes are unknown. The names are known all the same, and so is what is missing, or too much.
        expected = expect(ViTConfig(1, 1, 1, 1, embed_dim=1, num_heads=1, mlp_dim=1, **facts), "google")
        check_tensors({name: expected.get(name, tensor) for name, tensor in tensors.items()}, expected, "google")
        raise


def read_sizes(tensors: dict[str, Tensor], facts: dict) -> ViTConfig:
    for name, axes in AXES.items():
        if tensors[name].ndim != len(axes.split()):
            raise ValueError(f"{name} has the shape {tuple(tensors[name].shape)} in place of ({axes})")
    height, width, channels, dim = tensors["embedding/kernel"].shape
    return ViTConfig(
        image_size=square(tensors[POSITION].shape[1] - 1, height, width),
        patch_size=(height, width),
        in_channels=channels,
        num_classes=tensors["head/kernel"].shape[1],
        embed_dim=dim,
        num_heads=tensors[QUERY].shape[1],
        mlp_dim=tensors[EXPAND].shape[1],
        **facts,
    )


def square(patches: int, height: int, width: int) -> tuple[int, int]:
    """The image that has so many patches, as many down as across."""
    side = math.isqrt(patches)
    if side**2 != patches or not side:
        refuse(f"{patches} positions beside the class token's, which are no square of patches", POSITION)
    return side * height, side * width
