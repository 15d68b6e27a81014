"""Lesson 03: one head, heads split and merged, multi-head self-attention; each with its judge and known mistakes."""

from __future__ import annotations

import math
from itertools import product

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .comparing import Mistake, compare, mistakes_in, random_tensor
from .exercise import exercise
from .modules import Layer, Search, Trial, facts
from .reading_weights import Layout, attention_layers, complain_about_attention, layouts, read_attention, usual_layouts
from .references import AttentionWeights, attention, by_head, head, joined
from .running import Wrong, call, raise_first


def my_attention_head(q, k, v):
    scores = q @ k.T / q.shape[-1] ** 0.5  # (T, d) @ (d, T) → (T, T)
    weights = scores.softmax(dim=-1)  # each row sums to 1
    return weights @ v, weights  # (T, T) @ (T, d) → (T, d)


@exercise(
    hint="Three steps: scores `q @ k.T`, divided by √d; a softmax along each row; the rows mix the values. "
    "The weights are (T, T), and each row sums to 1.",
    solution=my_attention_head,
)
def attention_head(function):
    """`fn(q, k, v) -> (out, weights)`: one head, q, k, v and out (T, d), weights (T, T)."""
    trials = [tuple(random_tensor(T, d, seed=i) for i in range(3)) for T, d in [(5, 3), (1, 2), (4, 7)]]
    compare(function, head, trials, (("out", "(T, d)"), ("weights", "(T, T)")), HEAD_MISTAKES)
    q, k, v = trials[-1]
    if not call(function, 100 * q, k, v)[0].isfinite().all():
        return (
            "One thing for later: `exp` overflows when a score passes 88. `softmax` subtracts each row's maximum first."
        )
    return None


def causal(scores: Tensor) -> Tensor:
    return scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -math.inf).softmax(-1)


SCALE = (
    "The scores are `q @ k.transpose(-2, -1) / math.sqrt(head_dim)`, before the softmax. "
    "`F.scaled_dot_product_attention` scales by itself."
)
ROWS = "Each row of the weights is one query, and says how it shares itself out over the keys: `softmax(dim=-1)`."
TRANSPOSE = "`q @ k.T` is (T, d) @ (d, T), and so (T, T): every query with every key."
BOTH = "`return out, weights`"

# Wrong scales, as functions of d and D, and what people write instead of the softmax: for one head and for many.
SCALES = [
    (lambda d, D: 1, "The scores are not divided by √d."),
    (lambda d, D: 1 / d, "The scores are divided by d, not by √d: is the root missing, or are they scaled twice?"),
    (lambda d, D: d**0.5, "The scores are multiplied by √d, not divided by it."),
    *((lambda d, D, n=n: n**-0.5, f"The scores are divided by {n**0.5:g} = √{n}, not by √d.") for n in (4, 64)),
]
WEIGHINGS = [
    (lambda scores: scores, "There is no softmax: the rows of the weights do not sum to 1."),
    (lambda scores: scores.softmax(-2), "The softmax runs over the queries, not over the keys: your columns sum to 1, "
     "not your rows."),
    (torch.exp, "The rows of the weights do not sum to 1: `exp` is only half of the softmax. Each row is divided by "
     "its sum."),
    (torch.sigmoid, "There is a sigmoid instead of the softmax: the rows of the weights do not sum to 1."),
    (lambda scores: scores.flatten(-2).softmax(-1).view_as(scores), "All weights together sum to 1, not each row."),
    (lambda scores: F.one_hot(scores.argmax(-1), scores.shape[-1]).to(scores.dtype), "Each query takes one key, the "
     "one with the largest score: an argmax. The softmax gives every key a share."),
    (causal, "The scores of the later tokens are masked: each token sees only itself and those before it, as in GPT. "
     "In a Vision Transformer every patch sees every patch."),
]  # fmt: skip

wrong = mistakes_in(head)

