"""What a variant is: the sizes of Table 1, and how many parameters they make."""

import numpy as np
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


def test_the_variants_have_the_published_numbers_of_parameters():
    assert {name: count_parameters(config) for name, config in VARIANTS.items()} == PARAMETERS


@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_has_heads_of_its_published_width(name):
    """64 numbers each, and 80 in the huge model: a parameter count does not show how many heads share D."""
    assert VARIANTS[name].head_dim == (80 if name == "H/14" else 64)


def test_named_replaces_fields():
    config = ViTConfig.named("Ti/16", image_size=(64, 96), num_classes=10)
    assert (config.image_size, config.num_classes, config.embed_dim) == ((64, 96), 10, 192)


def test_the_sizes_that_follow_where_nothing_is_square():
    config = ViTConfig(image_size=(24, 60), patch_size=(6, 10), in_channels=2, embed_dim=35, num_heads=5)
    assert config.grid == (4, 6)
    assert (config.num_patches, config.num_tokens) == (24, 25)
    assert (config.patch_dim, config.head_dim) == (2 * 6 * 10, 7)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"image_size": (224, 224)}, {"image_size": 224}),
        ({"image_size": [64, 96], "patch_size": [16, 16]}, {"image_size": (64, 96), "patch_size": 16}),
        ({"image_size": (np.int64(64), 96), "depth": np.int32(3)}, {"image_size": (64, 96), "depth": 3}),
        (
            {"image_size": torch.Size([32, 48]), "num_classes": torch.tensor(7)},
            {"image_size": (32, 48), "num_classes": 7},
        ),
    ],
    ids=["an equal pair", "lists", "NumPy", "torch"],
)
def test_one_configuration_however_it_is_written(given, kept):
    config = ViTConfig(**given)
    assert config == ViTConfig(**kept)
    assert repr(config) == repr(ViTConfig(**kept)), "plain ints, which JSON knows"
    assert hash(config) == hash(ViTConfig(**kept))
