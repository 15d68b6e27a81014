"""The weights of a reader's Vision Transformer, found by their sizes, and what they tell on their own."""

from __future__ import annotations

from typing import NamedTuple

import torch
from einops import rearrange

from .block_weights import BlockParts, BlockReading, check_hidden, read_block, sort_layers
from .embedding_mistakes import NO_CLASS_POSITION
from .layouts import Layout
from .model_mistakes import EQ1, EQ4, ModelWeights
from .modules import Layer, Trial, paired
from .rearranging import OURS
from .verdict import Wrong


class ModelReading(NamedTuple):
    """Which norm of a block comes first, where the final norm is registered, how attention and patches are laid out."""

    norms: tuple[int, int] = (0, 1)
    final: int = -1
    layout: Layout | None = None
    order: str = OURS


class ModelParts(NamedTuple):
    """The layers of a model sorted by what they are for; `blocks` holds those of all blocks and the final norm."""

    patch: list[Layer]
    head: list[Layer]
    class_token: list[torch.Tensor]
    position: list[torch.Tensor]  # one for all tokens, or the class token's and the patches'
    of_patches: list[torch.Tensor]  # positions for the patches only
    blocks: BlockParts


def model_parts(trial: Trial) -> ModelParts:
    (c,), parts = trial.args, trial.parts
    D = c.embed_dim
    tokens = D, c.num_tokens * D, c.num_patches * D
    matrices = paired([(name, p) for name, p in parts.loose if p.numel() not in tokens], 3 * D)
    layers = [*parts.layers, *matrices]
    patch, head = (
        [layer for layer in layers if layer.sizes == size] for size in ((D, c.patch_dim), (c.num_classes, D))
    )
    rest = [layer for layer in layers if layer.sizes not in ((D, c.patch_dim), (c.num_classes, D))]
    class_token, position, of_patches = ([p for _, p in parts.loose if p.numel() == n] for n in tokens)
    if (
        of_patches and not position and len(class_token) == 2
    ):  # the class token has a position of its own: which is which is all one
        position = [class_token.pop(), *of_patches]
    return ModelParts(patch, head, class_token, position, of_patches, sort_layers(rest, parts.norms, D, c.num_heads))


def read_model(trial: Trial, reading: ModelReading) -> ModelWeights | None:
    """The weights of the whole model, or None if its parts cannot be read so."""
    (c,), parts = trial.args, model_parts(trial)
    norms = list(parts.blocks.norms)
    final = norms.pop(reading.final)
    blocks = parts.blocks._replace(norms=norms)
    block = BlockReading(reading.norms, reading.layout)
    blocks = [read_block(blocks.one(i, c.depth), block, c.embed_dim, c.num_heads) for i in range(c.depth)]
    if None in blocks:
        return None
    (patch,), (head,), C, P = parts.patch, parts.head, c.in_channels, c.patch_size
    matrix = patch.rows(c.patch_dim)
    return ModelWeights(
        rearrange(matrix, f"D ({reading.order}) -> D ({OURS})", C=C, P=P, Q=P),
        patch.bias,
        parts.class_token[0].reshape(1, -1),
        torch.cat([p.reshape(-1, c.embed_dim) for p in parts.position]),
        blocks,
        final,
        head.rows(c.embed_dim),
        head.bias,
        P,
        c.pool,
    )


def check_model_parts(trial: Trial) -> ModelParts:
    """The parts of the model. Raises Wrong, with what there is, if they are not those of Eqs. 1-4."""
    (c,), parts = trial.args, model_parts(trial)
    D, T, L = c.embed_dim, c.num_tokens, c.depth
    check_depth(trial, parts.blocks.contract, L)
    check_hidden(parts.blocks.contract[0].sizes[1], c.mlp_dim, D)
    needed = [
        (parts.patch, f"linear layer for the patches, from C·P·P = {c.patch_dim} to D = {D} numbers", EQ1),
        (parts.class_token, f"parameter of D = {D} numbers for the class token", EQ1),
        (parts.position[:1], f"parameter of (1+N)·D = {T}·{D} numbers for the positions", EQ1),
        (parts.head, f"linear layer for the head, from D = {D} numbers to K = {c.num_classes} classes", EQ4),
    ]
    if parts.of_patches and not parts.position:
        raise Wrong(NO_CLASS_POSITION, EQ1)
    for found, what, hint in needed:
        if len(found) != 1:
            raise Wrong(f"The model needs one {what}. Among its parameters there are {len(found)}.", hint)
    if len(parts.blocks.norms) != 2 * L + 1:
        missing = " Is the final one missing?" if len(parts.blocks.norms) == 2 * L else ""
        raise Wrong(
            f"There are {len(parts.blocks.norms)} LayerNorms among the parameters. Two in each of {L} blocks and one "
            f"after the last block make {2 * L + 1}.{missing}",
            EQ4,
        )
    matrices = sum(layer.weight.numel() for layer in parts.blocks.attention) / D**2
    if matrices > 4 * L:
        raise Wrong(
            f"There is a linear layer from D to D numbers too many: q, k, v and the output of {L} blocks are {4 * L} "
            f"matrices of D×D, and your model has {matrices:g}. Is there a second one after the patch projection?",
            "Eq. 1 has one linear map E from a patch to a token, and Eq. 4 one from y to the logits.",
        )
    return parts


def check_depth(trial: Trial, found: list[Layer], depth: int) -> None:
    """Raise Wrong unless `depth` blocks are registered; `found` has one layer of each block."""
    if len(found) == depth:
        return
    shared = ""
    if len(found) == 1 and calls(trial, found[0]) == depth:
        shared = f" All {depth} places share one block's weights, as `[block] * depth` makes it."
    raise Wrong(
        f"A model of depth {depth} has the weights of {depth} blocks; yours has those of {len(found)}.{shared}",
        "Build a new block for each layer: `nn.ModuleList(EncoderBlock(...) for _ in range(config.depth))`.",
    )


def calls(trial: Trial, layer: Layer) -> int:
    """How often the module that holds this layer's weight is called for one input."""
    counted = []
    owner = trial.module.get_submodule(layer.name.rpartition(".")[0])
    handle = owner.register_forward_hook(lambda *_: counted.append(owner))
    trial.run()
    handle.remove()
    return len(counted)


def check_starts(trial: Trial, parts: ModelParts) -> None:
    """Raise Wrong if all blocks start from the same random numbers."""
    starts = [trial.initial[layer.name] for layer in parts.blocks.contract if not layer.raw]
    if len(starts) > 1 and starts[0].std() > 0 and all(start.equal(starts[0]) for start in starts):
        raise Wrong(
            "All blocks start with the same weights: copies of one block, or the same seed for each.",
            "A block drawn anew for each layer starts from numbers of its own. `copy.deepcopy` copies the weights too, "
            "and so does `nn.TransformerEncoder`: draw them again after building it.",
        )
