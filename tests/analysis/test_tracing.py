"""The shapes on the way through a model, which is left as it was."""

import pytest
import torch

from vit_tutorial import VisionTransformer, ViTConfig
from vit_tutorial.analysis import trace_shapes


@pytest.fixture
def model():
    return VisionTransformer(ViTConfig((8, 12), 4, 3, 5, embed_dim=12, depth=2, num_heads=3, mlp_dim=20)).eval()


def has_hooks(model) -> bool:
    return any(module._forward_hooks for module in model.modules())


def test_trace_shapes_follows_the_data(model):
    steps = {step.name: (step.module, step.shape) for step in trace_shapes(model, torch.randn(2, 3, 8, 12))}
    expected = {
        "embeddings.patches.projection": ("Conv2d", (2, 12, 2, 3)),
        "embeddings.patches": ("PatchEmbedding", (2, 6, 12)),
        "embeddings.position": ("LearnedPosition", (7, 12)),
        "embeddings": ("Embeddings", (2, 7, 12)),
        "encoder.0.attention.qkv": ("Linear", (2, 7, 36)),
        "encoder.1.mlp.expand": ("Linear", (2, 7, 20)),
        "encoder.1": ("EncoderBlock", (2, 7, 12)),
        "pool": ("ClassTokenPool", (2, 12)),
        "": ("VisionTransformer", (2, 5)),
    }
    assert {name: steps[name] for name in expected} == expected
    assert [name for name in steps if name in expected] == list(expected), "in the order in which they finish"
    assert list(steps)[-1] == ""
    assert not has_hooks(model)


def test_trace_shapes_takes_its_hooks_away_when_the_model_raises(model):
    with pytest.raises(ValueError, match="built for 8×12"):
        trace_shapes(model, torch.randn(2, 3, 12, 8))
    assert not has_hooks(model)
