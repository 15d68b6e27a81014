"""Weights are found by what they are, wherever a reader's module keeps them."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from vit_tutorial import check

from .variants import assert_passes, assert_wrong

ORDERS = ("n h d", "h n d", "h d n", "d h n", "n d h", "d n h")


def fused(order, change=lambda out: out):
    """A class with q, k and v in one layer, its n = 3 times h heads times d rows in this order."""

    class Fused(nn.Module):
        def __init__(self, embed_dim, num_heads):
            super().__init__()
            self.sizes = {"n": 3, "h": num_heads, "d": embed_dim // num_heads}
            self.qkv, self.out = nn.Linear(embed_dim, 3 * embed_dim), nn.Linear(embed_dim, embed_dim)

        def forward(self, x):
            axes = order.split()
            qkv = self.qkv(x).unflatten(-1, [self.sizes[axis] for axis in axes])
            q, k, v = qkv.permute(2 + axes.index("n"), 0, 2 + axes.index("h"), 1, 2 + axes.index("d"))
            return change(self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)))

    return Fused


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_of_a_fused_layer_is_read(order):
    assert_passes(check.self_attention, fused(order))
    assert_wrong(check.self_attention, fused(order, lambda out: out.detach()), "no gradient flows back")
    assert_wrong(check.self_attention, fused(order, lambda out: out + out.detach() - out), "no gradient")


class HandNorm(nn.Module):
    """Bias and weight by hand, the bias registered first: only their values tell which is which."""

    def __init__(self, dim):
        super().__init__()
        self.beta, self.gamma = nn.Parameter(torch.zeros(dim)), nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return F.layer_norm(x, x.shape[-1:], self.gamma, self.beta, 1e-6)


class Mixed(nn.Module):
    """A block of unlike parts: convolutions, bare matrices, torch's attention and a norm of each kind."""

    def __init__(self, D, heads, M):
        super().__init__()
        self.contract, self.expand = nn.Conv1d(M, D, 1), nn.Conv1d(D, M, 1)
        self.hand = HandNorm(D)
        self.attention = nn.MultiheadAttention(D, heads, batch_first=True)
        self.norm = nn.LayerNorm(D, eps=1e-6)

    def forward(self, z):
        y = self.norm(z)
        z = z + self.attention(y, y, y)[0]
        return z + self.contract(F.gelu(self.expand(self.hand(z).mT))).mT


def test_the_parts_of_a_block_are_told_apart_by_what_they_are():
    assert_passes(check.encoder_block, Mixed)
