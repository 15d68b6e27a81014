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
SCALE = (
    "The scores are `q @ k.transpose(-2, -1) / math.sqrt(head_dim)`, before the softmax. "
    "`F.scaled_dot_product_attention` scales by itself."
)
ROWS = "Each row of the weights is one query, and says how it shares itself out over the keys: `softmax(dim=-1)`."

# Wrong scales, as functions of d and D, and what people put in the softmax's place: for one head and for many.
SCALES = [
    (lambda d, D: 1, "The scores are not divided by √d."),
    (lambda d, D: 1 / d, "The scores are divided by d, not by √d: is the root missing, or are they scaled twice?"),
    (lambda d, D: d**0.5, "The scores are multiplied by √d, not divided by it."),
    *((lambda d, D, n=n: n**-0.5, f"The scores are divided by {n**0.5:g} = √{n}, not by √d.") for n in (4, 64)),
]
WEIGHINGS = [
    (lambda scores: scores, "There is no softmax: the rows of the weights do not sum to 1.", ROWS),
    (lambda scores: scores.softmax(-2), "The softmax runs over the queries, not over the keys: your columns sum to 1, "
     "not your rows.", ROWS),
    (torch.exp, "The rows of the weights do not sum to 1: `exp` is only half of the softmax. Each row is divided by "
     "its sum.", ROWS),
    (torch.sigmoid, "There is a sigmoid in place of the softmax: the rows of the weights do not sum to 1.", ROWS),
    (lambda scores: scores.flatten(-2).softmax(-1).view_as(scores), "All weights together sum to 1, not each row.",
     ROWS),
    (lambda scores: F.one_hot(scores.argmax(-1), scores.shape[-1]).to(scores.dtype), "Each query takes one key, that "
     "with the largest score: an argmax. The softmax gives every key a share.", ROWS),
    (causal, "The scores of the later tokens are masked: each token sees only those before it, as in GPT.",
     "In a Vision Transformer every patch sees every patch. No mask."),
]  # fmt: skip


def wrong(message: str, hint: str | None = None, **steps) -> Mistake:
    return Mistake(partial(attention, **steps), message, hint)


MISTAKES = [
    *(wrong(message, SCALE, scale=scale) for scale, message in SCALES),
    wrong("The scores are divided by √D, the width of a token, not by √d, the width of a head.", SCALE,
          scale=lambda d, D: D**-0.5),
    wrong("The scores are divided by √h, the root of how many heads there are, not by √d.", SCALE,
          scale=lambda d, D: (d / D) ** 0.5),
    wrong("√d divides the weights after the softmax: the rows no longer sum to 1.", SCALE,
          scale=lambda d, D: 1, merge=lambda out: joined(out) / out.shape[-1] ** 0.5),
    *(wrong(message, hint, weigh=weigh) for weigh, message, hint in WEIGHINGS),
    wrong("The softmax runs over the heads, not over the keys: the rows of the weights do not sum to 1.", ROWS,
          weigh=lambda scores: scores.softmax(1)),
    wrong("The softmax runs over the batch, not over the keys: the rows of the weights do not sum to 1.", ROWS,
          weigh=lambda scores: scores.softmax(0)),
    wrong("The weights are averaged over the heads: all heads mix their values in the same way.",
          "Each head uses its own (T, T) weights; the results of the heads stand side by side.",
          weigh=lambda scores: scores.softmax(-1).mean(1, keepdim=True)),
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
    Mistake(lambda w, x: attention(w._replace(out=None), F.linear(x, w.out, w.out_bias)), "The output projection comes "
            "first, before q, k and v. It comes last, after the heads are merged.", "The last line: the merged heads "
            "go through one more linear layer (Eq. 8)."),
]  # fmt: skip
