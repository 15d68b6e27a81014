"""LayerScale: what a branch returns, times a learned vector γ. It has no place in our class, and needs none."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

# The vector, and the layer of its block that computes what it scales, as Meta and timm name them, and as transformers.
SCALES = {
    "ls1.gamma": "attn.proj",
    "ls2.gamma": "mlp.fc2",
    "layer_scale1.lambda1": "attention.o_proj",
    "layer_scale2.lambda1": "mlp.fc2",
}


def fold_layer_scale(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return named weights without LayerScale that compute the same: γ·(W x + b) = (γ·W) x + γ·b.

    Each γ (D,) multiplies the rows of W and the values of b of the linear layer that ends its branch: (D, D) in
    attention, (D, mlp_dim) in the MLP. Names are those of timm, which are Meta's own, or of transformers; tensors
    without a γ stay as they are. Raises KeyError for a γ without its layer.
    Source: Touvron et al. 2021 (arXiv 2103.17239), section 2.
    """
    folded = dict(tensors)
    for name, gamma in tensors.items():
        for scale, layer in SCALES.items():
            if name.endswith(f".{scale}"):
                block = name.removesuffix(scale)
                folded[f"{block}{layer}.weight"] = gamma[:, None] * tensors[f"{block}{layer}.weight"]
                folded[f"{block}{layer}.bias"] = gamma * tensors[f"{block}{layer}.bias"]
                del folded[name]
    return folded
