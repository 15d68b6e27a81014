"""Multi-head self-attention: every token looks at every token (appendix A of the paper)."""

import math

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from .errors import require_heads


def attend(
    q: Float[Tensor, "*B T d"], k: Float[Tensor, "*B S d"], v: Float[Tensor, "*B S d"], dropout: float = 0.0
) -> tuple[Float[Tensor, "*B T d"], Float[Tensor, "*B T S"]]:
    """Compute softmax(q kᵀ / √d) v. Return the mixed values (…, T, d) and the weights (…, T, S).

    Row i of the weights says how much token i takes from each token; it sums to 1. In self-attention S = T. `dropout`
    is the probability that one weight is left out of the mix; the returned weights are those before dropout.
    Source: Eqs. 6–7 (appendix A).
    """
    weights = (q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])).softmax(dim=-1)
    return F.dropout(weights, dropout) @ v, weights


def split_heads(tokens: Float[Tensor, "B T D"], num_heads: int) -> Float[Tensor, "B h T d"]:
    """Give every head its own d = D/h of the D channels: (B, T, D) → (B, h, T, d)."""
    return tokens.unflatten(2, (num_heads, -1)).transpose(1, 2)  # (B, T, h, d) → (B, h, T, d)


def merge_heads(heads: Float[Tensor, "B h T d"]) -> Float[Tensor, "B T D"]:
    """Put the heads side by side again, the inverse of `split_heads`: (B, h, T, d) → (B, T, D)."""
    return heads.transpose(1, 2).flatten(2)  # (B, T, h, d) → (B, T, D)


class SelfAttention(nn.Module):
    """Let every token take from all tokens, in several heads at once: (B, T, D) → (B, T, D). Eqs. 5–8.

    One linear layer makes queries, keys and values, and another joins the heads. Between them one fused kernel computes
    `attend` without writing the weights to memory; `analysis.record_attention` has them.

    Raises ValueError if `embed_dim` cannot be split over `num_heads`.
    """

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, attention_dropout: float = 0.0):
        super().__init__()
        require_heads(embed_dim, num_heads)
        self.num_heads, self.head_dim = num_heads, embed_dim // num_heads
        self.qkv = nn.Linear(embed_dim, 3 * embed_dim)
        self.attention_dropout = attention_dropout
        self.projection = nn.Linear(embed_dim, embed_dim)
        self.dropout = nn.Dropout(dropout)
        # Xavier looks at the shape: q, k and v are three D×D matrices, and not one of 3D×D.
        for weight in (*self.qkv.weight.chunk(3), self.projection.weight):
            nn.init.xavier_uniform_(weight)
        nn.init.zeros_(self.qkv.bias)
        nn.init.zeros_(self.projection.bias)

    def forward(self, tokens: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        q, k, v = self.qkv(tokens).chunk(3, dim=2)  # (B, T, D) each
        q, k, v = (split_heads(part, self.num_heads) for part in (q, k, v))  # (B, h, T, d) each
        dropout = self.attention_dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=dropout)  # (B, h, T, d)
        return self.dropout(self.projection(merge_heads(mixed)))
