"""A model of the reader's class, whose layers compute with weights that have our names and shapes."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import astuple, replace

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.modules.module import _has_any_global_hook
from torch.nn.utils import parameters_to_vector

from ..checks import check
from ..checks.exercise import Exercise
from ..checks.modules import build
from ..checks.probes import Pair, noise
from ..checks.running import Wrong
from ..config import ViTConfig
from ..model import VisionTransformer
from .source import written_in


class Lent(nn.Module):
    """Mixed into a layer of ours: it runs the reader's layer, and lends it its own weights, cut to fit.

    So weights are saved, loaded and trained as ours are. While somebody looks inside, by hooks, as `record_attention`
    does, it runs as ours, with the same result.
    """

    def forward(self, x: Tensor) -> Tensor:
        if _has_any_global_hook() or any(part._forward_hooks or part._forward_pre_hooks for part in self.children()):
            return super().forward(x)
        return functional_call(self.readers[0], self.cut(), x)

    def cut(self) -> dict[str, Tensor]:
        """Return the weights under the reader's names, in the reader's shapes."""
        theirs = dict(self.readers[0].named_parameters())
        row = parameters_to_vector(self.parameters()).index_select(0, self.order)
        parts = row.split([weight.numel() for weight in theirs.values()])
        return {name: part.view_as(theirs[name]) for name, part in zip(theirs, parts, strict=True)}


def lend(ours: nn.Module, readers: nn.Module, order: Tensor) -> nn.Module:
    """Let a layer of ours run the reader's, whose weights are ours in this order."""
    ours.readers = [readers]  # in a list, so that its own weights are no part of the model
    ours.register_buffer("order", order, persistent=False)
    ours.__class__ = type(type(readers).__name__, (Lent, type(ours)), {})
    return ours


def order_of(exercise: Exercise, readers: nn.Module, ours: nn.Module, args: tuple, x: Tensor) -> Tensor:
    """Return where the weights of a reader's layer stand among ours, both in one row. The exercise knows them.

    Where no order computes the same, it is the likeliest. Raises Wrong where weights are not known, or missing.
    """
    pair = Pair(build(lambda *args: deepcopy(readers), args, x, {}), exercise.answer(*args).eval(), args, x)
    ways, doubt = exercise.match(pair, {})
    if doubt:
        raise Wrong(doubt)
    with torch.no_grad():
        pair.share(ways, pair.mine(x))
    names = [name.removeprefix("patches.").removesuffix(".table") for name, _ in ours.named_parameters()]
    if missing := [name for name in names if name not in pair.views]:
        raise Wrong(f"it has no `{missing[0]}`, and the weights that others publish have one")
    return torch.cat([pair.views[name] for name in names]).argsort()


@torch.random.fork_rng(devices=[])  # the reader's random numbers stay: the weights are replaced at once
def built(model: VisionTransformer, make: Callable) -> VisionTransformer:
    """Build a model by the reader's class, with the weights of another model. None of them is frozen.

    Raises Wrong or another error if its parts have other names than the task says, or its weights are not known.
    """
    size, P, C, _, D, _, h, M = sizes = astuple(model.config)[:8]
    made, ours, tokens = make(*sizes), VisionTransformer(model.config), noise(1, 4, D)
    made.encoder = nn.Sequential(*made.encoder)
    block, our_block = made.encoder[0], ours.encoder[0]
    eq_1 = order_of(check.embeddings, made.embeddings, ours.embeddings, (size, P, C, D), noise(1, C, size, size))
    heads = order_of(check.self_attention, block.attention, our_block.attention, (D, h), tokens)
    mlp = order_of(check.mlp, block.mlp, our_block.mlp, (D, M), tokens)
    made.embeddings, made.norm, made.head = lend(ours.embeddings, made.embeddings, eq_1), ours.norm, ours.head
    for block, our_block in zip(made.encoder, ours.encoder, strict=True):  # all blocks are alike
        block.attention = lend(our_block.attention, block.attention, heads)
        block.norm1, block.mlp, block.norm2 = our_block.norm1, lend(our_block.mlp, block.mlp, mlp), our_block.norm2
    # Its class stays theirs, and is ours as well, for all else that a model of ours does.
    made.__class__ = type(type(made).__name__, (VisionTransformer, type(made)), {"forward": type(made).forward})
    made.config, made.card, made.pool = model.config, model.card, ours.pool
    made.load_state_dict(model.state_dict())
    return made.to(next(model.parameters())).train(model.training)


@torch.no_grad()
def difference(config: ViTConfig, text: str) -> str:
    """Return how a small model of the file differs from ours with the same random weights; "" if it does not."""
    small = replace(config, image_size=2 * config.patch_size, depth=1, num_classes=3)
    images = noise(2, small.in_channels, small.image_size, small.image_size)
    with torch.random.fork_rng(devices=[]):
        ours = build(VisionTransformer, (small,), images, {})
    try:
        right, result = ours(images), built(ours, written_in(text)["MyVisionTransformer"]).train()(images)
    except Exception as error:  # of the reader's code
        return str(error) if isinstance(error, Wrong) else f"{type(error).__name__}, {error}"
    same = result.shape == right.shape and (result - right).abs().max() < 1e-4 * right.abs().max()
    return "" if same else "with our weights it computes something else, or has dropout"
