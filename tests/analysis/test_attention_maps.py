"""What attention maps add up to, and how well they find an object: each computed the long way."""

import itertools
import math

import pytest
import torch

from vit_tutorial import VisionTransformer, ViTConfig
from vit_tutorial.analysis import attention_rollout, mean_attention_distance, object_auc, record_attention

SMALL = ViTConfig(image_size=(12, 4), patch_size=(4, 2), num_classes=5, embed_dim=24, depth=3, num_heads=3, mlp_dim=48)


@pytest.fixture
def maps():
    model = VisionTransformer(SMALL).eval()
    with record_attention(model) as maps, torch.no_grad():
        model(torch.randn(2, 3, 12, 4))
    return maps


def test_rollout_sums_over_all_paths(maps):
    """The long way: every path of tokens from the output back to the input, its weights multiplied.

    A step is half the mean of the heads and half the token itself.
    """
    layers = [(weights.mean(dim=1)[0] + torch.eye(7)) / 2 for weights in maps]
    expected = torch.zeros(7, 7)
    for a, b, c, d in itertools.product(range(7), repeat=4):
        expected[d, a] += layers[2][d, c] * layers[1][c, b] * layers[0][b, a]
    torch.testing.assert_close(attention_rollout(maps)[0], expected)

    torch.testing.assert_close(attention_rollout(maps).sum(dim=-1), torch.ones(2, 7))
    torch.testing.assert_close(attention_rollout([weights[1:] for weights in maps])[0], attention_rollout(maps)[1])


def test_distance_patch_by_patch(maps):
    """The long way: for each query, its weights over the patches, shared out to sum to 1, times their distances."""
    centres = [(4 * row, 2 * column) for row in range(3) for column in range(2)]
    found = mean_attention_distance(maps, SMALL.grid, SMALL.patch_size)
    assert found.shape == (3, 3)
    for layer, head in itertools.product(range(3), range(3)):
        far = []
        for image, query in itertools.product(range(2), range(6)):
            row = maps[layer][image, head, 1 + query, 1:]
            distances = [math.dist(centres[query], centres[patch]) for patch in range(6)]
            far.append((row / row.sum()) @ torch.tensor(distances))
        assert found[layer, head].item() == pytest.approx(sum(far).item() / 12, abs=1e-5)


def test_a_patch_that_takes_all_from_the_class_token_does_not_count():
    """Of two patches, 8 pixels apart, the first has no distance; the second takes from the first: the mean is 8."""
    weights = torch.tensor([[1.0, 0.0, 0.0], [1.0, 0.0, 0.0], [0.5, 0.5, 0.0]])
    assert mean_attention_distance([weights[None, None]], (1, 2), 8).tolist() == [[8.0]]


@pytest.mark.usefixtures("unchecked")
def test_maps_that_are_not_whole_or_of_another_grid(maps):
    with record_attention(VisionTransformer(SMALL)) as none_yet:
        pass
    for measure in (attention_rollout, lambda m: mean_attention_distance(m, (3, 2), 4)):
        with pytest.raises(ValueError, match=r"call the model inside `with record_attention\(model\)"):
            measure(none_yet)
    with pytest.raises(ValueError, match="maps of 7 tokens are not those of a 1×1 grid and a class token"):
        mean_attention_distance(maps, (1, 1), 4)


def test_auc_pixel_by_pixel():
    """The long way: every pixel of the object against every pixel of the ground."""
    maps = torch.tensor([[[0.1, 0.4, 0.4], [0.2, 0.0, 0.3]], [[0.5, 0.1, 0.1], [0.2, 0.2, 0.9]]])
    masks = torch.rand(2, 4, 9) < 0.4
    found = object_auc(maps, masks)
    for index in range(2):
        pixels = maps[index].repeat_interleave(2, dim=0).repeat_interleave(3, dim=1)
        inside, outside = pixels[masks[index]], pixels[~masks[index]]
        wins = (inside[:, None] > outside).float() + (inside[:, None] == outside).float() / 2
        assert found[index].item() == pytest.approx(wins.mean().item())


def test_a_map_and_a_mask_that_do_not_fit():
    with pytest.raises(ValueError, match="masks of 2×4 pixels are not a whole number of patches in a grid of 1×3"):
        object_auc(torch.ones(1, 1, 3), torch.ones(1, 2, 4, dtype=torch.bool))
