"""Maps of similar positions, and how alike opposite edges are in them."""

import pytest
import torch
import torch.nn.functional as F

from vit_tutorial import VisionTransformer, ViTConfig
from vit_tutorial.analysis import opposite_edges, position_similarity


def similarity(table, h, w):
    unit = F.normalize(table, dim=-1)
    return (unit @ unit.T).view(h, w, h, w)


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


def test_opposite_edges_by_hand():
    """Columns 0 1 2 3 4 hold the vectors a b c b a in every row: left is right, and all of a column are alike."""
    table = torch.eye(3)[[0, 1, 2, 1, 0] * 3]
    assert opposite_edges(similarity(table, 3, 5)) == (1, 1)
    table = torch.eye(15)
    table[14] = table[10]  # the right end of the last of three rows
    assert opposite_edges(similarity(table, 3, 5)) == (pytest.approx(1 / 3), 0)
