"""Refuse what a `VisionTransformer` has no place for, by its name, before anything is loaded."""

from __future__ import annotations

import re
from collections.abc import Iterable

from torch import nn

# Each part, and how other libraries name its tensors or its layers.
UNSUPPORTED = {
    "a distillation token": r"dist(illation)?_token|head_dist|distillation_classifier",
    "register tokens": r"reg(ister)?_tokens?$",
    "a gated MLP, such as SwiGLU": r"swiglu|glumlp|weights_(in|out)\b|fc1_[gx]\b|gate_proj",
    "qk-norm": r"\b[qk]_norm\b",
    "a norm before the encoder": r"norm_pre|pre_layrnorm|pre_layernorm",
    "attention pooling": r"attn_pool|attention_?pool",
    "a norm after pooling": r"fc_norm|pooler\.norm",
    "rotary or relative positions": r"\brope|rotary|relative_position|rel_pos",
    "parallel branches": r"parallel(scaling|things)block",
    "a head for two vectors (convert its encoder, `model.dinov2`)": r"^dinov2\.",
    "positions in an embedding layer": r"position_embeddings?: Embedding",
    "a convolutional stem": r"conv_bn_relu|conv_last|\bbackbone\b",
}
# The innermost layers that a ViT is built of, as PyTorch, timm and transformers call them.
KNOWN = {"Conv2d", "Linear", "NonDynamicallyQuantizableLinear", "LayerNorm", "Dropout", "DropPath", "Identity"}
KNOWN |= {"LayerScale", "Dinov2LayerScale"}  # folded into the layer before it
KNOWN |= {"PatchDropout", "BeitDropPath", "Dinov2DropPath"}  # idle outside of training
# Layers that compute a GELU, and which one; PyTorch's own says so itself.
GELU_LAYERS = {"GELU": "exact", "GELUActivation": "exact", "GELUTanh": "tanh"}
GELU_LAYERS |= dict.fromkeys(("NewGELUActivation", "FastGELUActivation", "AccurateGELUActivation"), "tanh")
KNOWN |= {"Tanh", *GELU_LAYERS}


def require_known_parts(model: nn.Module) -> None:
    """Raise ValueError for a tensor or a layer that a VisionTransformer cannot have."""
    require_known_names(name for name, _ in model.named_parameters())
    for name, module in model.named_modules():
        kind = type(module).__name__
        if kind == "Identity":
            continue  # a place kept free
        require_known_names([f"{name}: {kind}"])
        if not any(module.children()) and kind not in KNOWN:
            raise ValueError(f"this model has {kind} ({name}): VisionTransformer has none")


def require_known_names(names: Iterable[str]) -> None:
    """Raise ValueError for the first name that belongs to one of the `UNSUPPORTED`."""
    for name in names:
        for part, pattern in UNSUPPORTED.items():
            if re.search(pattern, name, re.IGNORECASE):
                raise ValueError(f"this model has {part} ({name}): VisionTransformer has none")
