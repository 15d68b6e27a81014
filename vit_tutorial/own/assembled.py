"""A Vision Transformer with parts of a reader's, which loads and saves its weights under our names."""

from collections.abc import Callable, Mapping
from functools import cache
from types import MethodType

import torch
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

from ..checks import Check
from ..checks.modules import Pair
from ..checks.running import Wrong
from ..config import ViTConfig
from ..model import VisionTransformer

CHECK = Check()
PARTS = {  # from the inside out
    "embeddings": CHECK.embeddings,
    "attention": CHECK.self_attention,
    "MLP": CHECK.mlp,
    "block": CHECK.encoder_block,
    "whole": CHECK.vision_transformer,
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
        self.parts, self.our_names = parts, list(super().state_dict())
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

    def readers_layers(self) -> dict[str, nn.Module]:
        """Return the layers whose weights have other names or shapes than ours, by what our names begin with."""
        inside = [f"encoder.{i}.{part}" for i in range(self.config.depth) for part in ("attention", "mlp")]
        layers = {f"{name}.": self.get_submodule(name) for name in ("embeddings", *inside)}
        return {name: layer for name, layer in layers.items() if hasattr(layer, "places")}

    def state_dict(self) -> dict[str, Tensor]:
        """Return all weights under our names, in our shapes."""
        found = super().state_dict()
        for name, layer in self.readers_layers().items():
            row = parameters_to_vector(layer.parameters()).detach()
            found |= {name + key: row[places] for key, places in layer.places.items()}
        return {name: found[name] for name in self.our_names}

    def load_state_dict(self, tensors: Mapping[str, Tensor], strict: bool = True):
        """Copy weights with our names into the layers, cut to fit. Errors are those of a VisionTransformer."""
        with torch.device("meta"):  # where nothing is computed
            ours = VisionTransformer(self.config)
        result, layers = ours.load_state_dict(tensors, strict, assign=True), self.readers_layers()
        others = {name: tensor for name, tensor in tensors.items() if not name.startswith(tuple(layers))}
        super().load_state_dict(others, strict=False)
        for name, layer in layers.items():
            row = parameters_to_vector(layer.parameters()).detach()
            for key, places in layer.places.items():
                if name + key in tensors:
                    row[places] = tensors[name + key].to(row)
            vector_to_parameters(row, layer.parameters())
        return result


def built(model: VisionTransformer, parts: Mapping[str, Callable]) -> Assembled:
    """Build a model with the parts of a reader, and the weights of another model. None of them is frozen."""
    with torch.random.fork_rng(devices=[]):  # the reader's random numbers stay: these weights are replaced at once
        made = Assembled(model.config, parts).to(next(model.parameters()))
    made.load_state_dict(model.state_dict())
    made.card = model.card
    return made.train(model.training)


def adopted(part: str, parts: Mapping[str, Callable], args: tuple, ours: nn.Module) -> nn.Module:
    """Return the reader's layer in the place of ours, if there is one.

    Its `places` say where the values of our weights stand among all of its own, in one row.
    """
    if part not in parts:
        return ours
    made, found = parts[part](*args), match(part, parts[part], args)
    made.places = {}
    for name, weight in ours.named_parameters():
        places = found.get(IN_THE_EXERCISE.get(name, name))
        if places is None:
            raise Wrong(f"it has no `{name}`, and the weights that others publish have one")
        made.places[name] = places.view(weight.shape)
    return made


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
                attention.projection = layer  # whatever the reader calls it
            else:
                attention.makers.append((layer, "qkv" if role == "qkv" else role[0]))
