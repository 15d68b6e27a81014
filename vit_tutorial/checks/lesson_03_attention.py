"""Lesson 03: one head, heads split and merged, multi-head self-attention; each with its judge and known mistakes."""

from __future__ import annotations

import math
from functools import partial
from itertools import permutations, product

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from .comparing import compare, known, random_tensor, replacing
from .exercise import exercise
from .modules import TokenTrial
from .reading_weights import Layout, attention_problems, layouts, read_attention
from .references import AttentionWeights, Layer, attention, by_head, head, join
from .running import Wrong, call, raise_first


def my_attention_head(q, k, v):
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5  # (T, d) @ (d, T) → (T, T)
    weights = scores.softmax(dim=-1)  # each row sums to 1
    return weights @ v, weights  # (T, T) @ (T, d) → (T, d)


@exercise(
    hint="Three steps: scores `q @ k.transpose(-2, -1)`, divided by √d; a softmax along each row; the rows mix the "
    "values. The weights are (T, T), and each row sums to 1.",
    solution=my_attention_head,
)
def attention_head(function):
    """`fn(q, k, v) -> (out, weights)`: one head, q, k, v and out (T, d), weights (T, T)."""
    trials = [tuple(random_tensor(T, d, seed=i) for i in range(3)) for T, d in [(5, 3), (1, 2), (4, 7)]]
    compare(function, head, trials, (("out", "(T, d)"), ("weights", "(T, T)")), HEAD_MISTAKES)
    q, k, v = trials[-1]
    return None if call(function, 100 * q, k, v)[0].isfinite().all() else OVERFLOW


OVERFLOW = "One thing for later: `exp` overflows when a score passes 88. `softmax` subtracts each row's maximum first."
SCALE = "`F.scaled_dot_product_attention` divides by √d itself; by hand, divide before the softmax."
NOT_1 = "the rows of the weights do not sum to 1"

# Wrong scales, as functions of d and D, and what people write instead of the softmax: for one head and for many.
SCALES = {
    "The scores are not divided by √d.": lambda d, D: 1,
    "The scores are divided by d, not by √d: are they scaled twice?": lambda d, D: 1 / d,
    "The scores are multiplied by √d, not divided by it.": lambda d, D: d**0.5,
    **{f"The scores are divided by {n} = √{n * n}, not by √d.": lambda d, D, n=n: 1 / n for n in (2, 8, 4)},
}
WEIGHINGS = {
    f"There is no softmax: {NOT_1}.": lambda scores: scores,
    "The softmax runs over the queries, not over the keys: your columns sum to 1, not your rows.":
        lambda scores: scores.softmax(-2),
    f"`exp` is only half of the softmax: {NOT_1} until each is divided by its sum.": torch.exp,
    f"There is a sigmoid instead of the softmax: {NOT_1}.": torch.sigmoid,
    "All weights together sum to 1, not each row.": lambda scores: scores.flatten(-2).softmax(-1).view_as(scores),
    "Each query takes one key only: an argmax. The softmax gives every key a share.":
        lambda scores: F.one_hot(scores.argmax(-1), scores.shape[-1]).to(scores.dtype),
    "Each token sees only itself and those before it, as in GPT. Here every patch sees every patch.":
        lambda scores: scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -math.inf).softmax(-1),
    "No token sees itself: the diagonal is masked. Here every patch sees every patch, itself too.":
        lambda scores: (scores - 1e9 * torch.eye(scores.shape[-1])).softmax(-1),
}  # fmt: skip

