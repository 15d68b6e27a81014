"""Eq. 4 and the whole: what the model promises whatever its options are."""

import math
from dataclasses import replace

import pytest
import torch
from published import randomize
from torch import nn

from vit_tutorial import EncoderBlock, VisionTransformer, ViTConfig, patchify, unpatchify
from vit_tutorial.config import POSITIONS

# Each option of the configuration, alone and together.
OPTIONS = [
    {},
    {"position": "none"},
    {"position": "sincos"},
    {"position": "factorized"},
    {"pool": "mean"},
    {"representation_size": 9},
    {"position": "factorized", "pool": "mean", "representation_size": 9},
    {"image_size": (6, 20), "patch_size": (3, 5), "in_channels": 2},
    {"dropout": 0.1, "attention_dropout": 0.1},
]


def small_config(**options) -> ViTConfig:
    small = ViTConfig(image_size=8, patch_size=4, num_classes=5, embed_dim=12, depth=2, num_heads=3, mlp_dim=20)
    return replace(small, **options)


def small_model(**options) -> VisionTransformer:
    """Float64, and every weight random, so that nothing is hidden by a zero."""
    return randomize(VisionTransformer(small_config(**options)).double())


def images_for(model: VisionTransformer, batch: int = 3) -> torch.Tensor:
    size = model.config.image_size
    height, width = size if isinstance(size, tuple) else (size, size)
    return torch.randn(batch, model.config.in_channels, height, width, dtype=next(model.parameters()).dtype)


@pytest.mark.parametrize("options", [{}, {"pool": "mean"}, {"representation_size": 9}])
def test_the_four_equations(options):
    """Pooled from class token or patches; a representation is a linear layer and a tanh before the classifier."""
    model = small_model(**options)
    images, classifier = images_for(model), model.head
    z = model.embeddings(images)  # Eq. 1
    for block in model.encoder:
        z = block.attention(block.norm1(z)) + z  # Eq. 2
        z = block.mlp(block.norm2(z)) + z  # Eq. 3
    tokens = model.norm(z)
    y = tokens[:, 1:].sum(1) / 4 if "pool" in options else tokens[:, 0]  # Eq. 4
    torch.testing.assert_close(model.features(images), y, atol=1e-11, rtol=0)
    if "representation_size" in options:
        layer, classifier = model.head.representation, model.head.classifier
        y = torch.tanh(y @ layer.weight.T + layer.bias)
        assert y.shape == (3, 9)
    torch.testing.assert_close(model(images), y @ classifier.weight.T + classifier.bias, atol=1e-11, rtol=0)


def test_an_untrained_model_finds_every_class_equally_likely():
    """The head starts at zero, so the loss starts at ln K."""
    for options in OPTIONS:
        model = VisionTransformer(small_config(**options))
        assert model(images_for(model)).count_nonzero() == 0


def test_matrices_start_as_xavier_and_biases_at_zero():
    """Uniform up to √(6 / (inputs + outputs)): q, k and v are three matrices of their own, and not one."""
    model = VisionTransformer(small_config(embed_dim=96, mlp_dim=60, representation_size=40))
    block = model.encoder[1]
    layers = {
        96: [block.attention.projection],
        60: [block.mlp.expand, block.mlp.contract],
        40: [model.head.representation],
    }
    weights = [(size, layer.weight) for size, found in layers.items() for layer in found]
    weights += [(96, part) for part in block.attention.qkv.weight.chunk(3)]
    for size, weight in weights:
        bound = math.sqrt(6 / (96 + size))
        assert 0.97 * bound < weight.abs().max() <= bound
    biases = [parameter for name, parameter in model.named_parameters() if name.endswith("bias")]
    assert not any(bias.any() for bias in biases)


@pytest.mark.parametrize("options", OPTIONS)
def test_every_parameter_gets_a_gradient(options):
    """Finite and not zero, but for the key bias: softmax ignores what it adds to a row, so its gradient is zero."""
    model = small_model(**options)
    model(images_for(model)).square().sum().backward()
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        assert gradient.isfinite().all(), name
        if name.endswith("attention.qkv.bias"):
            query, key, value = gradient.chunk(3)
            assert key.abs().max() < 1e-9, name
            assert min(query.abs().max(), value.abs().max()) > 1e-6, name
        else:
            assert gradient.abs().max() > 1e-6, name


@pytest.mark.parametrize("options", OPTIONS)
def test_an_image_does_not_know_its_batch(options):
    model = small_model(**options).eval()
    images = images_for(model, batch=4)
    together = model(images)
    for index in range(4):
        torch.testing.assert_close(model(images[index : index + 1])[0], together[index], atol=1e-11, rtol=0)
    shuffled = torch.tensor([2, 0, 3, 1])
    torch.testing.assert_close(model(images[shuffled]), together[shuffled], atol=1e-11, rtol=0)
    assert together.std(0).min() > 1e-3, "the images differ, and so do their logits"


@pytest.mark.parametrize("position", POSITIONS)
def test_only_positions_tell_the_order_of_the_patches(position):
    """Without them the class token of a shuffled image is the same; with any kind of them it is not."""
    model = small_model(image_size=(8, 12), position=position)
    images = images_for(model)
    shuffled = unpatchify(patchify(images, 4)[:, [4, 0, 5, 2, 1, 3]], 4, (8, 12))
    difference = (model.features(images) - model.features(shuffled)).abs().max()
    if position == "none":
        assert difference < 1e-11
    else:
        assert difference > 1e-3


def test_training_differs_from_evaluation_only_by_dropout():
    model = small_model(dropout=0.2, attention_dropout=0.2, drop_path=0.2)
    images = images_for(model)
    assert (model(images) - model(images)).abs().max() > 1e-3
    model.eval()
    assert torch.equal(model(images), model(images))
    assert torch.equal(model(images), small_model()(images))


def test_compiled_it_is_one_graph_with_the_same_logits(unchecked):
    model = small_model(**OPTIONS[6]).eval()
    images = images_for(model)
    torch.compiler.reset()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(images), model(images), atol=1e-12, rtol=0)


def test_every_norm_has_the_eps_of_the_authors_code():
    """PyTorch's default is 1e-5. Also in a block that is built without a config."""
    model = VisionTransformer(ViTConfig(8, 4, num_classes=2, embed_dim=4, depth=2, num_heads=1, mlp_dim=4))
    parts = [*model.modules(), *EncoderBlock(4, 1, 4).modules()]
    assert [part.eps for part in parts if isinstance(part, nn.LayerNorm)] == [1e-6] * 7
