"""A Vision Transformer with parts of a reader's, which loads and saves its weights under our names."""

from collections.abc import Callable, Mapping
from functools import cache
from operator import attrgetter
from types import MethodType

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from ..checks import check
from ..checks.modules import Pair
from ..checks.running import Wrong
from ..config import ViTConfig
from ..model import VisionTransformer

PARTS = {  # from the inside out
    "embeddings": check.embeddings,
    "attention": check.self_attention,
    "MLP": check.mlp,
    "block": check.encoder_block,
    "whole": check.vision_transformer,
}
IN_THE_EXERCISE = {  # our names that the exercise on Eq. 1 has not
    "patches.projection.weight": "projection.weight",
    "patches.projection.bias": "projection.bias",
    "position.table": "position",
}


class Assembled(VisionTransformer):
    """A VisionTransformer in which some parts are a reader's classes. Norms and head are ours, PyTorch's layers.

    Of the reader's block and whole the `forward` runs here, around the parts, which have the names that the exercises
    ask for.
    """

    def __init__(self, config: ViTConfig, parts: Mapping[str, Callable]):
        super().__init__(config)
        self.parts = parts
        D, h, M = config.embed_dim, config.num_heads, config.mlp_dim
        sizes = (config.image_size, config.patch_size, config.in_channels, D)
        self.embeddings = adopted("embeddings", parts, sizes, self.embeddings)
        for block in self.encoder:
            block.attention = adopted("attention", parts, (D, h), block.attention)
            block.mlp = adopted("MLP", parts, (D, M), block.mlp)
            if "attention" in parts:
                let_look_into(block.attention, h, config.head_dim)
            if "block" in parts:
                block.forward = MethodType(parts["block"].forward, block)

    def forward(self, images: Tensor) -> Tensor:
        return self.parts.get("whole", VisionTransformer).forward(self, images)

    def positions(self) -> Tensor:
        return self.state_dict()["embeddings.position.table"]


def built(model: VisionTransformer, parts: Mapping[str, Callable]) -> Assembled:
    """Build a model with the parts of a reader, and the weights of another model. None of them is frozen."""
    with torch.random.fork_rng(devices=[]):  # the reader's random numbers stay: these weights are replaced at once
        made = Assembled(model.config, parts).to(next(model.parameters()))
    made.load_state_dict(model.state_dict())
    made.card = model.card
    return made.train(model.training)


def adopted(part: str, parts: Mapping[str, Callable], args: tuple, ours: nn.Module) -> nn.Module:
    """Return the reader's layer in the place of ours, if there is one.

    Its `places` say where the values of our weights stand among all of its own, in one row; its `names` are its own.
    """
    if part not in parts:
        return ours
    made, found = parts[part](*args), match(part, parts[part], args)
    made.places, made.names = {}, list(made.state_dict())
    for name, weight in ours.named_parameters():
        places = found.get(IN_THE_EXERCISE.get(name, name))
        if places is None:
            raise Wrong(f"it has no `{name}`, and the weights that others publish have one")
        made.places[name] = places.view(weight.shape)
    made.register_state_dict_post_hook(save_as_ours)
    made.register_load_state_dict_pre_hook(load_as_ours)
    return made


def save_as_ours(layer: nn.Module, tensors: dict[str, Tensor], prefix: str, metadata: Mapping) -> None:
    """Replace the weights of a reader's layer in a state_dict by the same values under our names, in our shapes."""
    row = parameters_to_vector(layer.parameters()).detach()
    for name in layer.names:
        del tensors[prefix + name]
    tensors |= {prefix + name: row[places] for name, places in layer.places.items()}


def load_as_ours(layer, tensors: dict[str, Tensor], prefix: str, metadata, strict, missing, unexpected, errors) -> None:
    """Copy weights with our names into a reader's layer, cut to fit, and put its own into their place."""
    row = parameters_to_vector(layer.parameters()).detach()
    for name, places in layer.places.items():
        weight = tensors.pop(prefix + name, None)
        if weight is None:
            missing.append(prefix + name)
        elif weight.shape != places.shape:
            errors.append(f"{prefix}{name} is {tuple(weight.shape)}, and {tuple(places.shape)} is asked")
        else:
            row[places] = weight.to(row)
    vector_to_parameters(row, layer.parameters())
    tensors |= {prefix + name: attrgetter(name)(layer) for name in layer.names}


@cache
def match(part: str, cls: Callable, args: tuple) -> dict[str, Tensor]:
    """Return where the exercise's weights stand among a reader's. Raises Wrong where it does not know them by name."""
    exercise = PARTS[part]
    ways, doubt = exercise.match(Pair(cls(*args), exercise.answer(*args), args, torch.empty(0)), {})
    if doubt:
        raise Wrong(doubt)
    return ways[0]  # the plain order


def let_look_into(attention: nn.Module, num_heads: int, head_dim: int) -> None:
    """Say which layers make q, k and v, and which joins the heads, as `analysis.record_attention` asks for it."""
    attention.num_heads, attention.head_dim, attention.attention_dropout = num_heads, head_dim, 0.0
    attention.makers, words = [], PARTS["attention"].words
    for name, layer in list(attention.named_modules()):
        role = next((words[word] for word in name.lower().split(".") if word in words), "")
        if role and isinstance(layer, nn.Linear):
            if role == "projection":
                vars(attention)["projection"] = layer  # whatever the reader calls it; under one name in a file
            else:
                attention.makers.append((layer, "qkv" if role == "qkv" else role[0]))
