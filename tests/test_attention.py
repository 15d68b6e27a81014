"""Multi-head self-attention: the equation and its two implementations."""

import math

import pytest
import torch
from torch.nn import functional as F

from vit_tutorial import attend
from vit_tutorial.attention import merge_heads, split_heads


def random_qkv(*shape: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(shape, generator=generator, dtype=torch.float64, requires_grad=True) for _ in range(3)]


def test_attend_by_hand():
    """One query [ln 3, 0] on two keys, [1, 0] and [0, 1], d = 2 undone: the weights are 3 to 1."""
    q = torch.tensor([[math.log(3) * math.sqrt(2), 0.0]])
    k = torch.eye(2)
    v = torch.tensor([[8.0, 0.0], [0.0, 4.0]])
    out, weights = attend(q, k, v)
    torch.testing.assert_close(weights, torch.tensor([[0.75, 0.25]]))
    torch.testing.assert_close(out, torch.tensor([[6.0, 1.0]]))


@pytest.mark.parametrize("shape", [(2, 3, 5, 4), (1, 1, 1, 1), (2, 7, 3, 11), (4, 2, 65, 8)])
def test_attend_equals_fused_attention_in_values_and_gradients(shape):
    q, k, v = random_qkv(*shape)
    explicit, fused = attend(q, k, v)[0], F.scaled_dot_product_attention(q, k, v)
    torch.testing.assert_close(explicit, fused, atol=1e-12, rtol=0)
    direction = torch.randn_like(fused)
    ours, theirs = (torch.autograd.grad((out * direction).sum(), (q, k, v)) for out in (explicit, fused))
    torch.testing.assert_close(ours, theirs, atol=1e-12, rtol=0)


def test_a_head_is_a_slice_of_the_token():
    tokens = torch.arange(2 * 5 * 12).reshape(2, 5, 12).double()
    heads = split_heads(tokens, 3)
    assert heads.shape == (2, 3, 5, 4)
    for head in range(3):
        assert torch.equal(heads[:, head], tokens[:, :, 4 * head : 4 * head + 4])
    assert torch.equal(merge_heads(heads), tokens)
