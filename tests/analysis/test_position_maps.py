"""Maps of similar positions, and the mirror in them: tables built to have one, from left to right or top to bottom."""

import itertools

import pytest
import torch
import torch.nn.functional as F

from vit_tutorial import VisionTransformer, ViTConfig
from vit_tutorial.analysis import position_similarity, position_structure


def similarity(table, h, w):
    unit = F.normalize(table, dim=-1)
    return (unit @ unit.T).view(h, w, h, w)


def places(h, w):
    return list(itertools.product(range(h), range(w)))


@pytest.fixture
def model():
    return VisionTransformer(ViTConfig((8, 12), 4, embed_dim=12, depth=1, num_heads=3, mlp_dim=20))


def test_position_similarity_is_the_cosine_of_two_patches(model):
    """Of the model's own positions, or of another table of the same grid, such as that of an earlier epoch."""
    own, earlier = model.embeddings.position(), torch.randn(7, 5)
    for table, found in ((own, position_similarity(model)), (earlier, position_similarity(model, earlier))):
        assert found.shape == (2, 3, 2, 3)
        cosine = F.cosine_similarity(table[1 + 1 * 3 + 2], table[1 + 0 * 3 + 1], dim=0)
        torch.testing.assert_close(found[1, 2, 0, 1], cosine)
        torch.testing.assert_close(found.reshape(6, 6).diag(), torch.ones(6))
        assert not found.requires_grad


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("shape", [(6, 12), (8, 12), (7,)])
def test_a_table_of_another_length_is_refused(shape, model):
    with pytest.raises(ValueError, match="a 2×3 grid are 7 vectors, the class token's and one for each patch, got"):
        position_similarity(model, torch.randn(shape))


def test_columns_are_rows_turned():
    given = similarity(torch.randn(48, 16), 6, 8)
    found, other = position_structure(given), position_structure(given.permute(1, 0, 3, 2))
    assert found == pytest.approx(other[::-1])
    assert abs(found.left_right - found.top_bottom) > 1e-3  # or the line above says nothing


@pytest.mark.parametrize(("h", "w"), [(8, 8), (7, 7), (6, 6), (5, 7)])
def test_a_mirror_from_left_to_right_and_none_from_top_to_bottom(h, w):
    """Smooth positions that cannot tell left from right: rows and mirrored columns as sines and cosines."""
    row, column = torch.tensor(places(h, w)).T[:, :, None]  # (h·w, 1) each
    mirrored = (column - (w - 1) / 2).abs()
    down, across = row * torch.arange(4) / 2, mirrored * torch.arange(1, 4)
    table = torch.cat([down.cos(), down.sin(), 2 * across.cos(), 2 * across.sin()], dim=1)
    found = position_structure(similarity(table, h, w))
    assert found.left_right > 0.2
    assert abs(found.top_bottom) < 0.1


def test_a_mirror_by_hand():
    """Columns 0 1 2 3 4 hold the vectors a b c b a, in every row. Offsets of two or more: (0, 2) has 1-3 by the mirror
    (1), and 0-2, 2-4 not (0); (1, 2) the same; (0, 3), (0, 4), (1, 3), (1, 4) only pairs by it. So left_right is 1."""
    table = torch.eye(3)[[min(column, 4 - column) for _, column in places(5, 5)]]
    found = position_structure(similarity(table, 5, 5))
    assert found.left_right == pytest.approx(1)
    assert found.top_bottom == pytest.approx(0)  # all pairs of one column are alike


def test_a_grid_too_small_to_compare():
    with pytest.raises(ValueError, match="a grid of 4×9 is too small"):
        position_structure(torch.rand(4, 9, 4, 9))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("shape", [(5, 6, 6, 5), (25, 25)])
def test_a_map_that_compares_two_grids_is_refused(shape):
    with pytest.raises(ValueError, match=r"has shape \(h, w, h, w\), got"):
        position_structure(torch.rand(shape))
