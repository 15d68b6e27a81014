"""The same tensors under five sets of names, and the conversion from ours to another set and back.

In a name, `*` stands for weight and for bias, and `{i}` for the number of the block. A name that begins with a dot or
a slash continues the block's. `[q|k|v]` are three tensors that are one tensor of ours. `-` marks a missing layer.
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

GOOGLE = """
ours                             google
embeddings.patches.projection.*  embedding/*
embeddings.class_token           cls
embeddings.position.table        Transformer/posembed_input/pos_embedding
norm.*                           Transformer/encoder_norm/*
head.*                           head/*
head.representation.*            pre_logits/*
head.classifier.*                head/*

encoder.{i}              Transformer/encoderblock_{i}
.norm1.*                 /LayerNorm_0/*
.attention.qkv.*         /MultiHeadDotProductAttention_1/[query|key|value]/*
.attention.projection.*  /MultiHeadDotProductAttention_1/out/*
.norm2.*                 /LayerNorm_2/*
.mlp.expand.*            /MlpBlock_3/Dense_0/*
.mlp.contract.*          /MlpBlock_3/Dense_1/*
"""

# Axes as einops writes them, ours and Google's. JAX multiplies from the other side, so a kernel is our weight
# transposed, and it keeps the heads as an axis of their own. The libraries on PyTorch share our axes, except that
# their positions, too, are a batch of one.
POSITION = "embeddings.position.table"
AXES = {
    "embeddings.patches.projection.weight": ("D C P Q", "P Q C D"),
    POSITION: ("T D", "1 T D"),
    "head.weight": ("K D", "D K"),
    "head.representation.weight": ("R D", "D R"),
    "head.classifier.weight": ("K R", "R K"),
    ".attention.qkv.weight": ("(h d) D", "D h d"),
    ".attention.qkv.bias": ("(h d)", "h d"),
    ".attention.projection.weight": ("D (h d)", "h d D"),
    ".mlp.expand.weight": ("M D", "D M"),
    ".mlp.contract.weight": ("D M", "M D"),
}


class Name(NamedTuple):
    """A library's names for one tensor of ours (three for `[q|k|v]`), with the axes of ours and of theirs."""

    theirs: tuple[str, ...]
    axes: tuple[str, str]


def as_theirs(tensors: Mapping[str, Tensor], library: str, num_heads: int) -> dict[str, Tensor]:
    """Return our tensors (weights, or their gradients) under a library's names and with its axes."""
    found = {}
    for ours, tensor in tensors.items():
        name = name_of(ours, library)
        parts = (turn(part, *name.axes, num_heads) for part in tensor.chunk(len(name.theirs)))
        found |= zip(name.theirs, parts, strict=True)
    return found


def as_ours(tensors: Mapping[str, Tensor], library: str, names: Iterable[str], num_heads: int) -> dict[str, Tensor]:
    """Return those of our tensors that are named, out of a library's."""
    found = {}
    for ours in names:
        theirs, (our_axes, their_axes) = name_of(ours, library)
        found[ours] = torch.cat([turn(tensors[name], their_axes, our_axes, num_heads) for name in theirs])
    return found


def turn(tensor: Tensor, axes: str, new_axes: str, num_heads: int) -> Tensor:
    """Rearrange a tensor's axes: "D h d" to "(h d) D"."""
    return rearrange(tensor, f"{axes} -> {new_axes}", **({"h": num_heads} if "h" in axes else {}))


def name_of(ours: str, library: str) -> Name:
    """Look up a tensor of ours. Raises ValueError where the library has no such tensor."""
    block, number, rest, end = re.fullmatch(r"(encoder\.(\d+))?(.*?)(weight|bias)?", ours).groups("")
    names = column(library)
    theirs = names.get(f"{rest}*" if end else rest, "-")
    if theirs == "-":
        raise ValueError(f"a Vision Transformer of {library} has no {ours}")
    if block:
        theirs = names["encoder.{i}"].replace("{i}", number) + theirs
    our_axes, their_axes = AXES.get(rest + end, ("...", "..."))
    if library != "google" and rest != POSITION:
        their_axes = our_axes
    elif end == "weight":
        end = "scale" if their_axes == "..." else "kernel"  # a norm has a scale
    theirs = theirs.replace("*", end)
    choices = re.search(r"\[(.*)\]", theirs)
    parts = [theirs.replace(choices[0], part) for part in choices[1].split("|")] if choices else [theirs]
    return Name(tuple(parts), (our_axes, their_axes))


@cache
def column(library: str) -> dict[str, str]:
    """Return the table's rows as {our name: theirs}."""
    lines = (GOOGLE if library == "google" else PYTORCH).strip().splitlines()
    header, *rows = (re.split(r"  +", line) for line in lines if line)
    return {row[0]: row[header.index(library)] for row in rows}
