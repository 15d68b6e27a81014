"""A model as one file: its weights, its configuration and its card, in safetensors, which cannot hold code."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from .card import Card
from .config import ViTConfig
from .model import VisionTransformer


def save_model(model: VisionTransformer, path: str | Path, dtype: torch.dtype = torch.float32) -> Path:
    """Write the weights, and beside them what is needed to build the model again. `dtype` is what is stored.

    Raises ValueError for a hybrid: a file of numbers cannot say what network its backbone is.
    """
    if hasattr(model.embeddings.patches, "backbone"):
        raise ValueError("a backbone is code, and this file holds numbers: save model.state_dict(), and build it again")
    tensors = {name: tensor.to(dtype) for name, tensor in model.state_dict().items()}
    about = {"config": asdict(model.config), "card": model.card.to_dict() if model.card else None}
    return write(path, tensors, about)


def load_model(path: str | Path) -> VisionTransformer:
    """The model of a file that `save_model` wrote, in float32, ready to predict (`eval`).

    Raises FileNotFoundError, or ValueError for a file that is something else or damaged.
    """
    tensors, about = read(path)
    if "config" not in about:
        raise ValueError(f"{path} holds no configuration of a VisionTransformer: it was not written by save_model")
    config = {name: tuple(value) if isinstance(value, list) else value for name, value in about["config"].items()}
    try:
        model = VisionTransformer(ViTConfig(**config))
        model.load_state_dict({name: tensor.float() for name, tensor in tensors.items()})
        model.card = Card.from_dict(about["card"]) if about["card"] else None
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise ValueError(f"{path} holds no VisionTransformer that this version can build: {error}") from None
    return model.eval()


def write(path: str | Path, tensors: Mapping[str, Tensor], about: Mapping) -> Path:
    """Tensors and facts (what JSON can say) into one file: all of it, or, if that fails, none of it."""
    data = save(
        {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, {"about": json.dumps(about)}
    )
    return write_bytes(path, data)


def write_bytes(path: str | Path, data: bytes) -> Path:
    """What is under the name is always whole: the old file until the new one is on the disk. Raises OSError, named."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.part")
    try:
        with open(part, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
    except BaseException as error:
        part.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = str(path)  # a full disk does not say whose write failed
        raise
    return path


def read(path: str | Path) -> tuple[dict[str, Tensor], dict]:
    """The tensors and the facts that `write` put there."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"no file {str(path)!r} (relative paths start at {Path.cwd()})")
    try:
        with safe_open(path, framework="pt") as file:
            # Copies: safetensors would leave the tensors in the file, which the next checkpoint replaces.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (it is no dict)
            return tensors, json.loads((file.metadata() or {}).get("about", "{}"))
    except Exception as error:  # safetensors has one class for all that a damaged file can be
        raise ValueError(f"{path} is not a whole safetensors file: {error}") from None
