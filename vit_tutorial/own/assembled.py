"""A Vision Transformer with parts of a reader's, which loads and saves its weights under our names."""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from ..checks.running import Wrong
from ..config import ViTConfig
from ..model import VisionTransformer
from .adopting import PARTS, adopted, let_look_into


class Assembled(VisionTransformer):
    """A VisionTransformer in which some parts are a reader's."""

    def positions(self) -> Tensor:
        return self.state_dict()["embeddings.position.table"]  # under whatever name they have it


def built(model: VisionTransformer, parts: Mapping[str, Callable]) -> VisionTransformer:
    """Build a model with the parts of a reader, and the weights of another model. None of them is frozen.

    Raises Wrong where a part cannot stand in the place of ours.
    """
    with torch.random.fork_rng(devices=[]):  # the reader's random numbers stay: these weights are replaced at once
        made = assembled(model.config, parts).to(next(model.parameters()))
    made.load_state_dict(model.state_dict())
    made.card = model.card
    return made.train(model.training)


def assembled(config: ViTConfig, parts: Mapping[str, Callable]) -> VisionTransformer:
    """Put the reader's layers into our model, then what they do into their block, and the blocks into their whole."""
    model = Assembled(config)
    D, h, M = config.embed_dim, config.num_heads, config.mlp_dim
    sizes = (config.image_size, config.patch_size, config.in_channels, D)
    if "embeddings" in parts:
        model.embeddings = adopted("embeddings", parts["embeddings"], sizes, model.embeddings)
    for i, block in enumerate(model.encoder):
        if "attention" in parts:
            block.attention = adopted("attention", parts["attention"], (D, h), block.attention)
            let_look_into(block.attention, h, config.head_dim)
        if "MLP" in parts:
            block.mlp = adopted("MLP", parts["MLP"], (D, M), block.mlp)
        if "block" in parts:
            model.encoder[i] = filled("block", parts["block"](D, h, M), block)
    if "whole" in parts:
        theirs = parts["whole"](*sizes[:3], config.num_classes, D, config.depth, h, M)
        return extended(filled("whole", theirs, model), model)
    return model


def filled(part: str, theirs: nn.Module, ours: nn.Module) -> nn.Module:
    """Put our parts, which may be the reader's layers by now, into a module that their own `__init__` made."""
    for name in PARTS[part].names:
        if name not in theirs._modules:
            raise Wrong(f"it has no `{name}`: later lessons look for its parts by these names")
        setattr(theirs, name, getattr(ours, name))
    return theirs


def extended(theirs: nn.Module, ours: VisionTransformer) -> nn.Module:
    """Let the reader's own object do what else our models do. Its class is theirs, and a VisionTransformer as well."""
    plain = {*dir(nn.Module()), *PARTS["whole"].names}
    if taken := sorted({*dir(theirs)} & {*dir(ours)} - plain):
        raise Wrong(f"all models here have a `{taken[0]}` of ours: give yours another name")
    theirs.__class__ = type(type(theirs).__name__, (type(theirs), Assembled), {"__module__": type(theirs).__module__})
    theirs.config, theirs.pool = ours.config, ours.pool
    return theirs
