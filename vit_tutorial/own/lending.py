"""A model of the reader's class: its layers compute with weights that layers of ours lend them."""

from copy import deepcopy
from dataclasses import astuple, replace

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.utils import parameters_to_vector

from ..checks import check
from ..checks.modules import ModuleExercise, build
from ..checks.probes import Pair, noise
from ..checks.running import Wrong
from ..config import ViTConfig
from ..model import VisionTransformer
from .source import written_in


class Lender(nn.Module):
    """Mixed into a layer of ours: it lends its weights to the borrower, a layer of the reader's, which computes."""

    def forward(self, x: Tensor) -> Tensor:
        """Let the borrower compute; ours, while hooks look inside, as those of `record_attention` do."""
        if any(part._forward_hooks or part._forward_pre_hooks for part in self.children()):
            return super().forward(x)
        return functional_call(self.borrower, self.lent(), x)

    def lent(self) -> dict[str, Tensor]:
        """Return the weights cut to fit the borrower, under its names."""
        theirs = dict(self.borrower.named_parameters())
        row = parameters_to_vector(self.parameters()).index_select(0, self.order)
        parts = row.split([weight.numel() for weight in theirs.values()])
        return {name: part.view_as(theirs[name]) for name, part in zip(theirs, parts, strict=True)}


def lender(ours: type[nn.Module], args: tuple, borrower: nn.Module, order: Tensor) -> Lender:
    """Build a layer of our class that lends its weights. Its class is printed under the name of the reader's."""
    layer = type(type(borrower).__name__, (Lender, ours), {})(*args)  # a child of both
    object.__setattr__(layer, "borrower", borrower)  # not as a submodule: the model has our weights alone
    layer.register_buffer("order", order, persistent=False)  # where in a row of ours each of the borrower's stands
    return layer


def find_order(exercise: ModuleExercise, theirs: nn.Module, ours: nn.Module, args: tuple, x: Tensor) -> Tensor:
    """Return where in a row of our weights each of the reader's stands; raise Wrong where their names do not tell."""
    pair = Pair(build(lambda *args: deepcopy(theirs), args, x, {}), exercise.answer(*args).eval(), args, x)
    layouts, doubt = exercise.match(pair, {})
    if doubt:
        raise Wrong(doubt)
    pair.share(layouts, pair.mine(x))  # takes the layout with which both compute the same, or nearly
    names = [name.removeprefix("patches.").removesuffix(".table") for name, _ in ours.named_parameters()]
    if missing := [name for name in names if name not in pair.indices]:
        raise Wrong(f"it has no `{missing[0]}`, and the weights that others publish have one")
    return torch.cat([pair.indices[name] for name in names]).argsort()  # of ours in theirs: sorted, of theirs in ours


def built(model: VisionTransformer, theirs: type[nn.Module]) -> VisionTransformer:
    """Build a model by the reader's class, with the weights of another; raise some error where that cannot be."""

    class MyVisionTransformer(VisionTransformer, theirs):  # ours for all that a model does beside these two
        __init__, forward = theirs.__init__, theirs.forward

    size, P, C, _, D, _, h, M = sizes = astuple(model.config)[:8]  # all that the reader's class is told
    made, ours = MyVisionTransformer(*sizes), VisionTransformer(model.config)
    made.encoder = nn.Sequential(*made.encoder)
    images, tokens = noise(1, C, size, size), noise(1, 4, D)
    order = find_order(check.embeddings, made.embeddings, ours.embeddings, (size, P, C, D), images)
    made.embeddings = lender(type(ours.embeddings), (model.config,), made.embeddings, order)
    heads = find_order(check.self_attention, made.encoder[0].attention, ours.encoder[0].attention, (D, h), tokens)
    mlp = find_order(check.mlp, made.encoder[0].mlp, ours.encoder[0].mlp, (D, M), tokens)
    for block, our_block in zip(made.encoder, ours.encoder, strict=True):
        block.norm1, block.norm2 = our_block.norm1, our_block.norm2
        block.attention = lender(type(our_block.attention), (D, h), block.attention, heads)
        block.mlp = lender(type(our_block.mlp), (D, M), block.mlp, mlp)
    made.norm, made.pool, made.head = ours.norm, ours.pool, ours.head
    made.config, made.card = model.config, model.card
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
