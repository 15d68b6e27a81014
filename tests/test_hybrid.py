"""The hybrid (section 3.1): patches of a feature map instead of the image."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from vit_tutorial import Backbone, VisionTransformer, ViTConfig, change_resolution, conv_stem, small_cnn
from vit_tutorial.analysis import cost_by_part, position_similarity, record_attention
from vit_tutorial.config import POSITIONS
from vit_tutorial.saving import save_model
from vit_tutorial.training import PRESETS


def vit(network: nn.Module, channels=3, stride=1, image_size=16, patch_size=8, **options):
    small = {"num_classes": 5, "embed_dim": 12, "depth": 2, "num_heads": 3, "mlp_dim": 16}
    config = ViTConfig(image_size=image_size, patch_size=patch_size, **small, **options)
    torch.manual_seed(0)
    return VisionTransformer(config, Backbone(network, channels, stride)).eval()


def hybrid(image_size=(16, 24), patch_size=8, **options) -> VisionTransformer:
    network = nn.Conv2d(3, 6, kernel_size=3, stride=4, padding=1)
    model = vit(network, 6, 4, image_size, patch_size, **options)
    nn.init.normal_(model.head.weight)
    return model


@pytest.mark.parametrize(("patch_size", "on_map", "grid"), [(8, 2, (2, 3)), (4, 1, (4, 6))])
def test_a_patch_is_cut_from_the_feature_map(patch_size, on_map, grid):
    """8 pixels of the image are 2 places of a map of stride 4, and 4 are one; the projection is the plain one."""
    model, images = hybrid(patch_size=patch_size), torch.randn(2, 3, 16, 24)
    patches = model.embeddings.patches
    assert patches.projection[1].weight.shape == (12, 6, on_map, on_map)
    expected = patches.projection(images).flatten(2).transpose(1, 2)
    assert torch.equal(patches(images), expected)
    assert model.config.grid == grid


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("pool", ["cls", "mean"])
def test_everything_else_works_unchanged(position, pool):
    model, images = hybrid(position=position, pool=pool), torch.randn(2, 3, 16, 24)
    with record_attention(model) as maps:
        logits = model(images)
    assert [tuple(weights.shape) for weights in maps] == [(2, 3, 7, 7)] * 2
    assert position_similarity(model).shape == (2, 3, 2, 3)
    assert logits.shape == (2, 5)
    assert change_resolution(model, (24, 24))(torch.randn(2, 3, 24, 24)).shape == (2, 5)
    torch.testing.assert_close(change_resolution(model, (16, 24))(images), logits)
    logits.square().sum().backward()
    assert all(parameter.grad.any() for parameter in model.embeddings.patches.projection[0].parameters()), "it learns"


@pytest.mark.parametrize("network", [conv_stem(), small_cnn(5)[:5]], ids=["stem", "cnn"])
def test_every_convolution_is_followed_by_batch_norm_and_then_relu(network):
    """After the ReLU nothing is negative, and about half is zero; batch norm at the end would undo both."""
    features = network(torch.randn(4, 3, 16, 16))
    assert features.min() == 0
    assert 0.3 < (features == 0).float().mean() < 0.7


def test_the_stem_costs_as_much_as_a_block_and_the_cnn_has_as_many_parameters_as_the_shapes_model():
    config, _ = PRESETS["shapes"]
    whole, stemmed = VisionTransformer(config), VisionTransformer(replace(config, depth=3), conv_stem())
    flops = [sum(cost.flops for cost in cost_by_part(m, torch.zeros(1, 3, 28, 28)).values()) for m in (whole, stemmed)]
    assert flops[1] == pytest.approx(flops[0], rel=0.01)
    counts = [sum(parameter.numel() for parameter in m.parameters()) for m in (whole, small_cnn(8))]
    assert counts[1] == pytest.approx(counts[0], rel=0.02)


@pytest.mark.usefixtures("unchecked")
def test_what_does_not_fit_is_told():
    with pytest.raises(ValueError, match="patch_size 6×6, in pixels, must be a multiple of the backbone's stride, 4"):
        hybrid(image_size=12, patch_size=6)
    with pytest.raises(ValueError, match="built for 16×24 images, got 16×32"):
        hybrid()(torch.randn(1, 3, 16, 32))
    with pytest.raises(ValueError, match=r"a model takes floats, got torch\.uint8"):
        hybrid()(torch.zeros(1, 3, 16, 24, dtype=torch.uint8))


def test_a_backbone_without_weights_is_not_lost_in_a_file(tmp_path):
    """Nobody would miss it there, and the model would answer otherwise."""
    with pytest.raises(ValueError, match="a backbone is code, and this file holds numbers"):
        save_model(vit(nn.Tanh()), tmp_path / "model.safetensors")
    assert not list(tmp_path.iterdir())
