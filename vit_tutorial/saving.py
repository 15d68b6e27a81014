"""A model as one file: its weights, its configuration and its card, in safetensors, which cannot hold code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from .config import ViTConfig
from .data.download import replacing
from .model import VisionTransformer
from .model_card import ModelCard

MOST_ZEROS = 2**28  # in the position table of a model without positions, which is in no file


def save_model(model: VisionTransformer, path: str | Path) -> Path:
    """Write the weights, in float32, with everything needed to build the model again.

    Raises ValueError for a hybrid, whose backbone is code that no such file can hold, and for everything that
    `load_model` would refuse: a card or layers that do not fit the configuration, and weights that are not finite.
    """
    model = unwrapped(model)
    if not isinstance(model, VisionTransformer):
        raise ValueError(f"save_model keeps a VisionTransformer, got {type(model).__name__}")
    if hasattr(model.embeddings.patches, "backbone"):
        raise ValueError("a backbone is code, and this file holds numbers: save model.state_dict(), and build it again")
    tensors = {name: tensor.float() for name, tensor in model.state_dict().items()}
    require_fitting(tensors, model.config, model.card)
    return write(path, tensors, {"config": asdict(model.config), "card": model.card and asdict(model.card)})


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the model that torch.compile, DataParallel or DistributedDataParallel was given."""
    while hasattr(model, "_orig_mod") or isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        model = getattr(model, "_orig_mod", None) or model.module
    return model


def load_model(path: str | Path) -> VisionTransformer:
    """Build the model of a file that `save_model` wrote, in float32 and in eval mode.

    Raises FileNotFoundError, or ValueError that names the file if it is damaged, is something else, or holds weights
    that are not finite.
    """
    tensors, about = read(path)
    if "config" not in about:
        raise ValueError(f"{path} holds no configuration of a VisionTransformer: it was not written by save_model")
    try:
        config = ViTConfig(**with_tuples(about["config"]))
        card = ModelCard(**with_tuples(about["card"])) if about.get("card") else None
        require_fitting(tensors, config, card)
        model = VisionTransformer(config)
        model.load_state_dict(tensors)
    except Exception as error:  # forged facts can fail anywhere
        raise ValueError(f"{path} holds no VisionTransformer that this version can build: {error}") from None
    model.card = card
    return model.eval()


def with_tuples(facts: Mapping) -> dict:
    """JSON has a list where a configuration or a card has a tuple."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in facts.items()}


def require_fitting(tensors: Mapping[str, Tensor], config: ViTConfig, card: ModelCard | None) -> None:
    """Raise ValueError unless tensors and card are those of such a model, and finite. Takes no memory at any size."""
    if card and (len(card.classes), len(card.mean)) != (config.num_classes, config.in_channels):
        raise ValueError(
            f"the card has {len(card.classes)} class names and a mean of {len(card.mean)} channels, the model "
            f"{config.num_classes} logits and {config.in_channels} channels"
        )
    if config.depth > len(tensors):  # every layer has tensors: a forged depth would take minutes to build
        raise ValueError(f"the configuration says {config.depth:,} encoder layers, there are {len(tensors)} tensors")
    with torch.device("meta"), WithoutInit():
        model = VisionTransformer(config)
    try:
        model.load_state_dict(tensors, assign=True)
    except RuntimeError as error:
        raise ValueError(f"the tensors are not those of the configuration: {error}") from None
    if any(buffer.numel() > MOST_ZEROS for buffer in model.buffers()):
        raise ValueError(f"{config.num_tokens:,} tokens are more than fit")
    require_finite_tensors(tensors)


class WithoutInit(TorchFunctionMode):
    """Build layers without drawing their first values: `normal_` on the meta device takes a second to import."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        drawing = getattr(function, "__module__", None) == "torch.nn.init"
        return kwargs["tensor"] if drawing else function(*args, **kwargs)


def require_finite_tensors(tensors: Mapping[str, Tensor]) -> None:
    for name, tensor in tensors.items():
        if not tensor.float().isfinite().all():
            raise ValueError(f"{name} holds numbers that are not finite (nan or inf)")


def write(path: str | Path, tensors: Mapping[str, Tensor], about: Mapping) -> Path:
    """Write tensors and facts (anything that JSON can say) into one file, atomically, with a digest of both.

    Any OSError names `path`.
    """
    # Copies: safetensors takes no weights that two layers share.
    tensors = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    facts, path = json.dumps(about), Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as part:
        part.write_bytes(save(tensors, {"about": facts, "digest": digest(tensors, facts)}))
    return path


def read(path: str | Path, digest_needed: bool = False) -> tuple[dict[str, Tensor], dict]:
    """Return the tensors and the facts that `write` put there.

    Raises FileNotFoundError, or ValueError that names the file if its contents are not what was written. A file
    without a digest is accepted unless `digest_needed`: older versions wrote none.
    """
    if str(path) and Path(path).is_dir():
        raise FileNotFoundError(f"{str(path)!r} is a folder: name a file in it, such as model.safetensors")
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
        if ("digest" in metadata or digest_needed) and metadata.get("digest") != digest(tensors, facts):
            raise ValueError("its digest is that of other contents")
    except Exception as error:  # safetensors has one class for everything that a damaged file can be
        raise ValueError(f"{path} is not a whole safetensors file: {error}") from None
    return tensors, about


def digest(tensors: Mapping[str, Tensor], facts: str) -> str:
    """Return the SHA-256 of the facts and of every tensor: name, dtype, shape, bytes."""
    found = hashlib.sha256(facts.encode())
    for name, tensor in sorted(tensors.items()):
        found.update(json.dumps([name, str(tensor.dtype), tensor.shape]).encode())
        found.update(tensor.flatten().view(torch.uint8).numpy())
    return found.hexdigest()
