"""Multi-head self-attention: every token looks at every token (appendix A of the paper)."""

from __future__ import annotations

import math

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from .validation import check_heads


def attend(
    q: Float[Tensor, "*B T d"], k: Float[Tensor, "*B S d"], v: Float[Tensor, "*B S d"], dropout: float = 0.0
) -> tuple[Float[Tensor, "*B T d"], Float[Tensor, "*B T S"]]:
    """softmax(q kᵀ / √d) v: (B, h, T, d) three times → the mixed values (B, h, T, d) and the weights (B, h, T, T).

    Row i of the weights says how much token i takes from each token; it sums to 1. `dropout` is the
    probability that one weight is left out of the mix; the returned weights are those before it.
    Source: Eqs. 6–7 (appendix A).
    """
    weights = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(dim=-1)
    return F.dropout(weights, dropout) @ v, weights


def split_heads(tokens: Float[Tensor, "B T D"], num_heads: int) -> Float[Tensor, "B h T d"]:
    """Give every head its own d = D/h of the D numbers: (B, T, D) → (B, h, T, d)."""
    return tokens.unflatten(2, (num_heads, -1)).transpose(1, 2)  # (B, T, h, d) → (B, h, T, d)


def merge_heads(heads: Float[Tensor, "B h T d"]) -> Float[Tensor, "B T D"]:
    """Put the heads' numbers side by side again, the inverse of `split_heads`: (B, h, T, d) → (B, T, D)."""
    return heads.transpose(1, 2).flatten(2)  # (B, T, h, d) → (B, T, D)


class FusedAttention(nn.Module):
    """`attend` in one kernel that never writes the weights to memory, so it has none to give."""

    def __init__(self, dropout: float = 0.0):
        super().__init__()
        self.rate = dropout

    def forward(self, q: Float[Tensor, "B h T d"], k: Float[Tensor, "B h T d"], v: Float[Tensor, "B h T d"]):
        return F.scaled_dot_product_attention(q, k, v, dropout_p=self.rate * self.training), None

    def explicit(self) -> nn.Module:
        """The same attention, with its weights."""
        return ExplicitAttention(self.rate)


class ExplicitAttention(nn.Module):
    """`attend` as the equation says it: gives the weights too, at the price of time and memory."""

    def __init__(self, dropout: float = 0.0):
        super().__init__()
        self.rate = dropout

    def forward(self, q: Float[Tensor, "B h T d"], k: Float[Tensor, "B h T d"], v: Float[Tensor, "B h T d"]):
        return attend(q, k, v, self.rate * self.training)

    def explicit(self) -> nn.Module:
        return self


class SelfAttention(nn.Module):
    """Queries, keys and values from one linear layer, attention in each head, one linear layer to join: Eqs. 5–8.

    (B, T, D) → (B, T, D). How the heads attend is a strategy, `(q, k, v) → (out, weights or None)`:
    `FusedAttention` unless `analysis` swaps in another one.

    Raises ValueError if `embed_dim` cannot be split over `num_heads`.
    """

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, attention_dropout: float = 0.0):
        super().__init__()
        check_heads(embed_dim, num_heads)
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
        self.qkv = nn.Linear(embed_dim, 3 * embed_dim)
        self.strategy = FusedAttention(attention_dropout)
        self.projection = nn.Linear(embed_dim, embed_dim)
        self.dropout = nn.Dropout(dropout)
        for weight in (*self.qkv.weight.chunk(3), self.projection.weight):
            nn.init.xavier_uniform_(weight)
        nn.init.zeros_(self.qkv.bias)
        nn.init.zeros_(self.projection.bias)

    def forward(self, tokens: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        q, k, v = (split_heads(part, self.num_heads) for part in self.qkv(tokens).chunk(3, dim=2))  # each (B, h, T, d)
        mixed, _ = self.strategy(q, k, v)  # (B, h, T, d)
        return self.dropout(self.projection(merge_heads(mixed)))
