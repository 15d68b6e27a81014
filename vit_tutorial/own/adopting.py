"""A reader's layer in the place of ours: its weights go in and out under our names."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from operator import attrgetter

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from ..checks import check
from ..checks.modules import build
from ..checks.probes import Pair, noise
from ..checks.running import Wrong

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
HIDDEN = "its attention cannot be looked into: q, k, v and output are `nn.Linear`, called once, with all tokens"


def adopted(part: str, cls: Callable, args: tuple, ours: nn.Module) -> nn.Module:
    """Build the reader's layer that stands in the place of ours.

    Its `places` say where the values of our weights stand among all of its own, in one row; its `names` are its own.
    Raises Wrong where it cannot have our weights.
    """
    made, found = cls(*args), match(part, cls, args)
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


@lru_cache(maxsize=8)  # all blocks of a model are alike
def match(part: str, cls: Callable, args: tuple) -> Mapping[str, Tensor]:
    """Return where the exercise's weights stand among a reader's: in the order in which both compute the same.

    Where there is none, the order is the likeliest. Raises Wrong where it does not know them by name.
    """
    exercise = PARTS[part]
    x = noise(1, args[2], args[0], args[0]) if part == "embeddings" else noise(1, 4, args[0])  # an image, or tokens
    pair = Pair(build(cls, args, x, {}), exercise.answer(*args).eval(), args, x)
    ways, doubt = exercise.match(pair, {})
    if doubt:
        raise Wrong(doubt)
    with torch.no_grad():
        pair.share(ways, pair.mine(x))
    return pair.places


def let_look_into(attention: nn.Module, num_heads: int, head_dim: int) -> None:
    """Say which layers make q, k and v, in which order, and which joins the heads, as `record_attention` asks for it.

    Names do not tell: what is called `query` may be the keys, and one layer may hold q, k and v head by head.
    """
    places = torch.arange(sum(parameter.numel() for parameter in attention.parameters())).float()
    vector_to_parameters(places, attention.parameters())  # each weight is its own place, until others are loaded
    qkv, joining = attention.places["qkv.weight"][:, 0], attention.places["projection.weight"][0]
    layers = [layer for layer in attention.modules() if isinstance(layer, nn.Linear)]
    attention.makers = [layer for layer in layers if torch.isin(layer.weight[:, 0], qkv).all()]
    made = torch.cat([qkv[:0], *(layer.weight[:, 0] for layer in attention.makers)])
    joins = [layer for layer in layers if layer.weight[0].equal(joining.float())]
    if len(made) != len(qkv) or not joins:
        raise Wrong(HIDDEN)
    attention.qkv_order = (qkv[:, None] == made).nonzero()[:, 1]
    vars(attention)["projection"] = joins[0]  # whatever the reader calls it; under one name in a file
    attention.num_heads, attention.head_dim, attention.attention_dropout = num_heads, head_dim, 0.0
