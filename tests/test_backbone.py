"""The hybrid (section 3.1): patches of a feature map in place of the image."""

import pytest
import torch
from torch import nn
from torchvision.models import resnet50

from vit_tutorial import Backbone, VisionTransformer, ViTConfig, change_resolution, to_timm
from vit_tutorial.analysis import position_similarity, record_attention, trace_shapes
from vit_tutorial.saving import save_model

SMALL = {"num_classes": 5, "embed_dim": 12, "depth": 2, "num_heads": 3, "mlp_dim": 16}


def stem() -> Backbone:
    return Backbone(nn.Conv2d(3, 6, kernel_size=3, stride=4, padding=1), channels=6, stride=4)


def hybrid(image_size=(16, 24), patch_size=8, **options) -> VisionTransformer:
    torch.manual_seed(0)
    model = VisionTransformer(
        ViTConfig(image_size=image_size, patch_size=patch_size, **SMALL, **options), stem()
    ).eval()
    nn.init.normal_(model.head.weight)
    return model


def test_a_patch_is_cut_from_the_feature_map():
    """8 pixels of the image are 2 places of a map of stride 4: the projection is the plain one, on the map."""
    model, images = hybrid(), torch.randn(2, 3, 16, 24)
    patches = model.embeddings.patches
    assert patches.projection.weight.shape == (12, 6, 2, 2)
    expected = patches.projection(patches.backbone.network(images)).flatten(2).transpose(1, 2)
    assert torch.equal(patches(images), expected)
    assert model.config.grid == (2, 3)


def test_a_backbone_that_does_nothing_is_the_plain_vit():
    config = ViTConfig(image_size=16, patch_size=8, **SMALL)
    torch.manual_seed(0)
    plain = VisionTransformer(config)
    torch.manual_seed(0)
    nothing = VisionTransformer(config, Backbone(nn.Identity(), channels=3, stride=1))
    images = torch.randn(2, 3, 16, 16)
    assert torch.equal(plain.features(images), nothing.features(images))


def test_r50_vit_b16():
    """ResNet-50 to its third stage has stride 16 and 1024 channels; a patch is one place of its 14×14 map."""
    resnet = resnet50()
    stages = (resnet.conv1, resnet.bn1, resnet.relu, resnet.maxpool, resnet.layer1, resnet.layer2, resnet.layer3)
    config = ViTConfig.named("B/16", depth=1)
    model = VisionTransformer(config, Backbone(nn.Sequential(*stages), channels=1024, stride=16)).eval()
    assert model.embeddings.patches.projection.weight.shape == (768, 1024, 1, 1)
    with torch.no_grad():
        assert model(torch.randn(1, 3, 224, 224)).shape == (1, 1000)


@pytest.mark.parametrize("position", ["learned", "none", "sincos", "factorized"])
@pytest.mark.parametrize("pool", ["cls", "mean"])
def test_everything_else_works_unchanged(position, pool, capsys):
    model, images = hybrid(position=position, pool=pool), torch.randn(2, 3, 16, 24)
    logits = model(images)
    with record_attention(model) as maps:
        model(images)
    assert [tuple(weights.shape) for weights in maps] == [(2, 3, 7, 7)] * 2
    assert position_similarity(model).shape == (2, 3, 2, 3)
    assert trace_shapes(model, images)[-1].shape == (2, 5)
    moved = change_resolution(model, (24, 24))
    assert moved(torch.randn(2, 3, 24, 24)).shape == (2, 5)
    assert torch.equal(change_resolution(model, (16, 24))(images), logits)


def test_a_backbone_learns():
    model, images = hybrid(), torch.randn(2, 3, 16, 24)
    model(images).square().sum().backward()
    assert all(parameter.grad.any() for parameter in model.embeddings.patches.backbone.parameters())


def test_what_does_not_fit_is_said():
    with pytest.raises(ValueError, match="a backbone of stride 4 leaves no whole patches: patch_size 6×6"):
        hybrid(image_size=12, patch_size=6)
    with pytest.raises(ValueError, match="built for 16×24 images, got 16×32"):
        hybrid()(torch.randn(1, 3, 16, 32))
    wrong = VisionTransformer(ViTConfig(image_size=16, patch_size=8, **SMALL), Backbone(nn.Identity(), 3, stride=4))
    told = r"a feature map \(3, 16, 16\) of a 16×16 image: 3 channels and stride 4 promise \(3, 4, 4\)"
    with pytest.raises(ValueError, match=told):
        wrong(torch.randn(1, 3, 16, 16))


@pytest.mark.usefixtures("unchecked")
def test_a_bare_network_does_not_say_its_stride():
    with pytest.raises(ValueError, match=r"a backbone is a Backbone\(network, channels, stride\), got Conv2d"):
        VisionTransformer(ViTConfig(image_size=16, patch_size=8, **SMALL), nn.Conv2d(3, 6, 4, 4))


@pytest.mark.usefixtures("unchecked")
def test_a_backbone_gives_one_feature_map():
    class Pyramid(nn.Module):
        def forward(self, images):
            return [images, images[:, :, ::2, ::2]]

    model = VisionTransformer(ViTConfig(image_size=16, patch_size=8, **SMALL), Backbone(Pyramid(), 3, stride=1))
    with pytest.raises(ValueError, match="makes a feature map of type list"):
        model(torch.randn(1, 3, 16, 16))


def test_where_a_backbone_would_be_lost_it_is_refused(tmp_path):
    """Without weights of its own nobody would miss it: x → x², and the model answers otherwise."""

    class Square(nn.Module):
        def forward(self, images):
            return images.square()

    model = VisionTransformer(ViTConfig(image_size=16, patch_size=8, **SMALL), Backbone(Square(), 3, stride=1))
    with pytest.raises(ValueError, match="a backbone is code, and this file holds numbers"):
        save_model(model, tmp_path / "model.safetensors")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="this model has a backbone in front"):
        to_timm(model)
