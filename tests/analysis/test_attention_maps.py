"""What attention maps add up to: by hand, and by a second way to compute it."""

import itertools
import math

import pytest
import torch

from vit_tutorial import VisionTransformer, ViTConfig
from vit_tutorial.analysis import attention_rollout, mean_attention_distance, record_attention

SMALL = ViTConfig(image_size=(12, 8), patch_size=4, num_classes=5, embed_dim=24, depth=3, num_heads=3, mlp_dim=48)


@pytest.fixture
def maps():
    model = VisionTransformer(SMALL).eval()
    with record_attention(model) as maps, torch.no_grad():
        model(torch.randn(2, 3, 12, 8))
    return maps


def test_rollout_of_one_layer_by_hand():
    """Two tokens, two heads: mean of the heads, then half of it and half of the token itself."""
    weights = torch.tensor([[[[1.0, 0.0], [0.2, 0.8]], [[0.0, 1.0], [0.6, 0.4]]]])
    torch.testing.assert_close(attention_rollout([weights]), torch.tensor([[[0.75, 0.25], [0.2, 0.8]]]))


def test_rollout_sums_over_all_paths(maps):
    """The long way: every path of tokens from the output back to the input, its weights multiplied."""
    layers = [(weights.mean(dim=1)[0] + torch.eye(7)) / 2 for weights in maps]
    expected = torch.zeros(7, 7)
    for a, b, c, d in itertools.product(range(7), repeat=4):
        expected[d, a] += layers[2][d, c] * layers[1][c, b] * layers[0][b, a]
    torch.testing.assert_close(attention_rollout(maps)[0], expected)

    torch.testing.assert_close(attention_rollout(maps).sum(dim=-1), torch.ones(2, 7))
    torch.testing.assert_close(attention_rollout([weights[1:] for weights in maps])[0], attention_rollout(maps)[1])


def test_distance_by_hand():
    """A head that looks at its own patch; and, on 1×2 patches of 4×6 pixels, one with half of its weight on either."""
    assert mean_attention_distance([torch.eye(7).expand(1, 1, 7, 7)], (3, 2), 4).tolist() == [[0.0]]
    assert mean_attention_distance([torch.full((1, 1, 3, 3), 1 / 3)], (1, 2), (4, 6)).item() == pytest.approx(3.0)


def test_distance_patch_by_patch(maps):
    """The long way: for each query, its weights over the patches, shared out to sum to 1, times their distances."""
    found = mean_attention_distance(maps, SMALL.grid, SMALL.patch_size)
    assert found.shape == (3, 3)
    for layer, head in itertools.product(range(3), range(3)):
        far = []
        for image, query in itertools.product(range(2), range(6)):
            row = maps[layer][image, head, 1 + query, 1:]
            distances = [4 * math.dist(divmod(query, 2), divmod(patch, 2)) for patch in range(6)]
            far.append((row / row.sum()) @ torch.tensor(distances))
        assert found[layer, head].item() == pytest.approx(sum(far).item() / 12, abs=1e-5)


@pytest.mark.usefixtures("unchecked")
def test_maps_that_are_not_whole_or_of_another_grid(maps):
    with record_attention(VisionTransformer(SMALL)) as none_yet:
        pass
    for wrong in ([], none_yet, [maps[0][:1], *maps[1:]]):
        for measure in (attention_rollout, lambda m: mean_attention_distance(m, (3, 2), 4)):
            with pytest.raises(ValueError, match=r"from one forward pass inside `with record_attention\(model\)"):
                measure(wrong)
    with pytest.raises(ValueError, match="maps of 7 tokens are not those of a 1×1 grid and a class token"):
        mean_attention_distance(maps, (1, 1), 4)
