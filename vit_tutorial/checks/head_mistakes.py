"""One attention head, heads split and heads merged, as people get them wrong."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import permutations

import torch
from torch import Tensor

from .attention_mistakes import ROWS, SCALE, SCALES, VIEW, WEIGHINGS, by_head, joined
from .comparing import Mistake


def head(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    scale: Callable = lambda d, D: d**-0.5,
    weigh: Callable = lambda scores: scores.softmax(-1),
) -> tuple[Tensor, Tensor]:
    """One head (Eqs. 5-7), its steps replaceable."""
    weights = weigh(q @ k.T * scale(q.shape[1], q.shape[1]))
    return weights @ v, weights


def scaled_after(q, k, v):
    weights = (q @ k.T).softmax(-1) / q.shape[1] ** 0.5
    return weights @ v, weights


def scores(q, k):
    return q @ k.T / q.shape[1] ** 0.5


HEAD_MISTAKES = [
    *(Mistake(partial(head, scale=scale), message, SCALE) for scale, message in SCALES),
    *(Mistake(partial(head, weigh=weigh), message, hint) for weigh, message, hint in WEIGHINGS),
    Mistake(partial(head, weigh=lambda scores: scores.exp() / scores.exp().sum(1)), "The rows of the weights do not "
            "sum to 1: column j is divided by the sum of row j.", "`e.sum(1)` is a row of T numbers: they meet the "
            "columns. `e.sum(1, keepdim=True)` is a column, (T, 1), one number for each row."),
    Mistake(lambda q, k, v: head(q, k, v, lambda d, D: len(q) ** -0.5), "The scores are divided by √T, the root of "
            "how many tokens there are, not by √d.", SCALE),
    Mistake(lambda q, k, v: ((w := (q.T @ k / q.shape[1] ** 0.5).softmax(-1)), v @ w)[::-1], "Your weights are (d, d): "
            "`q.T @ k` compares the numbers of a token. Tokens are compared by `q @ k.T`, (T, T).", SCALE),
    Mistake(scaled_after, "√d divides the weights after the softmax: the rows no longer sum to 1.", SCALE),
    Mistake(lambda q, k, v: head(k, q, v), "Queries and keys are swapped: row i must belong to query i.",
            "The scores are `q @ k.T`."),
    Mistake(lambda q, k, v: (head(q, k, v)[1] @ k, head(q, k, v)[1]), "The weights mix the keys, not the values.",
            "The last step is `weights @ v`."),
    Mistake(lambda q, k, v: (head(q, k, v)[1].T @ v, head(q, k, v)[1]), "The weights are right, but their columns mix "
            "the values, not their rows.", "The last step is `weights @ v`: no transpose."),
    Mistake(lambda q, k, v: (head(q, k, v)[0], head(q, k, v)[1].T), "`out` is right, but the weights come back "
            "transposed: your columns sum to 1, not your rows.", ROWS),
    Mistake(lambda q, k, v: (head(q, k, v)[0], scores(q, k)), "`out` is right, but in place of the weights "
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
    *(Mistake(lambda x, axes=axes: x.permute(0, *axes).reshape(len(x), x.shape[2], -1), "The shape is right, but "
              f"before the last step the axes are (B, {', '.join('BhTd'[i] for i in axes)}), not (B, T, h, d): tokens, "
              "heads and their numbers get mixed up.", "Swap h and T, nothing else: `transpose(1, 2)`.")
      for axes in permutations((1, 2, 3)) if axes != (2, 1, 3)),
    Mistake(lambda x: joined(x.flip(1)), "The heads stand in the opposite order: head 0 comes first."),
    Mistake(lambda x: x.transpose(1, 2), "T and h are swapped back, but not merged: this is still (B, T, h, d).",
            "The last step is `flatten(2)`."),
    Mistake(lambda x: x.sum(1), "The heads are added up. They stand side by side: D = h·d numbers for a token."),
    Mistake(lambda x: x.mean(1), "The heads are averaged. They stand side by side: D = h·d numbers for a token."),
    Mistake(lambda x: x.flatten(1, 2), "Heads and tokens are merged into one axis, (B, h·T, d).",
            "Swap h and T first, then flatten the last two axes."),
]  # fmt: skip