HEAD_MISTAKES = [
    *replacing(head, "scale", SCALE, SCALES),
    *replacing(head, "weigh", None, WEIGHINGS),
    *known("`e.sum(1)` is a row of T values: they meet the columns. `e.sum(1, keepdim=True)` is a column, (T, 1).", {
        f"Column j is divided by the sum of row j: {NOT_1}.":
            partial(head, weigh=lambda scores: scores.exp() / scores.exp().sum(1))}),
    *known(None, {
        "The scores are cosines: each query and key is scaled to length 1. Divide by √d instead.":
            lambda q, k, v: head(F.normalize(q), F.normalize(k), v, lambda d, D: 1),
        "The scores are divided by √T, not by √d.": lambda q, k, v: head(q, k, v, lambda d, D: len(q) ** -0.5),
        f"√d divides the weights after the softmax: {NOT_1}.":
            lambda q, k, v: head(q, k, v, lambda d, D: 1, lambda scores: scores.softmax(-1) / q.shape[1] ** 0.5),
        "Your weights are (d, d): `q.T @ k` compares the values of a token. Tokens are compared by `q @ k.T`, (T, T).":
            lambda q, k, v: (v @ (w := (q.T @ k / q.shape[1] ** 0.5).softmax(-1)), w),
        "Your weights are (T, d), not (T, T): with `q * k` each token meets only itself.":
            lambda q, k, v: ((w := (q * k / q.shape[1] ** 0.5).softmax(-1)) * v, w),
        "Two matrices of (T, d) cannot be multiplied: one of them must be transposed, or must be the weights, (T, T).":
            lambda q, k, v: q @ k,
        "Queries and keys are swapped: row i must belong to query i.": lambda q, k, v: head(k, q, v),
        "The weights mix the keys, not the values.": lambda q, k, v: head(q, k, k)}),
    *known("`return weights @ v, weights`", {
        "The weights are right, but their columns mix the values.": lambda o, w, scores, v: (w.T @ v, w),
        "`out` is right, but the weights come back transposed.": lambda o, w, scores, v: (o, w.T),
        "`out` is right, but you return the scores before the softmax.": lambda o, w, scores, v: (o, scores),
        "The two results come in the wrong order.": lambda o, w, scores, v: (w, o),
        "`out` is right, but only `out` is returned: the weights too, please.": lambda o, w, scores, v: o,
        "Only the weights are returned, not yet used.": lambda o, w, scores, v: w,
    }, lambda give: lambda q, k, v: give(*head(q, k, v), head(q, k, v, weigh=lambda scores: scores)[1], v)),
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
    copied = call(function, tokens, heads).untyped_storage().data_ptr() != tokens.untyped_storage().data_ptr()
    return COPIED if copied else None


COPIED = (
    "The values are right, and yours are a copy: `chunk` gives views, `stack` and `cat` copy them. Heads can be had "
    "without a copy: `unflatten` (or `view`), then `transpose`."
)


def in_blocks(x: Tensor, heads: int) -> Tensor:
    return x.reshape(len(x), heads, x.shape[1], -1)


def unswapped(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(-1, (heads, -1))


VIEW = "`view` and `reshape` keep the values in their order. (B, T, D) → (B, T, h, d) first, then swap T and h."
WAYS = list(product(("(h d)", "(d h)"), permutations("BhTd")))  # a split, then an order of axes
IN_PIECES = "You have d pieces of h values: `split(h)` and `unflatten(-1, (-1, h))` cut so, `chunk(h)` makes h pieces. "

SPLIT_MISTAKES = known(VIEW, {
    "`view` or `reshape` alone cuts across tokens: a head gets pieces of different tokens mixed up.": in_blocks,
    "Batch and heads are folded into one axis, (B·h, T, d).": lambda x, h: by_head(x, h).flatten(0, 1),
    **{f"{IN_PIECES * (axes.index('d') < axes.index('h')) * (split == '(d h)')}"
       f"Your axes are ({', '.join(axes)}){' and a head takes every h-th value' * (split == '(d h)')}; (B, h, T, d) is "
       "asked, head 0 the first d values.":
           lambda x, h, split=split, axes=axes: rearrange(x, f"B T {split} -> {' '.join(axes)}", h=h)
       for split, axes in WAYS[1:]},
})  # fmt: skip


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
    compare(function, join, trials, "(B, T, D)", MERGE_MISTAKES)


def flat(x: Tensor) -> Tensor:
    return x.reshape(len(x), x.shape[2], -1)


SWAP = "Swap h and T back first, (B, h, T, d) → (B, T, h, d), then flatten the last two axes."

MERGE_MISTAKES = known(SWAP, {
    "`reshape` alone cuts across heads: a token gets values of other tokens.": flat,
    "T and h are swapped back, but not merged: this is still (B, T, h, d).": lambda x: x.transpose(1, 2),
    **{f"Before the last step the axes are (B, {', '.join('BhTd'[i] for i in axes)}), not (B, T, h, d).":
           lambda x, axes=axes: x.permute(0, *axes).reshape(len(x), x.shape[2], -1)
       for axes in ((2, 3, 1), (1, 3, 2), (3, 1, 2), (3, 2, 1))},
    "The heads stand in the opposite order: head 0 comes first.": lambda x: join(x.flip(1)),
    "The heads are added up. They stand side by side.": lambda x: x.sum(1),
    "The heads are averaged. They stand side by side.": lambda x: x.mean(1),
    "Heads and tokens are merged into one axis, (B, h·T, d).": lambda x: x.flatten(1, 2),
})  # fmt: skip


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
    first = AttentionTrial(cls, 2, 7, 20, 5)
    check_layers(first)
    check_shared(first)
    ways = list(layouts(first.layers, *first.args))
    usual = [way for way in ways if way.usual]
    layout = first.find(ways, ATTENTION_MISTAKES, "But", "multi-head self-attention", usual)
    raise_first(attention_problems(first.read(layout)))
    first.confirm(layout, lambda: AttentionTrial(cls, 3, 5, 12, 2), ATTENTION_MISTAKES)
    return f"Without a bias: {', '.join(first.bare)}. {BIASES}" if first.literal else None


BIASES = (
    "Eqs. 5 to 8 have none either. The authors' code has D biases each for q, k, v and the output, and so do published "
    "weights: to load those, leave `bias=False` out."
)


class AttentionTrial(TokenTrial):
    function = staticmethod(attention)
    hint = (
        "Take it apart: `check.split_heads`, `check.attention_head` and `check.merge_heads` judge one step each. "
        "q, k, v and the output each need D·D weights and D biases."
    )

    def __init__(self, cls: type, B: int, T: int, D: int, heads: int):
        super().__init__(cls, random_tensor(B, T, D), embed_dim=D, num_heads=heads)
        self.bare = [name_of(layer) for layer in self.layers if layer.bias is None]
        # As Eqs. 5-8 are written: no biases, or not all.
        self.literal = bool(self.bare) and self.total - 4 * D * D in (0, D, 3 * D)
        self.count = self.total if self.literal else 4 * (D * D + D)

    def read(self, layout: Layout) -> AttentionWeights | None:
        return read_attention(self.layers, layout, *self.args)


def name_of(layer: Layer) -> str:
    return f"`{layer.name.removesuffix('.weight')}`"


def check_layers(trial: AttentionTrial) -> None:
    """Raise Wrong for layers that have no place in attention, or an output projection that takes in another width."""
    D, heads = trial.args
    fused = any(isinstance(part, nn.MultiheadAttention) for part in trial.module.modules())
    names = {layer.sizes: name_of(layer) for layer in trial.layers}
    wide, narrow = names.get((D, heads * D)), names.get((D, D // heads))
    raise_first([
        (trial.inventory.norms, "There is a LayerNorm inside your attention: it is the encoder block's (Eq. 2)."),
        (fused and len(trial.layers) > 2, "There are more linear layers beside `nn.MultiheadAttention`, which "
         "projects q, k, v and the output itself.",
         "Give it the tokens as they come: `self.attention(tokens, tokens, tokens)`."),
        (wide, f"{wide} takes in h·D = {heads * D} values: are your heads D wide each?", SIDE_BY_SIDE),
        (narrow, f"{narrow} takes in d = {D // heads} values: are your heads added up or averaged?", SIDE_BY_SIDE),
    ])  # fmt: skip


def check_shared(trial: AttentionTrial) -> None:
    """Raise Wrong if the module is right except for a layer that is missing, or is used in two places."""
    layers = [*trial.layers, Layer(torch.eye(trial.args[0]))]  # the last one is no layer at all
    none = len(layers) - 1
    picks = product(range(none + 1), repeat=4) if none < 5 else ()  # which layer is q, k, v and the output
    picks = [pick for pick in picks if none in pick[:3] or (none < 4 and len(set(pick)) < 4)]
    pick = trial.first(picks, lambda pick: read_attention([layers[i] for i in pick], Layout(-1), *trial.args))
    if pick is not None:
        shared = none if none in pick[:3] else max(pick, key=pick.count)
        names = ("the queries", "the keys", "the values", "the output")
        *most, last = (name for name, layer in zip(names, pick, strict=True) if layer == shared)
        what = "no layer: they are the tokens as they came" if shared == none else "the same layer: each needs its own"
        raise Wrong(
            f"{' and '.join([', '.join(most)] * bool(most) + [last]).capitalize()} come from {what}.",
            "Three layers for q, k and v, or one that returns 3·D values, cut into three; and one for the output.",
        )


SIDE_BY_SIDE = "Each head has d = D / h values and its own (T, T) weights; the heads' results stand side by side."
NO_TRANSPOSE = "by `view` or `reshape` without a transpose"

ATTENTION_MISTAKES = [
    *replacing(attention, "scale", SCALE, {
        **SCALES,
        "The scores are divided by √D, the width of a token, not by √d.": lambda d, D: D**-0.5,
        "The scores are divided by √h, the root of how many heads there are, not by √d.": lambda d, D: (d / D) ** 0.5}),
    *replacing(attention, "weigh", None, {
        **WEIGHINGS,
        f"The softmax runs over the heads, not over the keys: {NOT_1}.": lambda scores: scores.softmax(1),
        f"The softmax runs over the batch, not over the keys: {NOT_1}.": lambda scores: scores.softmax(0),
        "The weights are averaged over the heads: all heads mix their values in the same way.":
            lambda scores: scores.softmax(-1).mean(1, keepdim=True)}),
    *known(VIEW, {
        f"The heads are split {NO_TRANSPOSE}: a head gets pieces of different tokens mixed up.": {"split": in_blocks},
        f"The heads are merged {NO_TRANSPOSE}: a token gets values of other tokens.": {"merge": flat},
        f"The heads are split and merged {NO_TRANSPOSE}: tokens get mixed up.": {"split": in_blocks, "merge": flat},
        "T and h are not swapped before the scores: the heads of one token attend to each other.":
            {"split": unswapped, "merge": lambda out: out.flatten(2)},
        "The heads attend to each other inside a token, and are then merged by a `reshape` that mixes tokens.":
            {"split": unswapped, "merge": lambda out: out.transpose(1, 2).reshape(*out.shape[:2], -1)},
    }, lambda steps: partial(attention, **steps)),
    *known(SCALE, {"The scores are divided by √T, not by √d.":
        lambda w, x: attention(w, x, scale=lambda d, D: x.shape[1] ** -0.5)}),
    *known(None, {
        f"√d divides the weights after the softmax: {NOT_1}.":
            {"scale": lambda d, D: 1, "merge": lambda out: join(out) / out.shape[-1] ** 0.5},
        "The weights mix the keys, not the values.": {"value": 1},
        "The weights mix the queries, not the values.": {"value": 0},
        "The queries stand in for the keys too: `q @ q`, not `q @ k`.": {"key": 0},
    }, lambda steps: partial(attention, **steps)),
    *known("`nn.MultiheadAttention` needs `batch_first=True`. Otherwise look for a `transpose(0, 1)`.", {
        "Attention runs across the batch: tokens in the same place of different images see each other.":
            lambda w, x: attention(w, x.transpose(0, 1)).transpose(0, 1)}),
    *known(None, {
        **{f"There {'are' if n > 1 else 'is'} {n} head{'s'[: n > 1]} here, whatever `num_heads` says.":
               lambda w, x, n=n: attention(w._replace(heads=n), x) for n in (1, 2, 4, 10, 20)},
        "The input is added to the result: a residual connection, as in the block (Eq. 2).":
            lambda w, x: x + attention(w, x),
        "The output projection (Eq. 8) is there; `forward` does not use it.":
            lambda w, x: attention(w._replace(out=None), x),
        "The output projection comes first. It comes last, after the heads are merged (Eq. 8).":
            lambda w, x: attention(w._replace(out=None), w.out(x))}),
]  # fmt: skip
