"""The same tensors under four sets of names, and the conversion from ours to another set and back.

In a name, `*` stands for weight and for bias, and `{i}` for the number of the block. A name that begins with a dot
continues the block's. `[q|k|v]` are three tensors that are one tensor of ours. `-` marks a missing layer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache

import torch
from torch import Tensor

NAMES = """
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

POSITION = "embeddings.position.table"  # (T, D); in the other libraries, too, but there it is a batch of one


def as_theirs(tensors: Mapping[str, Tensor], library: str) -> dict[str, Tensor]:
    """Return our tensors (weights, or their gradients) under a library's names and in its shapes."""
    found = {}
    for ours, tensor in tensors.items():
        names = names_of(ours, library)
        parts = [tensor[None]] if ours == POSITION else tensor.chunk(len(names))
        found |= zip(names, parts, strict=True)
    return found


def as_ours(tensors: Mapping[str, Tensor], library: str, names: Iterable[str]) -> dict[str, Tensor]:
    """Return those of our tensors that are named, out of a library's."""
    found = {ours: torch.cat([tensors[name] for name in names_of(ours, library)]) for ours in names}
    return found | ({POSITION: found[POSITION][0]} if POSITION in found else {})


def names_of(ours: str, library: str) -> tuple[str, ...]:
    """Return a library's names for one tensor of ours: three for `[q|k|v]`. Raises ValueError if it has none."""
    block, number, rest, end = re.fullmatch(r"(encoder\.(\d+))?(.*?)(weight|bias)?", ours).groups("")
    names = column(library)
    theirs = names.get(f"{rest}*" if end else rest, "-")
    if theirs == "-":
        raise ValueError(f"a Vision Transformer of {library} has no {ours}")
    if block:
        theirs = names["encoder.{i}"].replace("{i}", number) + theirs
    theirs = theirs.replace("*", end)
    if choices := re.search(r"\[(.*)\]", theirs):
        return tuple(theirs.replace(choices[0], part) for part in choices[1].split("|"))
    return (theirs,)


@cache
def column(library: str) -> dict[str, str]:
    """Return the table's rows as {our name: theirs}."""
    header, *rows = (re.split(r"  +", line) for line in NAMES.strip().splitlines() if line)
    return {row[0]: row[header.index(library)] for row in rows}
