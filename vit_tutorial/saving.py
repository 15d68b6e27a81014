"""A model as one file: its weights, its configuration and its card, in safetensors, which cannot hold code."""

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from .config import ViTConfig
from .errors import not_ours
from .files import as_path, write_atomically
from .hybrid import is_hybrid
from .model import VisionTransformer
from .model_card import ModelCard


def save_model(model: nn.Module, path: str | Path) -> Path:
    """Write the weights, in float32, with everything needed to build the model again; return the path.

    A wrapper (torch.compile, DataParallel) is taken off first. Raises ValueError for what `load_model` could not
    read: a hybrid, whose backbone is code, and weights that do not fit the configuration or are not finite.
    """
    model, card = as_vit(model), find_card(model)
    if is_hybrid(model):
        raise ValueError("a backbone is code, and this file holds numbers: save model.state_dict(), and build it again")
    tensors = {name: tensor.float() for name, tensor in model.state_dict().items()}
    build_model(model.config, tensors, card)  # what could not be loaded is not saved
    return write_tensors(path, tensors, {"config": asdict(model.config), "card": card and asdict(card)})


def load_model(path: str | Path) -> VisionTransformer:
    """Build the model of a file that `save_model` wrote, in float32 and in eval mode.

    Raises OSError for a file that cannot be read, and ValueError for one that is damaged or is something else.
    """
    tensors, about = read_tensors(path)
    if "config" not in about:
        raise ValueError(f"{path} holds no configuration: it was not written by save_model")
    try:
        # JSON has a list where the configuration has a tuple; the card makes tuples itself.
        facts = {name: tuple(value) if isinstance(value, list) else value for name, value in about["config"].items()}
        card = ModelCard(**about["card"]) if about.get("card") else None
        return build_model(ViTConfig(**facts), tensors, card).eval()
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} holds no VisionTransformer that this version can build: {error}") from None


def build_model(config: ViTConfig, tensors: Mapping[str, Tensor], card: ModelCard | None) -> VisionTransformer:
    """Build a model with these weights and this card. Raises ValueError unless all fit, and weights are finite."""
    if card and len(card.mean) != config.in_channels:
        raise ValueError(f"the card is for {len(card.mean)} channels, the configuration for {config.in_channels}")
    for name, tensor in tensors.items():
        if not tensor.isfinite().all():
            raise ValueError(f"{name} holds numbers that are not finite (nan or inf)")
    with torch.random.fork_rng(devices=[]):  # the reader's random numbers stay: these weights are replaced at once
        model = VisionTransformer(config).to(next(iter(tensors.values()), torch.empty(0)))  # their dtype, device
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        raise ValueError(f"the tensors are not those of the configuration: {error}") from None
    model.card = card
    return model


def unwrapped(model: nn.Module) -> nn.Module:
    """Return the model that torch.compile, DataParallel or DistributedDataParallel was given."""
    while hasattr(model, "_orig_mod") or isinstance(model, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        model = getattr(model, "_orig_mod", None) or model.module
    return model


def find_card(model: nn.Module) -> ModelCard | None:
    """Return the card of the model, or of the one inside its wrapper."""
    return getattr(model, "card", None) or getattr(unwrapped(model), "card", None)


def as_vit(model: nn.Module) -> VisionTransformer:
    """Return the model without its wrapper; raise ValueError if it is none of ours."""
    model = unwrapped(model)
    if not isinstance(model, VisionTransformer):
        raise not_ours(model)
    return model


def write_tensors(path: str | Path, tensors: Mapping[str, Tensor], about: Mapping) -> Path:
    """Write tensors and facts (anything that JSON can say) into one file, atomically; return its path."""
    path = as_path("path", path)
    # Copies: safetensors takes no weights that two layers share.
    tensors = {name: tensor.detach().to("cpu", copy=True).contiguous() for name, tensor in tensors.items()}
    write_atomically(path, save(tensors, {"about": json.dumps(about)}))
    return path


def read_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict]:
    """Return the tensors and the facts that `write_tensors` put into a file. Errors are those of `load_model`."""
    path = as_path("path", path)
    content = path.read_bytes()  # all of it: Windows cannot replace a file that is still mapped into memory
    try:
        tensors = load(content)
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        about = json.loads(header.get("__metadata__", {}).get("about", "{}"))
    except (SafetensorError, ValueError) as error:
        if content[:2] in (b"PK", b"\x80\x02"):  # how torch.save begins a file, today's and that of 2020
            steps = f"model.load_state_dict(torch.load({str(path)!r}, weights_only=True))"
            told = f"With a model of the same sizes: {steps}, then save_model(model, 'model.safetensors')"
            raise ValueError(f"{path} is in PyTorch's own format (torch.save). {told}") from None
        raise ValueError(f"{path} is not a whole safetensors file: {error}") from None
    return tensors, about
