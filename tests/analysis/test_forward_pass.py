"""Parameters and FLOPs, counted as torchvision publishes them and by hand."""

import pytest
import torch
import torchvision.models

from vit_tutorial import VisionTransformer, ViTConfig
from vit_tutorial.analysis import cost_by_part, multiply_adds


def count(config):
    with torch.device("meta"):  # where a parameter has a shape and no memory
        return cost_by_part(VisionTransformer(config), torch.empty(1, 3, config.image_size, config.image_size))


@pytest.mark.parametrize(
    ("variant", "published"),
    [
        ("B/16", torchvision.models.ViT_B_16_Weights.IMAGENET1K_V1),
        ("L/32", torchvision.models.ViT_L_32_Weights.IMAGENET1K_V1),
    ],
)
def test_the_counts_are_those_that_torchvision_publishes(variant, published):
    size = published.meta["min_size"][0]
    costs = count(ViTConfig.named(variant, image_size=size)).values()
    assert sum(cost.parameters for cost in costs) == published.meta["num_params"]
    assert round(sum(cost.flops for cost in costs) / 2e9, 3) == published.meta["_ops"]  # billions of multiply-adds


def test_every_part_by_hand():
    """D = 8, two heads, T = 1 + 2·2 tokens, mlp_dim 12, two blocks, K = 5."""
    config = ViTConfig(8, 4, 3, 5, embed_dim=8, depth=2, num_heads=2, mlp_dim=12)
    costs = count(config)
    in_all = multiply_adds(VisionTransformer(config), torch.zeros(1, 3, 8, 8))
    assert in_all == sum(cost.flops for cost in costs.values()) / 2
    T, D, blocks = 5, 8, 2
    assert costs["embeddings"] == (48 * D + D + D + T * D, 2 * 4 * 48 * D)
    assert costs["q, k, v, out"] == (blocks * 4 * (D * D + D), blocks * 2 * T * 4 * D * D)
    assert costs["pairs"] == (0, blocks * 2 * 2 * T * T * D)
    assert costs["MLP"] == (blocks * (2 * D * 12 + 12 + D), blocks * 2 * T * 2 * D * 12)
    assert costs["norms"] == ((2 * blocks + 1) * 2 * D, 0)
    assert costs["head"] == (D * 5 + 5, 2 * D * 5)