HEAD_MISTAKES = [
    *(wrong(message, SCALE, scale=scale) for scale, message in SCALES),
    *(wrong(message, ROWS, weigh=weigh) for weigh, message in WEIGHINGS),
    wrong("The rows of the weights do not sum to 1: column j is divided by the sum of row j.", "`e.sum(1)` is a row of "
          "T values: they meet the columns. `e.sum(1, keepdim=True)` is a column, (T, 1), one value for each row.",
          weigh=lambda scores: scores.exp() / scores.exp().sum(1)),
    Mistake(lambda q, k, v: head(q, k, v, lambda d, D: len(q) ** -0.5), "The scores are divided by √T, the root of "
            "how many tokens there are, not by √d.", SCALE),
    Mistake(lambda q, k, v: head(q, k, v, lambda d, D: 1, lambda scores: scores.softmax(-1) / q.shape[1] ** 0.5),
            "√d divides the weights after the softmax: the rows no longer sum to 1.", SCALE),
    Mistake(lambda q, k, v: ((w := (q * k / q.shape[1] ** 0.5).softmax(-1)) * v, w), "Your weights are (T, d): "
            "`q * k` multiplies value by value, and each token meets only itself. The weights are (T, T).", TRANSPOSE),
    Mistake(lambda q, k, v: q @ k, "Two matrices of (T, d) cannot be multiplied: one of them must be transposed, or "
            "must be the weights, (T, T).", TRANSPOSE),
    Mistake(lambda q, k, v: ((w := (q.T @ k / q.shape[1] ** 0.5).softmax(-1)), v @ w)[::-1], "Your weights are (d, d): "
            "`q.T @ k` compares the values of a token. Tokens are compared by `q @ k.T`, (T, T).", SCALE),
    Mistake(lambda q, k, v: head(k, q, v), "Queries and keys are swapped: row i must belong to query i.",
            "The scores are `q @ k.T`."),
    Mistake(lambda q, k, v: head(q, k, k), "The weights mix the keys, not the values.", "The last step is "
            "`weights @ v`."),
    Mistake(lambda q, k, v: (head(q, k, v)[1].T @ v, head(q, k, v)[1]), "The weights are right, but their columns mix "
            "the values, not their rows.", "The last step is `weights @ v`: no transpose."),
    Mistake(lambda q, k, v: (head(q, k, v)[0], head(q, k, v)[1].T), "`out` is right, but the weights come back "
            "transposed: your columns sum to 1, not your rows.", ROWS),
    Mistake(lambda q, k, v: (head(q, k, v)[0], head(q, k, v, weigh=lambda scores: scores)[1]), "`out` is right, but "
            "instead of the weights you return the scores before the softmax.", "Return what the softmax gave."),
    Mistake(lambda q, k, v: head(q, k, v)[::-1], "The two results come in the wrong order.", BOTH),
    Mistake(lambda q, k, v: head(q, k, v)[0], "`out` is right, but only `out` is returned: the weights too, please.",
            BOTH),
    Mistake(lambda q, k, v: head(q, k, v)[1], "Only the weights are returned, not yet used.",
            "`return weights @ v, weights`"),
]  # fmt: skip


