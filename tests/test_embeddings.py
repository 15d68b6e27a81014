"""Eq. 1: the projection of the patches, the class token, and four kinds of positions."""

import pytest
import torch
from timm.layers.pos_embed_sincos import build_sincos2d_pos_embed
from torch.nn import functional as F

from vit_tutorial import Embeddings, PatchEmbedding, ViTConfig, patchify, sincos_position_embedding


def small_config(**options) -> ViTConfig:
    """Images of 6×20, patches of 3×5: a grid of 2×4, where a swap of height and width shows."""
    sizes = {"image_size": (6, 20), "patch_size": (3, 5), "in_channels": 2, "embed_dim": 12, "num_heads": 3}
    return ViTConfig(**{**sizes, **options})


def test_the_projection_is_a_linear_layer_on_the_patches():
    """A strided convolution is one linear map of every patch."""
    layer = PatchEmbedding(patch_size=(3, 5), in_channels=2, embed_dim=7).double()
    images = torch.randn(2, 2, 6, 20, dtype=torch.float64)
    linear = F.linear(patchify(images, (3, 5)), layer.projection.weight.flatten(1), layer.projection.bias)
    torch.testing.assert_close(layer(images), linear, atol=1e-12, rtol=0)


def test_weights_start_at_the_sizes_of_the_published_code():
    """Positions at 0.02, the patch projection at 1/√(inputs of a patch), both seen on thousands of numbers."""
    learned = Embeddings(small_config(image_size=(60, 100), embed_dim=120))
    factorized = Embeddings(small_config(image_size=(60, 100), embed_dim=1200, position="factorized")).position
    for table in (learned.position.table, factorized.class_token, factorized.rows, factorized.columns):
        assert table.std().item() == pytest.approx(0.02, rel=0.1)
        assert abs(table.mean().item()) < 0.002
    inputs = 2 * 3 * 5
    assert learned.patches.projection.weight.std().item() == pytest.approx(inputs**-0.5, rel=0.05)
    assert not learned.patches.projection.bias.any()


@pytest.mark.parametrize(
    ("position", "learned"),
    [
        ("none", {}),
        ("sincos", {}),
        ("learned", {"table": 9 * 12}),
        ("factorized", {"class_token": 12, "rows": 2 * 12, "columns": 4 * 12}),
    ],
)
def test_what_each_kind_of_position_learns_and_gives(position, learned):
    module = Embeddings(small_config(position=position)).position
    assert {name: p.numel() for name, p in module.named_parameters()} == learned
    table = {
        "none": lambda: torch.zeros(9, 12),
        "sincos": lambda: torch.cat([torch.zeros(1, 12), sincos_position_embedding((2, 4), 12)]),
        "learned": lambda: module.table,
        "factorized": lambda: torch.stack(
            [module.class_token[0], *(module.rows[i, 0] + module.columns[0, j] for i in range(2) for j in range(4))]
        ),
    }
    assert torch.equal(module(), table[position]())


@pytest.mark.parametrize(("grid", "dim"), [((5, 5), 16), ((2, 7), 12), ((14, 14), 192)])
def test_sincos_holds_the_numbers_of_timm_in_another_order(grid, dim):
    """timm: sines of row and column, then cosines of both. Ours: sines and cosines of the row, then of the column."""
    theirs = build_sincos2d_pos_embed(list(grid), dim).unflatten(1, (2, 2, dim // 4))  # (N, sine or cosine, axis, D/4)
    halves = theirs.transpose(1, 2).flatten(1)
    torch.testing.assert_close(sincos_position_embedding(grid, dim), halves, atol=1e-5, rtol=0)


def test_dropout_follows_the_positions_in_training_only():
    embeddings = Embeddings(small_config(dropout=0.5))
    images = torch.randn(8, 2, 6, 20)
    dropped = embeddings(images) == 0
    assert 0.4 < dropped.float().mean() < 0.6
    assert dropped[:, 0].any(), "the class token is dropped too"
    assert not (embeddings.eval()(images) == 0)[:, 1:].any()
