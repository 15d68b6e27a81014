"""Lesson 03: one head, heads split and merged, multi-head self-attention."""

from __future__ import annotations

import warnings
from itertools import permutations, product

from einops import rearrange
from torch import nn

from .exercise import Exercise, noise
from .modules import ModuleExercise
from .running import attempt, same


def my_attention_head(q, k, v):
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5  # (T, d) @ (d, T) → (T, T)
    weights = scores.softmax(dim=-1)  # each row sums to 1
    return weights @ v, weights  # (T, T) @ (T, d) → (T, d)


def without_overflow(function):
    """Say what happens to large scores, and to more axes in front."""
    if not function(100 * noise(4, 7), noise(4, 7), noise(4, 7))[0].isfinite().all():
        return (
            "One thing for later: `exp` overflows when a score passes 88. `softmax` subtracts each row's maximum first."
        )
    heads = [noise(2, 3, 4, 5, seed=seed) for seed in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, of `k.T` with more than two axes
        result = attempt(function, *heads)
    if not same(result, my_attention_head(*heads)):
        return (
            "One thing for later: with more axes in front, as in (B, h, T, d), yours does not work. "
            "`k.transpose(-2, -1)` and `softmax(-1)` count from the end, and work with any."
        )
    return None


# Scales and weights that people write: for one head, and for the whole layer.
SCALE = "/ q.shape[-1] ** 0.5"
SOFTMAX = "scores.softmax(dim=-1)"
NOT_1 = "the rows of the weights do not sum to 1"
SCALES = {
    "The scores are not divided by √d.": (SCALE, ""),
    "The scores are divided by d, not by √d: are they scaled twice?": (SCALE, "/ q.shape[-1]"),
    "The scores are multiplied by √d, not divided by it.": (SCALE, "* q.shape[-1] ** 0.5"),
    "The scores are divided by √T, not by √d.": (SCALE, "/ q.shape[-2] ** 0.5"),
    f"√d divides the weights after the softmax: {NOT_1}.": (SCALE, "", SOFTMAX, f"{SOFTMAX} {SCALE}"),
    **{f"The scores are divided by {n} = √{n * n}, not by √d.": (SCALE, f"/ {n}") for n in (2, 4, 8)},
}
WEIGHTS = {
    f"There is no softmax: {NOT_1}.": (SOFTMAX, "scores"),
    "The softmax runs over the queries, not over the keys: your columns sum to 1, not your rows.":
        (SOFTMAX, "scores.softmax(dim=-2)"),
    f"`exp` is only half of the softmax: {NOT_1} until each is divided by its sum.": (SOFTMAX, "scores.exp()"),
    f"There is a sigmoid instead of the softmax: {NOT_1}.": (SOFTMAX, "scores.sigmoid()"),
    "All weights together sum to 1, not each row.": (SOFTMAX, "scores.flatten(-2).softmax(-1).view_as(scores)"),
    "Each query takes one key only: an argmax. The softmax gives every key a share.":
        (SOFTMAX, "F.one_hot(scores.argmax(-1), scores.shape[-1]).to(scores)"),
    "Each token sees only itself and those before it, as in GPT. Here every patch sees every patch.":
        (SOFTMAX, "(scores - 1e9 * scores.new_ones(scores.shape[-2:]).triu(1)).softmax(-1)"),
    "No token sees itself: the diagonal is masked. Here every patch sees every patch, itself too.":
        (SOFTMAX, "(scores - 1e9 * scores.new_ones(scores.shape[-1]).diag()).softmax(-1)"),
}  # fmt: skip
RETURN = "return weights @ v, weights"

attention_head = Exercise(
    my_attention_head,
    task="`fn(q, k, v) -> (out, weights)`: one head, q, k, v and out (T, d), weights (T, T).",
    trials=[tuple(noise(T, d, seed=seed) for seed in range(3)) for T, d in ((5, 3), (1, 2), (4, 7))],
    slips=SCALES | WEIGHTS | {
        f"Column j is divided by the sum of row j: {NOT_1}. `e.sum(1, keepdim=True)` is a column, (T, 1).":
            (SOFTMAX, "scores.exp() / scores.exp().sum(1)"),
        "The scores are cosines: each query and key is scaled to length 1. Divide by √d instead.":
            (SCALE, "/ q.norm(dim=1, keepdim=True) / k.norm(dim=1)"),
        "Your weights are (d, d): `q.T @ k` compares the values of a token. Tokens are compared by `q @ k.T`, (T, T).":
            ("q @ k.transpose(-2, -1)", "q.T @ k", "weights @ v", "v @ weights"),
        "Your weights are (T, d), not (T, T): with `q * k` each token meets only itself.":
            ("q @ k.transpose(-2, -1)", "q * k", "weights @ v", "weights * v"),
        "Two matrices of (T, d) cannot be multiplied: one of them must be transposed, or must be the weights, (T, T).":
            [("k.transpose(-2, -1)", "k"), ("q @ k.transpose(-2, -1)", "q * k")],
        "Queries and keys are swapped: row i must belong to query i.": ("q @ k.t", "k @ q.t"),
        "The weights mix the keys, not the values.": ("weights @ v", "weights @ k"),
        "The weights are right, but their columns mix the values.": ("weights @ v", "weights.T @ v"),
        "`out` is right, but the weights come back transposed.": (RETURN, f"{RETURN}.T"),
        "`out` is right, but you return the scores before the softmax.": (RETURN, "return weights @ v, scores"),
        "The two results come in the wrong order: `out` first.": (RETURN, "return weights, weights @ v"),
        "`out` is right, but only `out` is returned: the weights too, please.": (RETURN, "return weights @ v"),
        "Only the weights are returned, not yet used.": (RETURN, "return weights"),
    },
    hint="Three steps: scores `q @ k.transpose(-2, -1)`, divided by √d; a softmax along each row; the rows mix the "
    "values. The weights are (T, T), and each row sums to 1.",
    shape="out (T, d); weights (T, T)",
    more=without_overflow,
)  # fmt: skip


def my_split_heads(tokens, num_heads):
    B, T, D = tokens.shape
    pieces = tokens.reshape(B, T, num_heads, D // num_heads)  # (B, T, h, d)
    return pieces.transpose(1, 2)  # (B, h, T, d)


IN_PIECES = "You have d pieces of h values: `split(h)` and `unflatten(-1, (-1, h))` cut so, `chunk(h)` makes h pieces. "


def in_other_order(cut, axes):
    """Return what is said of heads cut as `cut`, with these axes, and the wrong answer that cuts them so."""
    pieces = IN_PIECES if cut == "(d h)" and axes.index("d") < axes.index("h") else ""
    every = " and a head takes every h-th value" if cut == "(d h)" else ""
    text = f"{pieces}Your axes are ({', '.join(axes)}){every}; (B, h, T, d) is asked, head 0 the first d values."
    return text, lambda tokens, h: rearrange(tokens, f"B T {cut} -> {' '.join(axes)}", h=h)


split_heads = Exercise(
    my_split_heads,
    task="`fn(tokens, num_heads)`: (B, T, D) → (B, h, T, d), head 0 the first d values of a token.",
    trials=[(noise(2, 5, 12), 3), (noise(1, 4, 6), 1), (noise(3, 7, 10), 2)],
    slips={
        "`view` or `reshape` alone cuts across tokens: a head gets pieces of different tokens mixed up. "
        "(B, T, D) → (B, T, h, d) first, then swap T and h.": lambda x, h: x.reshape(len(x), h, x.shape[1], -1),
        "You cut the last axis into (h, h): each of the h heads has d = D / h values.":
            ("D // num_heads", "num_heads"),
        "Batch and heads are folded into one axis, (B·h, T, d).":
            (".transpose(1, 2)", ".transpose(1, 2).flatten(0, 1)"),
        **dict(in_other_order(*way) for way in list(product(("(h d)", "(d h)"), permutations("BhTd")))[1:]),
    },
    hint="Two steps. `unflatten(-1, (h, d))` cuts the D values of a token into h pieces; then T and h change places.",
    shape="(B, h, T, d)",
)  # fmt: skip


def my_merge_heads(heads):
    B, h, T, d = heads.shape
    return heads.transpose(1, 2).reshape(B, T, h * d)  # (B, h, T, d) → (B, T, h, d) → (B, T, D)


SWAPPED = "heads.transpose(1, 2)"

merge_heads = Exercise(
    my_merge_heads,
    task="`fn(heads)`: (B, h, T, d) → (B, T, D), the heads of a token side by side.",
    trials=[(noise(2, 3, 5, 4),), (noise(1, 1, 4, 6),), (noise(3, 2, 7, 5),)],
    slips={
        "`reshape` alone cuts across heads: a token gets values of other tokens.": (SWAPPED, "heads"),
        "T and h are swapped back, but not merged: this is still (B, T, h, d).": (".reshape(B, T, h * d)", ""),
        **{f"Before the last step the axes are (B, {', '.join('BhTd'[axis] for axis in axes)}), not (B, T, h, d).":
               (SWAPPED, f"heads.permute(0, *{axes})") for axes in ((2, 3, 1), (1, 3, 2), (3, 1, 2), (3, 2, 1))},
        "The heads stand in the opposite order: head 0 comes first.": (SWAPPED, "heads.flip(1).transpose(1, 2)"),
        "The heads are added up. They stand side by side.": lambda heads: heads.sum(1),
        "The heads are averaged. They stand side by side.": lambda heads: heads.mean(1),
        "Heads and tokens are merged into one axis, (B, h·T, d).": lambda heads: heads.flatten(1, 2),
    },
    hint="Undo `split_heads`, its last step first: T and h change places, then (h, d) become D.",
    shape="(B, T, D)",
)  # fmt: skip


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
        weights = scores.softmax(dim=-1)
        mixed = (weights @ v).transpose(1, 2).reshape(B, T, D)
        return self.projection(mixed)


SPLIT = ".transpose(1, 2)  #"
BY_VIEW = ("reshape(B, T, self.num_heads, -1).transpose(1, 2)", "reshape(B, self.num_heads, T, -1)")
MERGE = "(weights @ v).transpose(1, 2)"
OUT = "self.projection = nn.Linear(embed_dim, embed_dim)"
NO_TRANSPOSE = "by `view` or `reshape` without a transpose"
ACROSS = (
    "Attention runs across the batch: tokens in the same place of different images see each other. "
    "`nn.MultiheadAttention` needs `batch_first=True`; otherwise look for a `transpose(0, 1)`."
)
NAMES = {"q": "query", "k": "key", "v": "value", "o": "projection"}


def four_layers(uses):
    """Edit the solution so that it has a layer each for q, k, v and the output; `uses` says which is used for which.

    "qqvo" takes the layer of the queries for the keys too, "-kvo" takes the tokens as they are for queries.
    """
    made = "; ".join(
        f"self.{NAMES[use]} = nn.Linear(embed_dim, embed_dim)" for use in dict.fromkeys(uses) if use != "-"
    )
    q, k, v, out = (f"self.{NAMES[use]}" if use != "-" else "" for use in uses)
    return (OUT, "", "self.qkv = nn.Linear(embed_dim, 3 * embed_dim)", made, "self.projection(mixed)", f"{out}(mixed)",
            "self.qkv(tokens).chunk(3, dim=-1)", f"({q}(tokens), {k}(tokens), {v}(tokens))")  # fmt: skip


ATTENTION_SLIPS = SCALES | WEIGHTS | {
    "The scores are divided by √D, the width of a token, not by √d.": (SCALE, "/ D ** 0.5"),
    "The scores are divided by √h, the root of how many heads there are, not by √d.":
        (SCALE, "/ self.num_heads ** 0.5"),
    f"The softmax runs over the heads, not over the keys: {NOT_1}.": (SOFTMAX, "scores.softmax(dim=1)"),
    f"The softmax runs over the batch, not over the keys: {NOT_1}.": (SOFTMAX, "scores.softmax(dim=0)"),
    "The weights are averaged over the heads: all heads mix their values in the same way.":
        (SOFTMAX, f"{SOFTMAX}.mean(1, keepdim=True)"),
    f"The heads are split {NO_TRANSPOSE}: a head gets pieces of different tokens mixed up.": BY_VIEW,
    f"The heads are merged {NO_TRANSPOSE}: a token gets values of other tokens.": (MERGE, "(weights @ v)"),
    f"The heads are split and merged {NO_TRANSPOSE}: tokens get mixed up.": (*BY_VIEW, MERGE, "(weights @ v)"),
    "T and h are not swapped before the scores: the heads of one token attend to each other.":
        (SPLIT, "  #", MERGE, "(weights @ v)"),
    "The heads attend to each other inside a token, and are then merged by a `reshape` that mixes tokens.":
        (SPLIT, "  #"),
    "The weights mix the keys, not the values.": ("weights @ v", "weights @ k"),
    "The weights mix the queries, not the values.": ("weights @ v", "weights @ q"),
    "The queries stand in for the keys too: `q @ q`, not `q @ k`.": ("q @ k.", "q @ q."),
    ACROSS:
        ("B, T, D = ", "tokens = tokens.transpose(0, 1)\n        B, T, D = ",
         "self.projection(mixed)", "self.projection(mixed).transpose(0, 1)"),
    **{f"There {'are' if n > 1 else 'is'} {n} head{'s'[: n > 1]} here, whatever `num_heads` says.":
           ("self.num_heads = num_heads", f"self.num_heads = {n}") for n in (1, 2, 4)},
    "`num_heads` is taken for d, the width of a head: there are D / num_heads heads here.":
        ("self.num_heads = num_heads", "self.num_heads = embed_dim // num_heads"),
    "The input is added to the result: a residual connection, as in the block (Eq. 2).":
        ("self.projection(mixed)", "tokens + self.projection(mixed)"),
    "The output projection is missing, or not used: what the heads found is put side by side and never joined. One "
    "more `nn.Linear(embed_dim, embed_dim)` after the heads are merged (Eq. 8).":
        [(OUT, "", "self.projection(mixed)", "mixed"), ("self.projection(mixed)", "mixed")],
    "The output projection comes first. It comes last, after the heads are merged (Eq. 8).":
        ("self.qkv(tokens)", "self.qkv(self.projection(tokens))", "self.projection(mixed)", "mixed"),
    "There is a LayerNorm inside your attention: it is the encoder block's (Eq. 2).":
        (OUT, f"{OUT}; self.norm = nn.LayerNorm(embed_dim)", "self.qkv(tokens)", "self.qkv(self.norm(tokens))"),
    "All heads share one q, one k and one v of d values: they find the same, h times.":
        ("3 * embed_dim", "3 * (embed_dim // num_heads)", "reshape(B, T, self.num_heads, -1)",
         "reshape(B, T, 1, -1).expand(-1, -1, self.num_heads, -1)"),
    "Your heads are D wide each, h·D together. Each has d = D / h values.":
        ("3 * embed_dim", "3 * num_heads * embed_dim", "nn.Linear(embed_dim, embed_dim)",
         "nn.Linear(num_heads * embed_dim, embed_dim)",
         ".reshape(B, T, D)", ".reshape(B, T, -1)"),
    **{f"Your heads are {what}. They stand side by side.":
           ("nn.Linear(embed_dim, embed_dim)", "nn.Linear(embed_dim // num_heads, embed_dim)",
            f"{MERGE}.reshape(B, T, D)", f"(weights @ v).{code}(1)")
       for what, code in {"averaged": "mean", "added up": "sum"}.items()},
    **{f"{who} come from the same layer: each needs its own.": four_layers(uses) for who, uses in {
        "The queries and the keys": "qqvo", "The queries and the values": "qkqo", "The keys and the values": "qkko",
        "The queries, the keys and the values": "qqqo", "The values and the output": "qkvv"}.items()},
    **{f"{who} come from no layer: they are the tokens as they came.": four_layers(uses) for who, uses in {
        "The queries": "-kvo", "The keys": "q-vo", "The values": "qk-o",
        "The queries, the keys and the values": "---o"}.items()},
}  # fmt: skip


# Right too: one layer that holds q, k and v, the heads and their values in any order; heads merged value by value.
OTHER_WAYS = [
    (*merged, "q, k, v = (", f"{', '.join(names)} = (",
     "self.qkv(tokens).chunk(3, dim=-1)",
     f"rearrange(self.qkv(tokens), 'B T ({' '.join(rows)}) -> n B T (h d)', n=3, h=self.num_heads)")
    for merged in ((), (MERGE, "(weights @ v).permute(0, 2, 3, 1)"))
    for names in permutations("qkv") for rows in permutations("nhd")
]  # fmt: skip


self_attention = ModuleExercise(
    MySelfAttention,
    task="`cls(embed_dim, num_heads)`, an nn.Module: multi-head self-attention, (B, T, D) → (B, T, D).",
    trials=[((20, 5), noise(2, 7, 20)), ((12, 2), noise(3, 5, 12))],
    slips=ATTENTION_SLIPS,
    also=OTHER_WAYS,
    hint="Five steps: one linear layer for q, k and v, or three, `query`, `key` and `value`; split each into "
    "heads; softmax(q kᵀ / √d) v; merge the heads; one more linear layer. `split_heads`, "
    "`merge_heads` and `attention_head` are three of them.",
    shape="(B, T, D)",
    biases="Eqs. 5 to 8 have none either. The authors' code has D biases each for q, k, v and the output, and so do "
    "published weights: to load those, leave `bias=False` out.",
)
