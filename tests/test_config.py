"""What a variant is: the sizes of Table 1, and how many parameters they make."""

from dataclasses import FrozenInstanceError

import pytest
import torch

from vit_tutorial import VARIANTS, VisionTransformer, ViTConfig

# With 1000 classes, as the authors' code and the published libraries count them.
PARAMETERS = {
    "Ti/16": 5_717_416,
    "S/16": 22_050_664,
    "B/16": 86_567_656,
    "B/32": 88_224_232,
    "L/16": 304_326_632,
    "L/32": 306_535_400,
    "H/14": 632_045_800,
}


def count_parameters(config: ViTConfig) -> int:
    """Counted on the meta device, where a parameter has a shape and no memory."""
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in VisionTransformer(config).parameters())


def test_every_variant_has_its_count():
    assert set(PARAMETERS) == set(VARIANTS)


@pytest.mark.parametrize("name", VARIANTS)
def test_variants_have_the_published_number_of_parameters(name):
    assert count_parameters(ViTConfig.named(name)) == PARAMETERS[name]


def test_the_default_is_the_base_model_with_patches_of_16():
    assert ViTConfig() == VARIANTS["B/16"] == ViTConfig.named("B/16")
    assert VARIANTS["B/32"] == ViTConfig.named("B/16", patch_size=32)


@pytest.mark.parametrize(
    ("name", "depth", "embed_dim", "mlp_dim", "num_heads"),
    [("B/16", 12, 768, 3072, 12), ("L/16", 24, 1024, 4096, 16), ("H/14", 32, 1280, 5120, 16)],
)
def test_variants_have_the_sizes_of_table_1(name, depth, embed_dim, mlp_dim, num_heads):
    config = VARIANTS[name]
    assert (config.depth, config.embed_dim, config.mlp_dim, config.num_heads) == (depth, embed_dim, mlp_dim, num_heads)
    assert config.patch_size == int(name.partition("/")[2])


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_has_heads_of_its_published_width(name):
    """64 numbers each, and 80 in the huge model: a parameter count does not show how many heads share D."""
    assert VARIANTS[name].head_dim == (80 if name == "H/14" else 64)


def test_named_replaces_fields():
    config = ViTConfig.named("Ti/16", image_size=(64, 96), num_classes=10)
    assert (config.image_size, config.num_classes, config.embed_dim) == ((64, 96), 10, 192)


def test_derived_sizes_of_a_photo():
    config = ViTConfig()
    assert config.grid == (14, 14)
    assert (config.num_patches, config.num_tokens) == (196, 197)
    assert (config.patch_dim, config.head_dim) == (768, 64)


def test_derived_sizes_where_nothing_is_square():
    config = ViTConfig(image_size=(24, 60), patch_size=(6, 10), in_channels=2, embed_dim=35, num_heads=5)
    assert config.grid == (4, 6)
    assert (config.num_patches, config.num_tokens) == (24, 25)
    assert (config.patch_dim, config.head_dim) == (2 * 6 * 10, 7)


def test_a_configuration_does_not_change():
    config = ViTConfig()
    with pytest.raises(FrozenInstanceError):
        config.depth = 1
    assert hash(config) == hash(ViTConfig())


@pytest.mark.parametrize("representation_size", [None, 9])
def test_parameters_add_up_where_no_two_sizes_are_equal(representation_size):
    """By hand, with D = 20 far from C·P·Q = 2·3·5 = 30."""
    config = ViTConfig(
        image_size=(6, 20),
        patch_size=(3, 5),
        in_channels=2,
        num_classes=7,
        embed_dim=20,
        depth=3,
        num_heads=5,
        mlp_dim=13,
        representation_size=representation_size,
    )
    tokens, norm = 1 + 2 * 4, 20 + 20
    embeddings = (30 * 20 + 20) + 20 + tokens * 20  # projection, class token, positions
    attention = (20 * 60 + 60) + (20 * 20 + 20)  # q, k and v in one; joining the heads
    mlp = (20 * 13 + 13) + (13 * 20 + 20)
    head = (20 * 9 + 9) + (9 * 7 + 7) if representation_size else 20 * 7 + 7
    assert count_parameters(config) == embeddings + 3 * (norm + attention + norm + mlp) + norm + head
