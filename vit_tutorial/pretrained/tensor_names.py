"""The same tensors under four sets of names, and the conversion from ours to another set and back."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

LIBRARIES = ("torchvision", "timm", "transformers")
# A piece of our names, and what each library has instead of it. The pieces are replaced from top to bottom.
NAMES = (
    ("encoder.", "encoder.layers.encoder_layer_", "blocks.", "vit.layers."),
    ("norm.", "encoder.ln.", "norm.", "vit.layernorm."),
    ("embeddings.patches.projection", "conv_proj", "patch_embed.proj", "vit.embeddings.patch_embeddings.projection"),
    ("embeddings.class_token", "class_token", "cls_token", "vit.embeddings.cls_token"),
    ("embeddings.position.table", "encoder.pos_embedding", "pos_embed", "vit.embeddings.position_embeddings"),
    (".norm1.", ".ln_1.", ".norm1.", ".layernorm_before."),
    (".attention.qkv.", ".self_attention.in_proj_", ".attn.qkv.", ".attention.qkv_proj."),
    (".attention.projection.", ".self_attention.out_proj.", ".attn.proj.", ".attention.o_proj."),
    (".norm2.", ".ln_2.", ".norm2.", ".layernorm_after."),
    (".mlp.expand.", ".mlp.0.", ".mlp.fc1.", ".mlp.fc1."),
    (".mlp.contract.", ".mlp.3.", ".mlp.fc2.", ".mlp.fc2."),
    ("head.representation.", "heads.pre_logits.", "head.pre_logits.", "head.pre_logits."),
    ("head.classifier.", "head.", "head.", "head."),
    ("head.", "heads.head.", "head.", "classifier."),
)
POSITION = "embeddings.position.table"  # (T, D); in the other libraries, too, but there it is a batch of one


def names_of(ours: str, library: str) -> list[str]:
    """Return a library's names for one tensor of ours. In transformers q, k and v are three tensors."""
    name = ours
    for piece, *theirs in NAMES:
        name = name.replace(piece, theirs[LIBRARIES.index(library)])
    return [name.replace("qkv_proj", f"{part}_proj") for part in "qkv"] if "qkv_proj" in name else [name]


def as_theirs(tensors: Mapping[str, Tensor], library: str) -> dict[str, Tensor]:
    """Return our tensors (weights, or their gradients) under a library's names and in its shapes."""
    found = {}
    for ours, tensor in tensors.items():
        names = names_of(ours, library)
        found |= zip(names, [tensor[None]] if ours == POSITION else tensor.chunk(len(names)), strict=True)
    return found


def as_ours(tensors: Mapping[str, Tensor], library: str, names: Iterable[str]) -> dict[str, Tensor]:
    """Return a library's tensors under our names, as far as they are there; the others keep the names that they had."""
    found, others = {}, dict(tensors)
    for ours in names:
        parts = [others.pop(name) for name in names_of(ours, library) if name in others]
        if parts:
            found[ours] = torch.cat(parts)[0] if ours == POSITION else torch.cat(parts)
    return found | others
