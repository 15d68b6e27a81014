"""Published weights by name: from torchvision's cache, or from where torchvision has them."""

from __future__ import annotations

import hashlib
import os
import pickle
import re
from contextlib import suppress
from pathlib import Path

import torch
from torch import Tensor
from torchvision.models import WeightsEnum, get_model_weights

from ..config import ViTConfig
from ..data.download import copy
from ..model import VisionTransformer
from ..validation import check_choice
from .cards import write_card
from .converting import convert_tensors
from .torchvision import facts

PUBLISHED = {"B/16": "vit_b_16", "B/32": "vit_b_32", "L/16": "vit_l_16", "L/32": "vit_l_32"}


def load_pretrained(name: str) -> VisionTransformer:
    """A model that torchvision's authors trained on ImageNet: "B/16", "B/32" (330 MB), "L/16" or "L/32" (1.2 GB).

    Its card has the 1000 class names, and `predict` its preprocessing. The file is looked for where torchvision keeps
    its own (`torch.hub.get_dir()`), and downloaded to that place if it is not there or broken; progress goes to stderr.
    Ready to predict (`eval`).

    Raises ValueError for another name, ConnectionError that says what to do where there is neither file nor connection.
    """
    check_choice("published model", name, PUBLISHED)
    weights = get_model_weights(PUBLISHED[name]).IMAGENET1K_V1
    path = Path(torch.hub.get_dir(), "checkpoints", Path(weights.url).name)
    if not is_whole(path):
        download(weights, path)
    model = convert_tensors(read_state_dict(path), "torchvision", ViTConfig.named(name))
    return write_card(model, **facts(weights))


def download(weights: WeightsEnum, path: Path) -> None:
    """Whole, with the right checksum, or not at all: until then the file has a name that nobody looks for."""
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    there = "it is there, but broken" if path.is_file() else "it is not there"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with unfinished.open("wb") as file:
            copy(weights.url, file)
        if not (found := sha256_of(unfinished)).startswith(checksum(path)):
            size = unfinished.stat().st_size
            raise OSError(f"{weights.url} gave {size:,} bytes with sha256 {found[:8]}…: cut off, or another file")
        put(unfinished, path)
    except OSError as error:
        raise ConnectionError(
            f"no {path.name} in {path.parent} ({there}), and it could not be fetched: {error}. Try again later, or "
            f"fetch {weights.url} by hand ({weights.meta['_file_size']:.0f} MB, sha256 {checksum(path)}…) and put it "
            "there. `load_checkpoint('cifar10')` needs no download."
        ) from None
    finally:
        with suppress(OSError):  # what stands in the way was said above
            unfinished.unlink(missing_ok=True)


def put(unfinished: Path, path: Path) -> None:
    try:
        unfinished.replace(path)
    except PermissionError:  # Windows, where another process has just put the same file there and reads it
        if not is_whole(path):
            raise


def is_whole(path: Path) -> bool:
    return path.is_file() and sha256_of(path).startswith(checksum(path))


def checksum(path: Path) -> str:
    """The start of the file's sha256, which stands in its name: vit_b_16-c867db91.pth."""
    return re.search(r"-([0-9a-f]{8,})\.", path.name)[1]


def sha256_of(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(2**20):
            digest.update(piece)
    return digest.hexdigest()


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """The tensors of a `.pth` file, under today's names; `weights_only`, so that nothing in it is executed."""
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise ValueError(f"{path} is not a file of weights alone: {error}") from None
    # torchvision's MLP was two layers with names when these files were written.
    today = {"mlp.linear_1.": "mlp.0.", "mlp.linear_2.": "mlp.3."}
    return {re.sub(r"mlp\.linear_[12]\.", lambda old: today[old[0]], name): value for name, value in tensors.items()}
