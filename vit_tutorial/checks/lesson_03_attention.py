"""Lesson 03: one head, heads split and merged, multi-head self-attention."""

from itertools import permutations, product
from math import sqrt

import torch
from einops import rearrange
from torch import Tensor, nn

from .exercise import Exercise
from .modules import ModuleExercise
from .probes import Probes, few, noise, probe_mixing, probe_place
from .running import close


def my_attention_head(q, k, v):
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5  # (T, d) @ (d, T) → (T, T)
    weights = scores.softmax(dim=-1)  # each row sums to 1
    return weights @ v, weights  # (T, T) @ (T, d) → (T, d)


def probe_weights(weights: Tensor, scores: Tensor, d: int) -> Probes:
    """Ask what is wrong with weights (…, T, T), where the right scores, q kᵀ / √d, are known."""
    rows, columns = weights.sum(-1), weights.sum(-2)
    yield close(columns, 1) and not close(rows, 1), "Your columns sum to 1. Rows must: go over the keys."
    told = f"A row of your weights sums to {rows.flatten()[(rows - 1).abs().argmax()]:.3g}, not to 1"
    yield not close(rows, 1), f"{told}: the softmax is over the keys, and last."
    yield close(weights, scores.mT.softmax(-1)), "Queries and keys are exchanged: row i belongs to query i."
    mine, right = (x - x.mean(-1, keepdim=True) for x in (weights.clamp_min(1e-30).log(), scores))  # a softmax undone
    yield close(mine, 0), "All your weights are alike: the scores do not depend on q and k."
    factor = (mine * right).sum() / (right * right).sum()
    ways = {1: "not divided at all", d / 2: f"divided by {d / 2:g} (`d ** 1/2` is d/2: write `d ** 0.5`)"}
    divided = ways.get(round(sqrt(d) / factor.item(), 2), f"divided by {sqrt(d) / factor:.3g}")
    told = f"Your scores are {factor:.3g} times the right ones: q kᵀ is {divided}, and √d is {sqrt(d):.3g}."
    yield close(mine, factor * right, 3e-3) and not close(factor, 1, 2e-3), told
    hidden = (weights.abs() < 1e-6).nonzero().tolist()
    i, j = hidden[0][-2:] if hidden else (0, 0)
    yield hidden, f"Query {i} takes nothing from key {j}: a mask, or an argmax? A softmax gives every key a share."
    told = "Your weights are the softmax of no multiple of q kᵀ: is q or k changed, or is it another function?"
    yield not close(mine, factor * right, 3e-3), told


def probe_head(got, expected, q, k, v):
    (out, weights), (right_out, right) = got, expected
    yield close(out, right_out), "`out` is right, and the weights that you return are not those that mix it."
    yield close(weights, right), "The weights are right, and `out` is not `weights @ v`."
    yield from probe_weights(weights, q @ k.mT / sqrt(q.shape[1]), q.shape[1])


attention_head = Exercise(
    my_attention_head,
    task="`fn(q, k, v) -> (out, weights)`: one head, q, k, v and out (T, d), weights (T, T).",
    trials=[tuple(noise(T, d, seed=seed) for seed in range(3)) for T, d in ((5, 3), (1, 2), (4, 7))],
    probes=probe_head,
    clue="Three steps: scores (T, T), over √d, and not over D; a softmax, after which rows sum to 1; `weights @ v`.",
    shape="out (T, d); weights (T, T)",
    sizes=lambda q, k, v: {"T": q.shape[0], "d": q.shape[1]},
)


