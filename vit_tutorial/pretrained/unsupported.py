"""Refuse what a `VisionTransformer` has no place for, by its name, before anything is loaded."""

from __future__ import annotations

import re

from torch import nn

# Each part, and how other libraries name its tensors. What is not in this list is found later: it has a tensor that
# is not expected, or the answers differ.
UNSUPPORTED = {
    "a distillation token": r"dist(illation)?_token",
    "register tokens": r"reg(ister)?_tokens?$",
    "a gated MLP, such as SwiGLU": r"weights_in|gate_proj|fc1_g",
    "qk-norm": r"\b[qk]_norm\b",
    "attention pooling": r"attn_pool",
    "a norm after pooling": r"fc_norm",
    "parallel branches": r"attn_out_proj|\battns\b",
    "a head for two vectors (convert its encoder, `model.dinov2`)": r"^dinov2\.",
    "positions in an embedding layer": r"position_embedding\.",
    "a convolutional stem": r"conv_bn_relu|\bbackbone\b",
}


def require_known_parts(model: nn.Module) -> None:
    """Raise ValueError for the first tensor that belongs to one of the `UNSUPPORTED`."""
    for name, _ in model.named_parameters():
        for part, pattern in UNSUPPORTED.items():
            if re.search(pattern, name):
                raise ValueError(f"this model has {part} ({name}): VisionTransformer has none")