def my_split_heads(tokens, num_heads):
    B, T, D = tokens.shape
    pieces = tokens.reshape(B, T, num_heads, D // num_heads)  # (B, T, h, d)
    return pieces.transpose(1, 2)  # (B, h, T, d)


@exercise(
    hint="Two steps. `unflatten(-1, (h, d))` cuts the D values of a token into h pieces; then T and h change places.",
    solution=my_split_heads,
)
def split_heads(function):
    """`fn(tokens, num_heads)`: (B, T, D) → (B, h, T, d), head 0 the first d values of a token."""
    trials = [(random_tensor(2, 5, 12), 3), (random_tensor(1, 4, 6), 1), (random_tensor(3, 7, 10), 2)]
    compare(function, by_head, trials, "(B, h, T, d)", SPLIT_MISTAKES)
    tokens, heads = trials[0]
    if call(function, tokens, heads).untyped_storage().data_ptr() != tokens.untyped_storage().data_ptr():
        return (
            "The values are right, and yours are a copy: `chunk` gives views, `stack` and `cat` copy them. The task "
            "asks for heads without a copy: `unflatten` (or `view`), then `transpose`."
        )
    return None


def in_blocks(x: Tensor, heads: int) -> Tensor:
    return x.reshape(len(x), heads, x.shape[1], -1)


def unswapped(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(-1, (heads, -1))


VIEW = "`view` and `reshape` keep the values in their order. (B, T, D) → (B, T, h, d) first, then swap T and h."

SPLIT_MISTAKES = [
    Mistake(in_blocks, "The shape is right, but `view` or `reshape` alone "
            "cuts across tokens: a head gets pieces of different tokens mixed up.", VIEW),
    Mistake(unswapped, "T and h are not swapped: this is (B, T, h, d), not "
            "(B, h, T, d).", "The next step is `transpose(1, 2)`."),
    Mistake(lambda x, h: x.unflatten(-1, (-1, h)).permute(0, 3, 1, 2), "Each head takes every h-th value of a token. "
            "Head 0 is the first d values, head 1 the next d.", "Split D into (h, d), not into (d, h)."),
    Mistake(lambda x, h: x.unflatten(-1, (h, -1)).permute(0, 2, 3, 1), "The last two axes are swapped: this is "
            "(B, h, d, T), not (B, h, T, d).", "`transpose(1, 2)` swaps T and h, and leaves d last."),
    Mistake(lambda x, h: x.unflatten(-1, (-1, h)).transpose(1, 2), "h and d are exchanged: this is (B, d, T, h). "
            "`num_heads` is how many heads there are, not how many values one has.", "Split D into (h, d)."),
    Mistake(lambda x, h: torch.stack(x.chunk(h, -1)), "The heads come before the batch: this is (h, B, T, d).",
            "`torch.stack(..., dim=1)` puts them second."),
    Mistake(lambda x, h: by_head(x, h).flatten(0, 1), "Batch and heads are folded into one axis, (B·h, T, d).",
            "Keep them apart: (B, h, T, d)."),
]  # fmt: skip


def my_merge_heads(heads):
    B, h, T, d = heads.shape
    return heads.transpose(1, 2).reshape(B, T, h * d)  # (B, h, T, d) → (B, T, h, d) → (B, T, D)


@exercise(
    hint="Undo `split_heads`, its last step first: T and h change places, then (h, d) become D.",
    solution=my_merge_heads,
)
def merge_heads(function):
    """`fn(heads)`: (B, h, T, d) → (B, T, D), the heads of a token side by side."""
    trials = [(random_tensor(2, 3, 5, 4),), (random_tensor(1, 1, 4, 6),), (random_tensor(3, 2, 7, 5),)]
    compare(function, joined, trials, "(B, T, D)", MERGE_MISTAKES)


def flat(x: Tensor) -> Tensor:
    return x.reshape(len(x), x.shape[2], -1)


SWAP = "Swap h and T back first, (B, h, T, d) → (B, T, h, d), then flatten the last two axes."

MERGE_MISTAKES = [
    Mistake(flat, "The shape is right, but `reshape` alone cuts across heads: a "
            "token gets values of other tokens.", SWAP),
    Mistake(lambda x: x.permute(0, 2, 3, 1).flatten(2), "The values of the heads are dealt out in turn. The d values "
            "of head 0 stay together, then those of head 1.", "Flatten (h, d), not (d, h)."),
    *(Mistake(lambda x, axes=axes: x.permute(0, *axes).reshape(len(x), x.shape[2], -1), "The shape is right, but "
              f"before the last step the axes are (B, {', '.join('BhTd'[i] for i in axes)}), not (B, T, h, d): tokens, "
              "heads and their values get mixed up.", "Swap h and T, nothing else: `transpose(1, 2)`.")
      for axes in ((1, 3, 2), (3, 1, 2), (3, 2, 1))),
    Mistake(lambda x: joined(x.flip(1)), "The heads stand in the opposite order: head 0 comes first."),
    Mistake(lambda x: x.transpose(1, 2), "T and h are swapped back, but not merged: this is still (B, T, h, d).",
            "The last step is `flatten(2)`."),
    Mistake(lambda x: x.sum(1), "The heads are added up. They stand side by side: D = h·d values for a token."),
    Mistake(lambda x: x.mean(1), "The heads are averaged. They stand side by side: D = h·d values for a token."),
    Mistake(lambda x: x.flatten(1, 2), "Heads and tokens are merged into one axis, (B, h·T, d).", SWAP),
]  # fmt: skip


class MySelfAttention(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.qkv = nn.Linear(embed_dim, 3 * embed_dim)
        self.projection = nn.Linear(embed_dim, embed_dim)

    def forward(self, tokens):
        B, T, D = tokens.shape
        q, k, v = (
            part.reshape(B, T, self.num_heads, -1).transpose(1, 2)  # (B, h, T, d)
            for part in self.qkv(tokens).chunk(3, dim=-1)  # each (B, T, D)
        )
        scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5  # (B, h, T, T)
        mixed = scores.softmax(dim=-1) @ v  # (B, h, T, d)
        return self.projection(mixed.transpose(1, 2).reshape(B, T, D))


@exercise(
    hint="Five steps: one linear layer for q, k and v (or three); split each into heads; softmax(q kᵀ / √d) v; merge "
    "the heads; one more linear layer. `split_heads`, `merge_heads` and `attention_head` are three of them.",
    solution=MySelfAttention,
)
def self_attention(cls):
    """`cls(embed_dim, num_heads)`, an nn.Module: multi-head self-attention, (B, T, D) → (B, T, D)."""
    first = attention_trial(cls, 2, 7, 20, 5)
    layers, total = attention_layers(first.parts, 20), sum(p.numel() for p in first.module.parameters())
    ways = list(layouts(layers, 20, 5))
    layout = Search(first, attention, read_trial).first(ways)
    if layout is None:
        check_layers(first)
        check_shared(first)
        Search(first, attention, read_trial).recognise(usual_layouts(ways), ATTENTION_MISTAKES)
        raise Wrong(
            "The shape is right, the values are not those of multi-head self-attention, and none of the usual mistakes "
            f"explains them.\n{facts(first, 4 * (20 * 20 + 20))}",
            "Take it apart: `check.split_heads`, `check.attention_head` and `check.merge_heads` judge one step each. "
            "q, k, v and the output each need D·D weights and D biases.",
        )
    complain_about_attention(read_trial(first, layout))
    bare = [f"`{layer.name.removesuffix('.weight')}`" for layer in layers if layer.bias is None]
    literal = bool(bare) and total - 4 * 20 * 20 in (0, 20, 3 * 20)  # as Eqs. 5-8 are written: no biases, or not all
    count = total if literal else 4 * (20 * 20 + 20)
    search = Search(first, attention, read_trial, count)
    search.confirm(layout, lambda: attention_trial(cls, 3, 5, 12, 2), ATTENTION_MISTAKES)
    if literal:
        return (
            f"Without a bias: {', '.join(bare)}. Eqs. 5 to 8 have none either. The authors' code has D biases each for "
            "q, k, v and the output, and so do published weights: to load those, leave `bias=False` out."
        )
    return None


def check_layers(trial: Trial) -> None:
    """Raise Wrong for layers that have no place in attention, or an output projection that takes in another width."""
    (D, heads), layers = trial.args, attention_layers(trial.parts, trial.args[0])
    fused = any(isinstance(part, nn.MultiheadAttention) for part in trial.module.modules())
    names = {layer.sizes: f"`{layer.name.removesuffix('.weight')}`" for layer in layers}
    wide, narrow = names.get((D, heads * D)), names.get((D, D // heads))
    raise_first([
        (bool(trial.parts.norms), "There is a LayerNorm inside your attention.", "The norm is the encoder block's work "
         "(Eq. 2)."),
        (fused and len(layers) > 2, "There are more linear layers beside `nn.MultiheadAttention`. It projects q, k, v "
         "and the output itself.", "Give it the tokens as they come: `self.attention(tokens, tokens, tokens)`."),
        (wide is not None, f"{wide} takes in h·D = {heads * D} values: are your heads D wide each?",
         "All heads together have D values: a head has d = D / h of them."),
        (narrow is not None, f"{narrow} takes in d = {D // heads} values: are your heads added up or averaged?",
         "The heads of a token stand side by side, h·d = D values, and all of them go through the last layer."),
    ])  # fmt: skip


def check_shared(trial: Trial) -> None:
    """Raise Wrong if the module is right except for a layer that is missing, or is used in two places."""
    D, heads = trial.args
    layers = [*attention_layers(trial.parts, D), Layer("", torch.eye(D), None)]  # the last one is no layer at all
    none = len(layers) - 1
    picks = product(range(none + 1), repeat=4) if none < 5 else ()  # which layer is q, k, v and the output
    search = Search(
        trial, attention, lambda trial, pick: read_attention([layers[i] for i in pick], Layout(-1), D, heads)
    )
    pick = search.first(pick for pick in picks if none in pick[:3] or none < 4)
    if pick is not None:
        shared = none if none in pick[:3] else max(pick, key=pick.count)
        names = ("the queries", "the keys", "the values", "the output")
        *most, last = (name for name, layer in zip(names, pick, strict=True) if layer == shared)
        what = "no layer: they are the tokens as they came" if shared == none else "the same layer: each needs its own"
        raise Wrong(
            f"{' and '.join([', '.join(most)] * bool(most) + [last]).capitalize()} come from {what}.",
            "Three layers for q, k and v, or one that returns 3·D values, cut into three; and one for the output.",
        )


def attention_trial(cls: type, B: int, T: int, D: int, heads: int) -> Trial:
    sizes = f"embed_dim {D} and num_heads {heads}, for {B} images of {T} tokens"
    return Trial(cls, (D, heads), random_tensor(B, T, D), (B, T, D), "(B, T, D)", sizes)


def read_trial(trial: Trial, layout: Layout) -> AttentionWeights | None:
    D, heads = trial.args
    return read_attention(attention_layers(trial.parts, D), layout, D, heads)


EQ8 = "The last line: the merged heads go through one more linear layer (Eq. 8)."

wrong = mistakes_in(attention)

ATTENTION_MISTAKES = [
    *(wrong(message, SCALE, scale=scale) for scale, message in SCALES),
    wrong("The scores are divided by √D, the width of a token, not by √d, the width of a head.", SCALE,
          scale=lambda d, D: D**-0.5),
    wrong("The scores are divided by √h, the root of how many heads there are, not by √d.", SCALE,
          scale=lambda d, D: (d / D) ** 0.5),
    wrong("√d divides the weights after the softmax: the rows no longer sum to 1.", SCALE,
          scale=lambda d, D: 1, merge=lambda out: joined(out) / out.shape[-1] ** 0.5),
    *(wrong(message, ROWS, weigh=weigh) for weigh, message in WEIGHINGS),
    wrong("The softmax runs over the heads, not over the keys: the rows of the weights do not sum to 1.", ROWS,
          weigh=lambda scores: scores.softmax(1)),
    wrong("The softmax runs over the batch, not over the keys: the rows of the weights do not sum to 1.", ROWS,
          weigh=lambda scores: scores.softmax(0)),
    wrong("The weights are averaged over the heads: all heads mix their values in the same way.",
          "Each head uses its own (T, T) weights; the results of the heads stand side by side.",
          weigh=lambda scores: scores.softmax(-1).mean(1, keepdim=True)),
    wrong("The heads are split by `view` or `reshape` without a transpose: a head gets pieces of different tokens "
          "mixed up.", VIEW, split=in_blocks),
    wrong("The heads are merged by `view` or `reshape` without a transpose: a token gets values of other tokens.",
          SWAP, merge=flat),
    wrong("The heads are split and merged by `view` or `reshape` without a transpose: tokens get mixed up.", VIEW,
          split=in_blocks, merge=flat),
    wrong("T and h are not swapped before the scores: the heads of one token attend to each other, and no token sees "
          "another.", VIEW, split=unswapped, merge=lambda out: out.flatten(2)),
    wrong("The heads attend to each other inside a token, and are then merged by a `reshape` that mixes tokens.", VIEW,
          split=unswapped, merge=lambda out: out.transpose(1, 2).reshape(*out.shape[:2], -1)),
    wrong("The weights mix the keys, not the values.", "The last step is `weights @ v`.", value=1),
    wrong("The weights mix the queries, not the values.", "The last step is `weights @ v`.", value=0),
    wrong("The queries stand in for the keys too: `q @ q`, not `q @ k`.", SCALE, key=0),
    Mistake(lambda w, x: attention(w, x.transpose(0, 1)).transpose(0, 1), "Attention runs across the batch: tokens in "
            "the same place of different images see each other, and tokens of one image do not.",
            "`nn.MultiheadAttention` needs `batch_first=True`. Otherwise look for a `transpose(0, 1)` or a softmax "
            "over the wrong axes."),
    *(Mistake(lambda w, x, n=n: attention(w._replace(heads=n), x), f"There {'are' if n > 1 else 'is'} {n} "
              f"head{'s'[: n > 1]} here, whatever `num_heads` says.", "Split q, k and v into `num_heads` heads of "
              "`embed_dim // num_heads` values each.") for n in (1, 2, 4, 10, 20)),
    Mistake(lambda w, x: x + attention(w, x), "The input is added to the result: a residual connection.",
            "The residual is the encoder block's work (Eq. 2). Attention alone returns what the block adds."),
    Mistake(lambda w, x: attention(w._replace(out=None), x), "The output projection is there, and `forward` does not "
            "use it.", EQ8),
    Mistake(lambda w, x: attention(w._replace(out=None), F.linear(x, w.out, w.out_bias)), "The output projection comes "
            "first, before q, k and v. It comes last, after the heads are merged.", EQ8),
]  # fmt: skip