def my_split_heads(tokens, num_heads):
    B, T, D = tokens.shape
    pieces = tokens.reshape(B, T, num_heads, D // num_heads)  # (B, T, h, d)
    return pieces.transpose(1, 2)  # (B, h, T, d)


def my_merge_heads(heads):
    B, h, T, d = heads.shape
    return heads.transpose(1, 2).reshape(B, T, h * d)  # (B, h, T, d) → (B, T, h, d) → (B, T, D)


TOKENS = [(noise(2, 5, 21), 3), (noise(1, 4, 6), 1), (noise(3, 7, 10), 2)]
HEADS, TOKEN = ("image", "head", "token", "value"), ("image", "token", "value")

split_heads = Exercise(
    my_split_heads,
    task="`fn(tokens, num_heads)`: (B, T, D) → (B, h, T, d), head 0 the first d values of a token.",
    trials=TOKENS,
    probes=lambda got, expected, tokens, h: probe_place(got, expected, tokens, HEADS, TOKEN),
    clue="Cut D into (h, d) first: `unflatten(-1, (h, d))`. Then two axes change places, and no value is torn apart.",
    shape="(B, h, T, d)",
    sizes=lambda x, h: {"B": len(x), "T": x.shape[1], "D": x.shape[2], "h": h, "d": x.shape[2] // h},
)

merge_heads = Exercise(
    my_merge_heads,
    task="`fn(heads)`: (B, h, T, d) → (B, T, D), the heads of a token side by side.",
    trials=[(my_split_heads(*given).contiguous(),) for given in TOKENS],
    probes=lambda got, expected, heads: probe_place(got, expected, heads, TOKEN, HEADS),
    clue="Undo `split_heads`, its last step first.",
    shape="(B, T, D)",
    sizes=lambda x: dict(zip("BhTdD", (*x.shape, x.shape[1] * x.shape[3]), strict=True)),
)


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


def with_qkv(found, D, h):
    """Put three layers together, if q, k and v are: their rows, in the order of their names, are those of `qkv`."""
    for kind in ("weight", "bias"):
        names = [f"{part}.{kind}" for part in ("query", "key", "value")]
        three = [found.pop(name) for name in names if name in found]
        if len({indices.shape[1:] for indices in three}) == 1:
            found[f"qkv.{kind}"] = torch.cat(three)
    return found


def as_qkv(found, D, h):
    """Yield the reader's weights as those of `qkv` and `projection`, in every layout that right code may have.

    The 3·D rows of q, k and v count layers (n), heads (h) and the values of a head (d), in any order; so do the D
    columns of the projection. Which of three layers is called `query` is only a name.
    """
    for order, columns, roles in product(permutations("nhd"), ("h d", "d h"), permutations(range(3))):
        layout = dict(found)
        for name in ("qkv.weight", "qkv.bias"):
            if name in found:
                rows = found[name].reshape(3 * D, -1)
                parts = rearrange(rows, f"({' '.join(order)}) D -> n (h d) D", n=3, h=h)
                layout[name] = parts[list(roles)]
        output = found["projection.weight"].reshape(D, D)
        layout["projection.weight"] = rearrange(output, f"D ({columns}) -> D (h d)", h=h)
        yield layout


def probe_attention(pair):
    yield from probe_mixing(pair)
    if pair.indices is not None:
        yield from probe_with_chosen_weights(pair, noise(1, 7, pair.args[0], seed=9), pair.args[1])
    moved = not close(pair.mine(pair.x.flip(1)).flip(1), pair.mine(pair.x))
    yield moved, "Tokens in another order give other results: a mask, or values of tokens get mixed up."
    unequal = not close(pair.mine(pair.x[:, :1].expand_as(pair.x))[:, :1], pair.mine(pair.x[:, :1]))
    yield unequal, "Equal tokens should give what one of them gives alone: do your weights sum to 1?"


def probe_with_chosen_weights(pair, x, h):
    """Ask what the layer does with the weights that tell most: one step at a time, the others an identity or zero."""
    _, T, D = x.shape
    d = D // h
    one, none = torch.eye(D), torch.zeros(D, D)
    Q, K = (h**-0.5 * noise(D, D, seed=seed) for seed in (21, 22))

    def run(x, q=none, k=none, v=one, out=one):
        return pair.mine_with(x, qkv=torch.cat([q, k, v]), projection=out)

    yield close(run(x, out=none), x), "With an output projection of zeros you return the input: the block adds it."
    y = noise(1, T, D, seed=4)
    bent = not close(run(x + y), run(x) + run(y))
    yield bent, "With all scores equal the result is not linear: a norm, an activation, another axis for q, k, v?"
    changes = run(x + torch.eye(T * D).reshape(T * D, T, D))[:, 0] - run(x)[:, 0]  # one unit more, in one place
    takes = changes.reshape(T, D, D).abs().amax(0) > 1e-4  # does value c of token 0, takes[:, c], take from a value?
    c = int((takes != one).any(0).byte().argmax())
    made = f"With all scores equal, value {c} of token 0 is made of values {few(takes[:, c].nonzero())}"
    yield not takes.any(), "With all scores zero nothing comes from the values: weights that sum to 1 mix them."
    yield (takes != one).any(), f"{made}, not of {c} alone: heads are split or merged without a transpose, or moved."
    A, B = (noise(D, D, seed=seed) / sqrt(D) for seed in (31, 32))
    yield close(run(x, v=A), run(x)), "The values are the tokens themselves: the third part of `qkv` changes nothing."
    swapped = not close(run(x, v=A, out=B), run(x @ A.T @ B.T), 1e-3)
    yield swapped, "With all scores equal the values are not mixed first, and then projected: which layer is last?"
    for name, q, k in (("keys", Q, none), ("queries", none, K)):
        uneven = not close(run(x, q, k), run(x))
        yield uneven, f"With {name} of zero all weights are alike. Yours are not: scores are q kᵀ."
    units = torch.eye(T, d).repeat(1, h)[None]  # value s of each head is 1 in token s alone, so it shows what s gives
    weights = my_split_heads(run(units, Q, K), h)[0, :, :, :T]  # (h, T, T)
    tables = run(x, Q, K, v=one[:1].expand(D, D))[0].T  # all values are x[…, 0]: one row for each table that mixes them
    count = len({next(n for n in range(D) if close(tables[n], table)) for table in tables})
    yield count != h, f"Your values are mixed by {count} different tables of weights. {h} heads have {h}."
    q, k = (my_split_heads(units @ layer.T, h)[0] for layer in (Q, K))
    yield from probe_weights(weights, q @ k.mT / sqrt(d), d)


self_attention = ModuleExercise(
    MySelfAttention,
    task="`cls(embed_dim, num_heads)`, an nn.Module: multi-head self-attention, (B, T, D) → (B, T, D).",
    trials=[((60, 5), noise(2, 7, 60)), ((14, 2), noise(3, 5, 14))],
    probes=probe_attention,
    names={
        "qkv": "to_qkv in_proj c_attn qkv_proj wqkv to_all kqv qkv_linear qkv_layer",
        "query": "queries q wq to_q q_proj q_linear query_proj query_layer linear_q fc_q to_queries b_q q_mappings",
        "key": "keys k wk to_k k_proj k_linear key_proj key_layer linear_k fc_k to_keys b_k k_mappings",
        "value": "values v wv to_v v_proj v_linear value_proj value_layer linear_v fc_v to_values b_v v_mappings",
        "projection": "proj out output wo to_out out_proj o_proj c_proj output_proj fc_out linear_o unify_heads o b_o "
        "dense fc linear",
    },
    called="`qkv` (or `query`, `key` and `value`) and `projection`",
    regroup=with_qkv,
    layouts=as_qkv,
    clue="Between the first layer and the last stand `split_heads`, `attention_head` and `merge_heads`, as they are.",
    shape="(B, T, D)",
    sizes=lambda D, h, x: {"B": len(x), "T": x.shape[1], "D": D, "3·D": 3 * D, "h": h, "d": D // h},
    biases=False,  # Eqs. 5 to 8 have none either
)
