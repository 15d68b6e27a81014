"""Exercises of notebook 09: three layers in one, and the tensors of another library under our names."""

from __future__ import annotations

from .exercise import exercise
from .fused_rows import judge_fused
from .state_dicts import judge_state_dict


@exercise(
    hint="A linear layer's weight is (out, in): each row makes one number of the result. So the rows of three layers "
    "go one below the other, `torch.cat([...], dim=0)`, and their biases, too, in the same order.",
    solution="""
import torch


def fuse_qkv(q, k, v):
    weight = torch.cat([q.weight, k.weight, v.weight])  # (3·D, D)
    bias = torch.cat([q.bias, k.bias, v.bias])  # (3·D,)
    return weight, bias
""",
)
def fuse_qkv(function):
    """`fn(q, k, v)`, three `nn.Linear(D, D)` → weight (3·D, D), bias (3·D,): one layer for q, k and v."""
    judge_fused(function)


@exercise(
    hint="Print the names of both and set them side by side. Outside the blocks there are six pairs of names. Within a "
    "block, only the number changes: split the name at its dots, and take the number from the part that holds it. "
    "torchvision's positions are (1, T, D), ours (T, D).",
    solution="""
import re

NAMES = {
    "conv_proj.": "embeddings.patches.projection.",
    "class_token": "embeddings.class_token",
    "encoder.pos_embedding": "embeddings.position.table",
    "encoder.ln.": "norm.",
    "heads.head.": "head.",
    ".ln_1.": ".norm1.",
    ".self_attention.in_proj_": ".attention.qkv.",
    ".self_attention.out_proj.": ".attention.projection.",
    ".ln_2.": ".norm2.",
    ".mlp.0.": ".mlp.expand.",
    ".mlp.3.": ".mlp.contract.",
}


def map_state_dict(theirs):
    ours = {}
    for name, tensor in theirs.items():
        name = re.sub(r"encoder\\.layers\\.encoder_layer_(\\d+)", r"encoder.\\1", name)
        for old, new in NAMES.items():
            name = name.replace(old, new)
        ours[name] = tensor
    ours["embeddings.position.table"] = ours["embeddings.position.table"][0]  # (1, T, D) -> (T, D)
    return ours
""",
)
def map_state_dict(function):
    """`fn(theirs)`: the state dict of torchvision's ViT → ours, as `load_state_dict(..., strict=True)` takes it."""
    return judge_state_dict(function)
