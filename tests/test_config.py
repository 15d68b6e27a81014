"""What a variant is: its sizes, and how many parameters they make."""

import numpy as np
import pytest
import torch

from vit_tutorial import VARIANTS, VisionTransformer, ViTConfig

# Parameters with 1000 classes, as the authors' code and the published libraries count them, and the width of a head,
# which no count of parameters shows.
PUBLISHED = {
    "Ti/16": (5_717_416, 64),
    "S/16": (22_050_664, 64),
    "B/16": (86_567_656, 64),
    "B/32": (88_224_232, 64),
    "L/16": (304_326_632, 64),
    "L/32": (306_535_400, 64),
    "H/14": (632_045_800, 80),
}


def test_the_variants_have_the_published_numbers_of_parameters_and_heads():
    with torch.device("meta"):  # where a parameter has a shape and no memory
        models = {name: VisionTransformer(config) for name, config in VARIANTS.items()}
    counts = {name: sum(parameter.numel() for parameter in model.parameters()) for name, model in models.items()}
    assert {name: (counts[name], config.head_dim) for name, config in VARIANTS.items()} == PUBLISHED


def test_the_sizes_that_follow_where_nothing_is_square():
    config = ViTConfig(image_size=(24, 60), patch_size=(6, 10), in_channels=2, embed_dim=35, num_heads=5)
    assert config.grid == (4, 6)
    assert (config.num_patches, config.num_tokens) == (24, 25)
    assert (config.patch_dim, config.head_dim) == (2 * 6 * 10, 7)


@pytest.mark.usefixtures("unchecked")
def test_one_configuration_however_it_is_written():
    """An equal pair, lists as JSON has them, NumPy's numbers."""
    wide = {"image_size": (64, 96), "patch_size": 16, "dropout": 0.5}
    for given, kept in (
        ({"image_size": (224, 224)}, {"image_size": 224}),
        ({"image_size": [64, 96], "patch_size": [16, 16], "dropout": 0.5}, wide),
        ({"image_size": (np.int64(64), 96), "patch_size": 16, "dropout": np.float32(0.5)}, wide),
    ):
        assert ViTConfig(**given) == ViTConfig(**kept)
        assert repr(ViTConfig(**given)) == repr(ViTConfig(**kept)), "plain ints, which JSON knows"
        assert hash(ViTConfig(**given)) == hash(ViTConfig(**kept))
