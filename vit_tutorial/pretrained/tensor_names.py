"""The same tensors under five sets of names, as two tables, and the way from one set to the other and back.

In a name, `*` stands for weight and for bias, `{i}` for the number of the block; a name that begins with a dot or a
slash goes on from the block's. `[q|k|v]`: they keep apart what is one tensor here. `-`: they have no such layer.
Libraries that are written in PyTorch differ from ours in names alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import NamedTuple

import torch
from einops import rearrange
from torch import Tensor

PYTORCH = """
ours                             torchvision            timm                transformers
embeddings.patches.projection.*  conv_proj.*            patch_embed.proj.*  vit.embeddings.patch_embeddings.projection.*
embeddings.class_token           class_token            cls_token           vit.embeddings.cls_token
embeddings.position.table        encoder.pos_embedding  pos_embed           vit.embeddings.position_embeddings
norm.*                           encoder.ln.*           norm.*              vit.layernorm.*
head.*                           heads.head.*           head.*              classifier.*
head.representation.*            heads.pre_logits.*     -                   -
head.classifier.*                heads.head.*           -                   -

encoder.{i}              encoder.layers.encoder_layer_{i}  blocks.{i}    vit.layers.{i}
.norm1.*                 .ln_1.*                           .norm1.*      .layernorm_before.*
.attention.qkv.*         .self_attention.in_proj_*         .attn.qkv.*   .attention.[q|k|v]_proj.*
.attention.projection.*  .self_attention.out_proj.*        .attn.proj.*  .attention.o_proj.*
.norm2.*                 .ln_2.*                           .norm2.*      .layernorm_after.*
.mlp.expand.*            .mlp.0.*                          .mlp.fc1.*    .mlp.fc1.*
.mlp.contract.*          .mlp.3.*                          .mlp.fc2.*    .mlp.fc2.*
"""

# JAX multiplies from the other side (a kernel is ours transposed), and keeps the heads as an axis of their own: where
# the axes differ, the last two columns name them, as einops does.
GOOGLE = """
ours                                  google                                      our axes  their axes
embeddings.patches.projection.weight  embedding/kernel                            D C P Q   P Q C D
embeddings.patches.projection.bias    embedding/bias
embeddings.class_token                cls
embeddings.position.table             Transformer/posembed_input/pos_embedding    T D       1 T D
norm.weight                           Transformer/encoder_norm/scale
norm.bias                             Transformer/encoder_norm/bias
head.weight                           head/kernel                                 K D       D K
head.bias                             head/bias
head.representation.weight            pre_logits/kernel                           R D       D R
head.representation.bias              pre_logits/bias
head.classifier.weight                head/kernel                                 K R       R K
head.classifier.bias                  head/bias

encoder.{i}                   Transformer/encoderblock_{i}
.norm1.weight                 /LayerNorm_0/scale
.norm1.bias                   /LayerNorm_0/bias
.attention.qkv.weight         /MultiHeadDotProductAttention_1/[query|key|value]/kernel  (h d) D  D h d
.attention.qkv.bias           /MultiHeadDotProductAttention_1/[query|key|value]/bias    (h d)    h d
.attention.projection.weight  /MultiHeadDotProductAttention_1/out/kernel                D (h d)  h d D
.attention.projection.bias    /MultiHeadDotProductAttention_1/out/bias
.norm2.weight                 /LayerNorm_2/scale
.norm2.bias                   /LayerNorm_2/bias
.mlp.expand.weight            /MlpBlock_3/Dense_0/kernel                                M D      D M
.mlp.expand.bias              /MlpBlock_3/Dense_0/bias
.mlp.contract.weight          /MlpBlock_3/Dense_1/kernel                                D M      M D
.mlp.contract.bias            /MlpBlock_3/Dense_1/bias
"""

POSITION_TABLE = "embeddings.position.table"


class Name(NamedTuple):
    """What a library calls one tensor of ours (three names for `[q|k|v]`), and the axes of ours and of theirs."""

    theirs: tuple[str, ...]
    axes: tuple[str, str]


def as_theirs(tensors: Mapping[str, Tensor], library: str, num_heads: int) -> dict[str, Tensor]:
    """Tensors of ours (weights, or their gradients) under a library's names and with its axes."""
    found = {}
    for ours, tensor in tensors.items():
        name = name_of(ours, library)
        parts = (turn(part, *name.axes, num_heads) for part in tensor.chunk(len(name.theirs)))
        found |= zip(name.theirs, parts, strict=True)
    return found


def as_ours(tensors: Mapping[str, Tensor], library: str, names: Iterable[str], num_heads: int) -> dict[str, Tensor]:
    """The way back: those of our tensors that are named, out of a library's."""
    found = {}
    for ours in names:
        theirs, (our_axes, their_axes) = name_of(ours, library)
        found[ours] = torch.cat([turn(tensors[name], their_axes, our_axes, num_heads) for name in theirs])
    return found


def turn(tensor: Tensor, axes: str, new_axes: str, num_heads: int) -> Tensor:
    """The axes renamed and put in another order: `rearrange("D h d -> (h d) D")`."""
    return rearrange(tensor, f"{axes} -> {new_axes}", **({"h": num_heads} if "h" in axes else {}))


def name_of(ours: str, library: str) -> Name:
    """Raises ValueError where the library has no such tensor."""
    general = re.sub(r"^encoder\.\d+", "encoder.{i}", ours)
    if (name := table(library).get(general)) is None:
        raise ValueError(f"a Vision Transformer of {library} has no {ours}")
    layer = ours.split(".")[1]
    return Name(tuple(theirs.replace("{i}", layer) for theirs in name.theirs), name.axes)


@cache
def table(library: str) -> dict[str, Name]:
    """One column of the tables above, a row for each tensor: {our name: theirs, with axes}."""
    outside, blocks = (GOOGLE if library == "google" else PYTORCH).strip().split("\n\n")
    header, *outside = outside.splitlines()
    column = re.split(r"  +", header).index(library)
    our_block, *_ = their_block = re.split(r"  +", blocks.splitlines()[0])
    rows = [("", "", line) for line in outside]
    rows += [(our_block, their_block[column], line) for line in blocks.splitlines()[1:]]
    return {
        (our_prefix + ours).replace("*", end): Name(alternatives((prefix + theirs).replace("*", end)), axes)
        for our_prefix, prefix, line in rows
        for ours, theirs, axes in [read_row(line, column, library)]
        for end in (("weight", "bias") if "*" in ours else ("",))
        if theirs != "-"
    }


def read_row(line: str, column: int, library: str) -> tuple[str, str, tuple[str, str]]:
    cells = re.split(r"  +", line)
    axes = tuple(cells[2:]) if library == "google" else ()
    if cells[0] == POSITION_TABLE:
        axes = ("T D", "1 T D")  # in PyTorch too: a batch of one
    return cells[0], cells[column], axes or ("...", "...")


def alternatives(name: str) -> tuple[str, ...]:
    """ "[q|k|v]_proj" becomes ("q_proj", "k_proj", "v_proj")."""
    before, *rest = re.split(r"\[(.*)\]", name)
    return tuple(before + choice + rest[1] for choice in rest[0].split("|")) if rest else (before,)
