"""What attention maps add up to, and how well they find an object: each computed the long way."""

import itertools
import math

import pytest
import torch

from vit_tutorial import VisionTransformer, ViTConfig
from vit_tutorial.analysis import attention_distance, attention_rollout, object_auc, record_attention

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


@pytest.mark.usefixtures("unchecked")
def test_what_is_no_attention_is_refused(maps):
    with record_attention(VisionTransformer(SMALL)) as none_yet:
        pass
    no_weights = r"call the model inside `with record_attention\(model\).*attn_implementation=\"eager\""
    refused = [
        (none_yet, no_weights),
        ((None, None), no_weights),  # of transformers, fused
        ([weights.log() for weights in maps], "rows .* sum to 1, these sum to -.*before the softmax"),
        ([weights * 0.9 for weights in maps], "these sum to 0.9 to 0.9"),
        ([weights * math.nan for weights in maps], "these sum to nan"),
    ]
    for given, told in refused:
        with pytest.raises(ValueError, match=told):
            attention_rollout(given)


def test_distance_by_hand():
    """A grid of 1×3 behind a class token: head 0 looks at itself, and head 1 at the first patch and at the last."""
    ends = torch.tensor([0, 0.5, 0, 0.5]).expand(4, 4)
    maps = torch.stack([torch.eye(4), ends])[None]
    assert attention_distance(maps, (1, 3)).tolist() == [0, 1]
    halved = maps.clone()
    halved[:, :, :, 1:] /= 2  # the rest on the class token, whose place is nowhere
    torch.testing.assert_close(attention_distance(halved, (1, 3)), torch.tensor([0.0, 1.0]))
    assert attention_distance(maps, (3, 1)).tolist() == [0, 1]


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


@pytest.mark.usefixtures("unchecked")
def test_maps_and_masks_that_do_not_fit():
    maps, masks = torch.rand(2, 1, 3), torch.rand(2, 2, 6) < 0.5
    assert torch.equal(object_auc(maps, masks.float()), object_auc(maps, masks)), "zeros and ones are a mask"
    refused = [
        (maps, masks * 255, r"each map has a mask .* true on the object \(`masks > 127`\), .* torch.int64 up to 255"),
        (maps, masks * 0.5, "torch.float32 up to 0.5"),
        (maps[:1], masks, r"got \(2, 2, 6\), .* for maps \(1, 1, 3\)"),
        (maps, masks[..., :5], r"a mask of a multiple of its size, .*got \(2, 2, 5\), .* for maps \(2, 1, 3\)"),
        (maps * math.nan, masks, "maps hold nan"),
    ]
    for given, mask, told in refused:
        with pytest.raises(ValueError, match=told):
            object_auc(given, mask)
