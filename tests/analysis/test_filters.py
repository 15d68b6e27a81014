"""What can be read off the patch projection: NumPy finds the same components."""

import numpy as np
import pytest
import torch

from vit_tutorial import VisionTransformer, ViTConfig
from vit_tutorial.analysis import patch_filters


@pytest.fixture
def model():
    return VisionTransformer(ViTConfig((12, 8), 4, embed_dim=24, depth=1, num_heads=3, mlp_dim=48))


def test_the_filters_components_are_those_of_numpy(model):
    components, shares = patch_filters(model, 5)
    assert components.shape == (5, 3, 4, 4)
    filters = model.embeddings.patches.projection.weight.detach().flatten(1).numpy()  # (24, 48)
    values, vectors = np.linalg.eigh(np.cov(filters.T, bias=True))
    np.testing.assert_allclose(shares, values[::-1][:5] / values.sum(), rtol=1e-4)
    flat = components.flatten(1)
    overlap = np.abs(np.sum(flat.numpy() * vectors[:, ::-1][:, :5].T, axis=1))
    np.testing.assert_allclose(overlap, 1, atol=1e-3)  # the same direction, whichever way it points
    torch.testing.assert_close(flat @ flat.T, torch.eye(5), atol=1e-5, rtol=0)
    assert (flat.max(dim=1).values >= flat.min(dim=1).values.abs()).all(), "the value furthest from 0 is positive"


@pytest.mark.parametrize("count", [0, 25])
def test_no_more_components_than_there_are(model, count):
    with pytest.raises(ValueError, match=f"24 filters of 48 values have 24 components, not {count}"):
        patch_filters(model, count)
