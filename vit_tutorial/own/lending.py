"""A model of the reader's class: its layers compute with weights that layers of ours lend them."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import astuple, replace
from functools import partial

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.module import _global_forward_pre_hooks
from torch.nn.utils import parameters_to_vector

from ..checks import check
from ..checks.modules import ModuleExercise, build
from ..checks.probes import Pair, noise
from ..checks.running import Wrong
from ..config import ViTConfig
from ..model import VisionTransformer
from .source import written_in


class Lender(nn.Module):
    """Mixed into a layer of ours: it lends its weights, cut to fit, to the reader's layer, which computes with them."""

    def forward(self, x: Tensor) -> Tensor:
        return self.computes(x)

    @property
    def computes(self) -> Callable:
        """What computes: the reader's layer; ours, while hooks look inside, as those of `record_attention` do."""
        hooked = _global_forward_pre_hooks or any(p._forward_hooks or p._forward_pre_hooks for p in self.children())
        return super().forward if hooked else partial(functional_call, self.borrower[0], self.lent())

    def lent(self) -> dict[str, Tensor]:
        """Return the weights cut to fit the reader's layer, under its names."""
        theirs = dict(self.borrower[0].named_parameters())
        row = parameters_to_vector(self.parameters()).index_select(0, self.order)
        parts = row.split([weight.numel() for weight in theirs.values()])
        return {name: part.view_as(theirs[name]) for name, part in zip(theirs, parts, strict=True)}


def lend(ours: nn.Module, theirs: nn.Module, order: Tensor) -> nn.Module:
    """Let a layer of ours lend its weights, put into this order, to the reader's."""
    ours.borrower = [theirs]  # in a list, so that its own weights are none of the model's
    ours.register_buffer("order", order, persistent=False)
    ours.__class__ = type(type(theirs).__name__, (Lender, type(ours)), {})
    return ours


def find_order(exercise: ModuleExercise, theirs: nn.Module, ours: nn.Module, args: tuple, x: Tensor) -> Tensor:
    """Return where in a row of our weights each of the reader's stands; raise Wrong where their names do not tell."""
    pair = Pair(build(lambda *args: deepcopy(theirs), args, x, {}), exercise.answer(*args).eval(), args, x)
    ways, doubt = exercise.match(pair, {})
    if doubt:
        raise Wrong(doubt)
    pair.share(ways, pair.mine(x))  # takes the way in which both compute the same, or nearly
    names = [name.removeprefix("patches.").removesuffix(".table") for name, _ in ours.named_parameters()]
    if missing := [name for name in names if name not in pair.places]:
        raise Wrong(f"it has no `{missing[0]}`, and the weights that others publish have one")
    return torch.cat([pair.places[name] for name in names]).argsort()


def built(model: VisionTransformer, make: Callable) -> VisionTransformer:
    """Build a model by the reader's class, with the weights of another; raise some error where that cannot be."""
    size, P, C, _, D, _, h, M = sizes = astuple(model.config)[:8]
    made, ours, tokens = make(*sizes), VisionTransformer(model.config), noise(1, 4, D)
    made.encoder = nn.Sequential(*made.encoder)
    order = find_order(check.embeddings, made.embeddings, ours.embeddings, (size, P, C, D), noise(1, C, size, size))
    made.embeddings, made.norm, made.head = lend(ours.embeddings, made.embeddings, order), ours.norm, ours.head
    heads = find_order(check.self_attention, made.encoder[0].attention, ours.encoder[0].attention, (D, h), tokens)
    mlp = find_order(check.mlp, made.encoder[0].mlp, ours.encoder[0].mlp, (D, M), tokens)
    for block, our_block in zip(made.encoder, ours.encoder, strict=True):
        block.norm1, block.attention = our_block.norm1, lend(our_block.attention, block.attention, heads)
        block.norm2, block.mlp = our_block.norm2, lend(our_block.mlp, block.mlp, mlp)
    # Its class is theirs, and ours as well, for all that a model of ours does beside its forward pass.
    made.__class__ = type(type(made).__name__, (VisionTransformer, type(made)), {"forward": type(made).forward})
    made.config, made.card, made.pool = model.config, model.card, ours.pool
    made.load_state_dict(model.state_dict())
    return made.to(next(model.parameters())).train(model.training)


def difference(config: ViTConfig, text: str) -> str:
    """Return how a small model of the file differs from ours with the same random weights; "" if it does not."""
    small = replace(config, image_size=2 * config.patch_size, depth=1, num_classes=3)
    images = noise(2, small.in_channels, small.image_size, small.image_size)
    ours = build(VisionTransformer, (small,), images, {})
    try:
        right, result = ours(images), built(ours, written_in(text)["MyVisionTransformer"]).train()(images)
    except Exception as error:  # of the reader's code
        return str(error) if isinstance(error, Wrong) else f"{type(error).__name__}, {error}"
    same = result.shape == right.shape and (result - right).abs().max() < 1e-4 * right.abs().max()
    return "" if same else "with our weights it computes something else, or has dropout"
