"""A model as one file: its weights, its configuration and its card, in safetensors, which cannot hold code."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from uuid import uuid4

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor

from .config import ViTConfig
from .model import VisionTransformer
from .model_card import ModelCard

MOST_ZEROS = 2**28  # numbers in the table of a model without positions, which no file holds


def save_model(model: VisionTransformer, path: str | Path, dtype: torch.dtype = torch.float32) -> Path:
    """Write the weights, and beside them what is needed to build the model again. `dtype` is what is stored.

    Raises ValueError for a hybrid: a file of numbers cannot say what network its backbone is; and for what
    `load_model` would refuse: a card that is another model's, other layers than the configuration's, numbers that are
    not finite, as those too large for `dtype`.
    """
    model = getattr(model, "_orig_mod", model)  # what torch.compile was given
    if not isinstance(model, VisionTransformer):
        raise ValueError(f"save_model keeps a VisionTransformer, got {type(model).__name__}")
    if not getattr(dtype, "is_floating_point", False):
        raise ValueError(f"weights are stored as floats, got {dtype}")
    if hasattr(model.embeddings.patches, "backbone"):
        raise ValueError("a backbone is code, and this file holds numbers: save model.state_dict(), and build it again")
    check_card(model.card, model.config)
    tensors = {name: tensor.to(dtype) for name, tensor in model.state_dict().items()}
    check_fit({name: tensor.float() for name, tensor in tensors.items()}, model.config)
    about = {"config": asdict(model.config), "card": model.card.to_dict() if model.card else None}
    return write(path, tensors, about)


def load_model(path: str | Path) -> VisionTransformer:
    """Build the model of a file that `save_model` wrote, in float32, ready to predict (`eval`).

    Raises FileNotFoundError, or ValueError that names the file if it is something else or damaged, or holds weights
    that are no finite numbers.
    """
    tensors, about = read(path)
    if "config" not in about:
        raise ValueError(f"{path} holds no configuration of a VisionTransformer: it was not written by save_model")
    try:
        facts = about["config"].items()
        config = ViTConfig(**{name: tuple(value) if isinstance(value, list) else value for name, value in facts})
        card = ModelCard.from_dict(about["card"]) if about.get("card") else None
        check_card(card, config)
        if other := {tensor.dtype for tensor in tensors.values() if not tensor.is_floating_point()}:
            raise ValueError(f"weights are floating-point numbers, some of these are {other}")
        state = {name: tensor.float() for name, tensor in tensors.items()}
        check_fit(state, config)
        model = VisionTransformer(config)
        model.load_state_dict(state)
        model.card = card
    except Exception as error:  # facts that somebody forged can fail anywhere
        raise ValueError(f"{path} holds no VisionTransformer that this version can build: {error}") from None
    return model.eval()


def check_fit(state: Mapping[str, Tensor], config: ViTConfig) -> None:
    """Raise an error unless the tensors are finite and all that the model has. No size costs memory."""
    depth = len({name.split(".")[1] for name in state if name.startswith("encoder.")})
    if depth != config.depth:
        raise ValueError(f"the configuration says {config.depth} encoder layers, the weights are those of {depth}")
    with torch.device("meta"):
        model = VisionTransformer(config)
    try:
        model.load_state_dict(state, assign=True)
    except RuntimeError as error:
        raise ValueError(f"the tensors are not those of the configuration: {error}") from None
    if any(buffer.numel() > MOST_ZEROS for buffer in model.buffers()):
        raise ValueError(f"{config.num_tokens:,} tokens are more than fit")
    check_numbers(state)


def check_numbers(tensors: Mapping[str, Tensor]) -> None:
    """Raise ValueError that names the first tensor with a number that is not finite."""
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise ValueError(f"{name} holds numbers that are not finite (nan or inf)")


def check_card(card: ModelCard | None, config: ViTConfig) -> None:
    """Raise ValueError unless the card has a name for each logit, a mean and a spread for each channel."""
    if card and (len(card.classes), len(card.mean)) != (config.num_classes, config.in_channels):
        raise ValueError(
            f"the card has {len(card.classes)} class names and a mean of {len(card.mean)} channels, the model "
            f"{config.num_classes} logits and {config.in_channels} channels"
        )


def write(path: str | Path, tensors: Mapping[str, Tensor], about: Mapping) -> Path:
    """Write tensors and facts (what JSON can say) into one file, with a digest of both: all of it or none of it."""
    # Copies: safetensors takes no weights that two layers share.
    tensors = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    facts = json.dumps(about)
    return write_bytes(path, save(tensors, {"about": facts, "digest": digest(tensors, facts)}))


def write_bytes(path: str | Path, data: bytes) -> Path:
    """Put the bytes there atomically: readers find the old file or the new one, whole. Any OSError names `path`.

    Several processes can write at once: each has an unfinished file of its own.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{uuid4().hex}.part")
    try:
        with open(part, "xb") as file:  # a new file, whatever link lies there
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


def remove_unfinished(folder: Path) -> None:
    """Remove what a writer left that was killed. Nobody else may be writing there."""
    for part in folder.glob("*.part"):
        if re.search(r"\.[0-9a-f]{32}\.part$", part.name):  # ours, not a browser's
            part.unlink(missing_ok=True)


def read(path: str | Path, digest_needed: bool = False) -> tuple[dict[str, Tensor], dict]:
    """Return the tensors and the facts that `write` put there.

    Raises FileNotFoundError, or ValueError that names the file if it is not whole or not as it was written. A file
    without a digest is taken as it is, unless `digest_needed`.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"no file {str(path)!r} (relative paths start at {Path.cwd()})")
    try:
        with safe_open(path, framework="pt") as file:
            # Copies: safetensors would leave the tensors in the file, which the next checkpoint replaces.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118 (it is no dict)
            metadata = file.metadata() or {}
        about = json.loads(facts := metadata.get("about", "{}"))
        if not isinstance(about, dict):
            raise ValueError(f"its facts are {about!r:.40}")
        if digest_needed and "digest" not in metadata:
            raise ValueError("it has no digest of its contents (older versions wrote none)")
        if "digest" in metadata and metadata["digest"] != digest(tensors, facts):
            raise ValueError("its digest is that of other contents")
    except Exception as error:  # safetensors has one class for all that a damaged file can be
        raise ValueError(f"{path} is not a whole safetensors file: {error}") from None
    return tensors, about


def digest(tensors: Mapping[str, Tensor], facts: str) -> str:
    """Return the SHA-256 of the facts and of every tensor: name, dtype, shape, bytes."""
    found = hashlib.sha256(facts.encode())
    for name, tensor in sorted(tensors.items()):
        found.update(json.dumps([name, str(tensor.dtype), tensor.shape]).encode())
        found.update(tensor.flatten().view(torch.uint8).numpy())
    return found.hexdigest()
