"""Attention with its steps replaceable, and the wrong steps seen in public, each with the sentence that names it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from .comparing import Mistake
from .layouts import Weights


def by_head(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)  # (B, T, D) → (B, h, T, d)


def joined(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)  # (B, h, T, d) → (B, T, D)


def attention(
    w: Weights,
    x: Tensor,
    *,
    sources: Sequence[Tensor] | None = None,
    split: Callable = by_head,
    scale: Callable = lambda d, D: d**-0.5,
    weigh: Callable = lambda scores: scores.softmax(-1),
    merge: Callable = joined,
    key: int = 1,
    value: int = 2,
) -> Tensor:
    """Multi-head self-attention (Eqs. 5–8), its steps replaceable; `sources`: what q, k and v come from, if not `x`."""
    qkv = [split(F.linear(z, *p), w.heads) for z, *p in zip(sources or (x, x, x), w.qkv, w.bias, strict=True)]
    q, k, v = qkv[0], qkv[key], qkv[value]
    D = x.shape[-1]
    merged = merge(weigh(q @ k.transpose(-2, -1) * scale(D // w.heads, D)) @ v)
    return merged if w.out is None else F.linear(merged, w.out, w.out_bias)


def across_batch(w: Weights, x: Tensor) -> Tensor:
    return attention(w, x.transpose(0, 1)).transpose(0, 1)


def in_heads(w: Weights, x: Tensor, *, heads: int) -> Tensor:
    return attention(w._replace(heads=heads), x)


def causal(scores: Tensor) -> Tensor:
    return scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -math.inf).softmax(-1)


def in_blocks(x: Tensor, heads: int) -> Tensor:
    return x.reshape(len(x), heads, x.shape[1], -1)


def unswapped(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(-1, (heads, -1))


def flat(x: Tensor) -> Tensor:
    return x.reshape(len(x), x.shape[2], -1)


VIEW = "`view` and `reshape` never move a number past another. (B, T, D) → (B, T, h, d) first, then swap T and h."
SCALE = "The scores are `q @ k.transpose(-2, -1) / math.sqrt(head_dim)`, before the softmax."
ROWS = "Each row of the weights is one query, and says how it shares itself out over the keys: `softmax(dim=-1)`."


def wrong(message: str, hint: str | None = None, **steps) -> Mistake:
    return Mistake(partial(attention, **steps), message, hint)


MISTAKES = [
    wrong("The scores are not divided by √d.", SCALE, scale=lambda d, D: 1),
    wrong("The scores are divided by √D, the width of a token, not by √d, the width of a head.", SCALE,
          scale=lambda d, D: D**-0.5),
    wrong("The scores are divided by d, not by √d: is the root missing, or are they scaled twice?",
          SCALE + " `F.scaled_dot_product_attention` scales by itself.", scale=lambda d, D: 1 / d),
    wrong("The scores are multiplied by √d, not divided by it.", SCALE, scale=lambda d, D: d**0.5),
    wrong("√d divides the weights after the softmax: the rows no longer sum to 1.", SCALE,
          scale=lambda d, D: 1, merge=lambda out: joined(out) / out.shape[-1] ** 0.5),
    wrong("There is no softmax: the rows of the weights do not sum to 1.", ROWS, weigh=lambda scores: scores),
    wrong("Your rows sum to 1 over the queries, not over the keys.", ROWS, weigh=lambda scores: scores.softmax(-2)),
    wrong("Your rows sum to 1 over the heads, not over the keys.", ROWS, weigh=lambda scores: scores.softmax(1)),
    wrong("Your rows sum to 1 over the batch, not over the keys.", ROWS, weigh=lambda scores: scores.softmax(0)),
    wrong("The heads are split by `view` without a transpose: a head gets pieces of different tokens mixed up.", VIEW,
          split=in_blocks),
    wrong("The heads are merged by `view` without a transpose: a token gets numbers of other tokens.",
          "Swap h and T back first: (B, h, T, d) → (B, T, h, d), then flatten the last two axes.", merge=flat),
    wrong("The heads are split and merged by `view` without a transpose: tokens get mixed up.", VIEW,
          split=in_blocks, merge=flat),
    wrong("T and h are not swapped before the scores: the heads of one token attend to each other, and no token sees "
          "another.", VIEW, split=unswapped, merge=lambda out: out.flatten(2)),
    wrong("The heads attend to each other inside a token, and are then merged by a `view` that mixes tokens.", VIEW,
          split=unswapped, merge=lambda out: out.transpose(1, 2).reshape(*out.shape[:2], -1)),
    wrong("The scores of the later tokens are masked: each token sees only those before it, as in GPT.",
          "In a Vision Transformer every patch sees every patch. No mask.", weigh=causal),
    wrong("The weights mix the keys, not the values.", "The last step is `weights @ v`.", value=1),
    wrong("The weights mix the queries, not the values.", "The last step is `weights @ v`.", value=0),
    wrong("The queries stand in for the keys too: `q @ q`, not `q @ k`.", SCALE, key=0),
    Mistake(across_batch, "Attention runs across the batch: tokens in the same place of different images see each "
            "other, and tokens of one image do not.", "`nn.MultiheadAttention` needs `batch_first=True`. Otherwise "
            "look for a `transpose(0, 1)` or a softmax over the wrong axes."),
    *(Mistake(partial(in_heads, heads=n), f"There {'are' if n > 1 else 'is'} {n} head{'s'[: n > 1]} here, whatever "
              "`num_heads` says.", "Split q, k and v into `num_heads` heads of `embed_dim // num_heads` numbers each.")
      for n in (1, 2, 4, 10, 20)),
    Mistake(lambda w, x: x + attention(w, x), "The input is added to the result: a residual connection.",
            "The residual is the encoder block's work (Eq. 2). Attention alone returns what the block adds."),
    Mistake(lambda w, x: attention(w._replace(out=None), x), "The output projection is there, and `forward` does not "
            "use it.", "The last line: the merged heads go through one more linear layer (Eq. 8)."),
]  # fmt: skip


def head(q: Tensor, k: Tensor, v: Tensor, scale: float | None = None, dim: int = -1) -> tuple[Tensor, Tensor]:
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    weights = (q @ k.T * scale).softmax(dim)
    return weights @ v, weights


def weighed(q, k, v, weigh: Callable):
    weights = weigh(q @ k.T / math.sqrt(q.shape[-1]))
    return weights @ v, weights


def scaled_after(q, k, v):
    weights = (q @ k.T).softmax(-1) / math.sqrt(q.shape[-1])
    return weights @ v, weights


def unweighted(q, k, v):
    return weighed(q, k, v, lambda scores: scores)


HEAD_MISTAKES = [
    Mistake(lambda q, k, v: head(q, k, v, 1.0), "The scores are not divided by √d.", SCALE),
    Mistake(lambda q, k, v: head(q, k, v, 1 / q.shape[1]), "The scores are divided by d, not by √d.", SCALE),
    Mistake(lambda q, k, v: head(q, k, v, q.shape[1] ** 0.5), "The scores are multiplied by √d, not divided.", SCALE),
    Mistake(lambda q, k, v: head(q, k, v, len(q) ** -0.5), "The scores are divided by √T, the root of how many tokens "
            "there are, not by √d.", SCALE),
    Mistake(lambda q, k, v: head(q, k, v, 1 / 8), "The scores are divided by 8 = √64, whatever d is.", SCALE),
    Mistake(lambda q, k, v: weighed(q, k, v, torch.exp), "The rows of the weights do not sum to 1: `exp` is only half "
            "of the softmax. Each row is divided by its sum.", ROWS),
    Mistake(lambda q, k, v: weighed(q, k, v, torch.sigmoid), "There is a sigmoid in place of the softmax: the rows of "
            "the weights do not sum to 1.", ROWS),
    Mistake(lambda q, k, v: weighed(q, k, v, lambda scores: scores.flatten().softmax(0).view_as(scores)), "All weights "
            "together sum to 1, not each row.", ROWS),
    Mistake(lambda q, k, v: ((w := (q.T @ k / q.shape[1] ** 0.5).softmax(-1)), v @ w)[::-1], "Your weights are (d, d): "
            "`q.T @ k` compares the numbers of a token. Tokens are compared by `q @ k.T`, (T, T).", SCALE),
    Mistake(scaled_after, "√d divides the weights after the softmax: the rows no longer sum to 1.", SCALE),
    Mistake(lambda q, k, v: head(q, k, v, dim=0), "Your rows sum to 1 over the queries, not over the keys.", ROWS),
    Mistake(unweighted, "There is no softmax: the rows of the weights do not sum to 1.", ROWS),
    Mistake(lambda q, k, v: head(k, q, v), "Queries and keys are swapped: row i must belong to query i.",
            "The scores are `q @ k.T`."),
    Mistake(lambda q, k, v: weighed(q, k, v, causal), "Each token sees only those before it, as in GPT.",
            "Every patch sees every patch: no mask."),
    Mistake(lambda q, k, v: (head(q, k, v)[1] @ k, head(q, k, v)[1]), "The weights mix the keys, not the values.",
            "The last step is `weights @ v`."),
    Mistake(lambda q, k, v: (head(q, k, v)[1].T @ v, head(q, k, v)[1]), "The weights are right, but their columns mix "
            "the values, not their rows.", "The last step is `weights @ v`: no transpose."),
    Mistake(lambda q, k, v: (head(q, k, v)[0], head(q, k, v)[1].T), "`out` is right, but the weights come back "
            "transposed: your columns sum to 1, not your rows.", ROWS),
    Mistake(lambda q, k, v: (head(q, k, v)[0], unweighted(q, k, v)[1]), "`out` is right, but in place of the weights "
            "come the scores before the softmax.", "Return what the softmax gave."),
    Mistake(lambda q, k, v: head(q, k, v)[::-1], "The two results come in the wrong order.", "`return out, weights`"),
    Mistake(lambda q, k, v: head(q, k, v)[0], "`out` is right, but only `out` is returned: the weights too, please.",
            "`return out, weights`"),
    Mistake(lambda q, k, v: head(q, k, v)[1], "Only the weights are returned, not yet used.",
            "`return weights @ v, weights`"),
]  # fmt: skip


SPLIT_MISTAKES = [
    Mistake(lambda x, h: x.reshape(len(x), h, x.shape[1], -1), "The shape is right, but `view` alone cuts across "
            "tokens: a head gets pieces of different tokens mixed up.", VIEW),
    Mistake(lambda x, h: x.unflatten(-1, (h, -1)), "T and h are not swapped: this is (B, T, h, d), and (B, h, T, d) is "
            "asked.", "The next step is `transpose(1, 2)`."),
    Mistake(lambda x, h: x.unflatten(-1, (-1, h)).permute(0, 3, 1, 2), "Each head takes every h-th number of a token. "
            "Head 0 is the first d numbers, head 1 the next d.", "Split D into (h, d), not into (d, h)."),
    Mistake(lambda x, h: x.unflatten(-1, (h, -1)).permute(0, 2, 3, 1), "The last two axes are swapped: this is "
            "(B, h, d, T), and (B, h, T, d) is asked.", "`transpose(1, 2)` swaps T and h, and leaves d last."),
    Mistake(lambda x, h: x.unflatten(-1, (-1, h)).transpose(1, 2), "h and d are exchanged: this is (B, d, T, h). "
            "`num_heads` is how many heads there are, not how many numbers one has.", "Split D into (h, d)."),
    Mistake(lambda x, h: torch.stack(x.chunk(h, -1)), "The heads come before the batch: this is (h, B, T, d).",
            "`torch.stack(..., dim=1)` puts them second."),
    Mistake(lambda x, h: by_head(x, h).flatten(0, 1), "Batch and heads are folded into one axis, (B·h, T, d).",
            "Keep them apart: (B, h, T, d)."),
]  # fmt: skip

MERGE_MISTAKES = [
    Mistake(lambda x: x.reshape(len(x), x.shape[2], -1), "The shape is right, but `view` alone cuts across heads: a "
            "token gets numbers of other tokens.", "Swap h and T back first, (B, h, T, d) → (B, T, h, d)."),
    Mistake(lambda x: x.permute(0, 2, 3, 1).flatten(2), "The numbers of the heads are dealt out in turn. The d numbers "
            "of head 0 stay together, then those of head 1.", "Flatten (h, d), not (d, h)."),
    Mistake(lambda x: x.transpose(1, 2), "T and h are swapped back, but not merged: this is still (B, T, h, d).",
            "The last step is `flatten(2)`."),
    Mistake(lambda x: x.sum(1), "The heads are added up. They stand side by side: D = h·d numbers for a token."),
    Mistake(lambda x: x.mean(1), "The heads are averaged. They stand side by side: D = h·d numbers for a token."),
    Mistake(lambda x: x.flatten(1, 2), "Heads and tokens are merged into one axis, (B, h·T, d).",
            "Swap h and T first, then flatten the last two axes."),
]  # fmt: skip
