"""Lesson 03: one head, heads split and merged, multi-head self-attention."""

from __future__ import annotations

from itertools import permutations, product
from math import sqrt

import torch
from einops import rearrange
from torch import Tensor, nn

from .exercise import Exercise
from .modules import ModuleExercise, images_apart
from .probes import few, moved, noise
from .running import attempt, close


def my_attention_head(q, k, v):
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5  # (T, d) @ (d, T) → (T, T)
    weights = scores.softmax(dim=-1)  # each row sums to 1
    return weights @ v, weights  # (T, T) @ (T, d) → (T, d)


# fmt: off
def weights_of(w: Tensor, scores: Tensor, d: int, roots: dict[str, float]):
    """Ask what is wrong with weights (…, T, T) with known scores, q kᵀ / √d; `roots` may stand for √d."""
    T, rows = scores.shape[-1], w.sum(-1)
    if T == 1:
        return
    yield not close(w, scores.softmax(-1).mT), "Your weights come back transposed: row i belongs to query i."
    yield not close(w, 1 / T), "All your weights are 1/T: they do not change with queries and keys."
    yield not close(w.amax(-1), 1), "Each query takes one key only, an argmax. The softmax gives all a share."
    yield not (close(w.triu(1), 0) and rows.all()), "Each token sees itself and those before it alone: a mask."
    yield not (close(w.diagonal(dim1=-2, dim2=-1), 0) and rows.all()), "No token sees itself: the diagonal is 0."
    sums = f"your rows do not sum to 1, one of them to {rows.flatten()[(rows - 1).abs().argmax()]:.3g}"
    for what, other in {"the scores": scores, "q kᵀ itself": scores * sqrt(d)}.items():
        yield not close(w, other), f"There is no softmax: your weights are {what}."
        yield not close(w, other.exp()), f"`exp` is only half of the softmax: {sums}. Divide each by its sum."
        yield not close(w, other.sigmoid()), f"There is a sigmoid instead of the softmax: {sums}."
    columns = close(w.sum(-2), 1) and not close(rows, 1)
    yield not columns, f"Your columns sum to 1, and {sums}: the softmax runs over the queries."
    yield not close(w.sum((-2, -1)), 1), "All your weights together sum to 1: each row must."
    yield close(rows, 1), f"The softmax comes last, and runs over the keys: {sums}."
    yield not close(w, scores.mT.softmax(-1)), "Queries and keys are exchanged: row i belongs to query i."
    mine, ours = (x - x.mean(-1, keepdim=True) for x in (w.clamp_min(1e-30).log(), scores))  # a softmax undone
    factor = ((mine * ours).sum() / (ours * ours).sum()).item()
    divisor = sqrt(d) / factor
    known = {"not divided at all": 1.0, "multiplied by √d": d**-0.5, "divided by d": d}
    known |= {f"divided by {name}": value for name, value in roots.items()}
    how = next((text for text, value in known.items() if close(divisor, value, 2e-3)), f"divided by {divisor:.3g}")
    yield close(factor, 1, 2e-3) or not close(mine, factor * ours, 3e-3), (
        f"Your scores are {factor:.3g} times the right ones: q kᵀ is {how}, and √d is {sqrt(d):.3g}.")


def one_head(got, expected, q, k, v):
    (out, w), (right_out, right), (T, d) = got, expected, q.shape
    scores, done = q @ k.mT / sqrt(d), close(out, right_out)
    yield not (done and close(w, right.mT)), "`out` is right, but the weights come back transposed."
    yield not (done and close(w, scores)), "`out` is right, but you return the scores before the softmax."
    for name, x in {"queries": q, "keys": k}.items():
        alike = close(w, (x @ x.mT / sqrt(d)).softmax(-1))
        yield not alike or T == 1, f"Your weights compare {name} with {name}. Each query must meet every key."
    if not close(w, right):
        yield from weights_of(w, scores, d, {"√T": sqrt(T), "T": T})
        yield not done, "`out` is right, and the weights that you return are others."
    for name, x in {"k": k, "q": q}.items():
        yield not close(out, right @ x), f"The weights are right, and mix `{name}`, not `v`."
    yield not close(out, right.mT @ v), "The weights are right, but their columns mix the values: `weights.T @ v`."
    yield not close(w, right), "The weights are right, and `out` is not `weights @ v`."
# fmt: on


attention_head = Exercise(
    my_attention_head,
    task="`fn(q, k, v) -> (out, weights)`: one head, q, k, v and out (T, d), weights (T, T).",
    trials=[tuple(noise(T, d, seed=seed) for seed in range(3)) for T, d in ((5, 3), (1, 2), (4, 7))],
    probes=one_head,
    hint="Three steps: scores `q @ k.transpose(-2, -1)`, divided by √d; a softmax along each row; the rows mix the "
    "values. The weights are (T, T), and each row sums to 1.",
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


# Every value is different, so it tells where it comes from.
TOKENS = [
    (torch.arange(1.0, 1 + B * T * D).reshape(B, T, D), h)
    for B, T, D, h in ((2, 5, 21, 3), (1, 4, 6, 1), (3, 7, 10, 2))
]
HEADS, TOKEN = ("image", "head", "token", "value"), ("image", "token", "value")

split_heads = Exercise(
    my_split_heads,
    task="`fn(tokens, num_heads)`: (B, T, D) → (B, h, T, d), head 0 the first d values of a token.",
    trials=TOKENS,
    probes=lambda got, expected, tokens, h: moved(got, expected, tokens, HEADS, TOKEN),
    hint="Two steps. `unflatten(-1, (h, d))` cuts the D values of a token into h pieces; then T and h change places.",
    shape="(B, h, T, d)",
    sizes=lambda x, h: {"B": len(x), "T": x.shape[1], "D": x.shape[2], "h": h, "d": x.shape[2] // h},
)

merge_heads = Exercise(
    my_merge_heads,
    task="`fn(heads)`: (B, h, T, d) → (B, T, D), the heads of a token side by side.",
    trials=[(my_split_heads(*given).contiguous(),) for given in TOKENS],
    probes=lambda got, expected, heads: moved(got, expected, heads, TOKEN, HEADS),
    hint="Undo `split_heads`, its last step first: T and h change places, then (h, d) become D.",
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


QKV = ("query", "key", "value")


def as_qkv(found, D, h):
    """Yield the reader's weights as those of `qkv` and `projection`, in every order that right layers may hold them in.

    Which of three layers is called `query` is only a name. The 3·D rows of one layer count q, k and v (n), heads (h)
    and the values of a head (d), in any order; so do the D columns of the projection.
    """
    d = D // h
    whole = {role: torch.stack(pieces) if len(pieces) > 1 else pieces[0] for role, pieces in found.items()}

    def rows(role, *axes):  # a matrix for each head has its axes in any order
        tensor = whole[role]
        if sorted(tensor.shape) == sorted(axes):
            tensor = tensor.permute([tensor.shape.index(size) for size in axes])
        return tensor.reshape(-1, D) if role.endswith("weight") else tensor.flatten()

    def three(kind, order):
        if f"qkv.{kind}" in found:
            return rearrange(rows(f"qkv.{kind}"), f"({' '.join(order)}) ... -> n (h d) ...", n=3, h=h)
        made = [rows(f"{name}.{kind}", h, d, D) for name in QKV if f"{name}.{kind}" in found]
        order = " ".join(axis for axis in order if axis != "n")
        return [rearrange(each, f"({order}) ... -> (h d) ...", h=h) for each in made]

    for order, out, roles in product(permutations("nhd"), ("h d", "d h"), permutations(range(3))):
        made = {f"qkv.{kind}": three(kind, order) for kind in ("weight", "bias")}
        views = {name: [parts[n] for n in roles] for name, parts in made.items() if len(parts) == 3}
        weight = rows("projection.weight", D, h, d)
        views["projection.weight"] = [rearrange(weight, f"D ({out}) -> D (h d)", h=h)]
        if "projection.bias" in found:
            views["projection.bias"] = found["projection.bias"]
        yield views


# fmt: off
def attention(pair):
    x, h = pair.x, pair.args[1]
    with torch.no_grad():
        turned = attempt(lambda: pair.mine(x.transpose(0, 1)).transpose(0, 1))
    across = pair.views is not None and not isinstance(turned, Exception) and close(turned, pair.ours(x))
    yield not across, "Attention runs across the batch: with batch and tokens exchanged you are right (`batch_first`)."
    yield from images_apart(pair)
    if pair.views is not None:
        yield from with_chosen_weights(pair, noise(1, 7, x.shape[2], seed=9), h)
    with torch.no_grad():  # what attention does whatever its layers are called
        out, other = pair.mine(x), torch.cat([x[:, :-1], x[:, -1:] + 1], dim=1)
        alone, equal = pair.mine(x[:, :1]).expand_as(out), pair.mine(x[:, :1].expand_as(x))
        twice, turned = pair.mine(torch.cat([x, x], 1))[:, : x.shape[1]], pair.mine(x.flip(1)).flip(1)
        apart = close(pair.mine(other)[:, 0], out[:, 0])
    yield not apart, "Token 0 of your result does not change with the last token."
    yield close(turned, out), "Tokens in another order give other results: somewhere values of tokens get mixed up."
    yield close(equal, alone), "Equal tokens should give what one of them gives alone: do your weights sum to 1?"
    yield close(twice, out), "Every token twice should change nothing, and does: look at the softmax."


def with_chosen_weights(pair, x, h):
    """Ask what the layer does with the weights that tell most: one step at a time, the others an identity or zero."""
    (_, T, D), d = x.shape, x.shape[2] // h
    one, none = torch.eye(D), torch.zeros(D, D)
    Q, K = (0.35 * D**-0.5 * noise(D, D, seed=seed) for seed in (21, 22))  # scores of about one

    def run(x, q=none, k=none, v=one, out=1.0):
        return pair.given(x, qkv=torch.cat([q, k, v]), projection=out)

    yield not close(run(x, out=0.0), x), (
        "With an output projection of zeros you return the input. Adding it is the block's (Eq. 2).")
    yield close(run(x, Q, K, out=2.0), 2 * run(x, Q, K)), (
        "Twice the output projection does not double the result: it comes last (Eq. 8).")
    yield close(run(x, v=none), 0), "With a value layer of zeros your result is not zero: you mix something else."
    other, equal = noise(1, T, D, seed=4), "With all scores equal"
    yield close(run(x + other), run(x) + run(other)), f"{equal} the result is not linear: a norm, or an activation?"
    units = run(x + torch.eye(T * D).reshape(T * D, T, D)) - run(x)  # one unit more, in one place
    takes = units.reshape(T, D, T, D).permute(2, 3, 0, 1).abs() > 1e-4  # does (token t, value c) take from (s, e)?
    itself = (takes.any(3).any(1) == torch.eye(T, dtype=torch.bool)).all()
    yield not itself, f"{equal}, each token takes from itself alone: is T not swapped with h?"
    made = [takes[0, c].any(0).nonzero().flatten().tolist() for c in range(D)]
    c = next((c for c in range(D) if made[c] not in ([c], [])), None)
    own = f"{equal}, value {c} of token 0 is made of values {few(made[c or 0])}, not of value {c}"
    yield c is None, f"{own}: heads are split or merged without a transpose, or reordered."
    w = mixing_weights(lambda layer: run(x, Q, K, layer), x)
    if w is not None:
        alike = [[c for c in range(D) if close(w[c], w[e], 1e-3)] for e in range(D)]
        count = len(set(map(tuple, alike)))
        yield count == h, f"Your values are mixed by {count} different tables of weights. {h} heads have {h}."
        yield alike[0] == list(range(d)), f"Values {few(alike[0])} have the same weights. They must be the first {d}."
        q, k = (my_split_heads(x @ layer.T, h)[0] for layer in (Q, K))
        roots = {"√D": sqrt(D), "D": D, "√h": sqrt(h), "h": h, "√T": sqrt(T), "T": T}
        yield from weights_of(w[::d], q @ k.mT / sqrt(d), d, roots)
    mean = x.mean(1, keepdim=True).expand_as(x)
    for name, q, k in (("keys", Q, none), ("queries", none, K)):
        yield close(run(x, q, k), mean), f"With {name} of zero all weights are alike. Yours are not: scores are q kᵀ."
# fmt: on


def mixing_weights(given, x):
    """Return the weights (D, T, T) by which each value of a token is mixed, found by several value layers; or None."""
    layers = [noise(x.shape[2], x.shape[2], seed=seed) for seed in range(x.shape[1] + 2)]
    mixed = torch.stack([given(layer)[0] for layer in layers]).permute(2, 0, 1).double()  # (D, runs, T)
    values = torch.stack([x[0] @ layer.T for layer in layers]).permute(2, 0, 1).double()
    found = torch.linalg.lstsq(values, mixed).solution  # (D, S, T)
    return found.mT.float() if close(values @ found, mixed, 1e-3) else None


class AttentionExercise(ModuleExercise):
    def asked(self, found, ours):
        """Three layers may stand for the one."""
        asked, there = super().asked(found, ours), {role.split(".")[0] for role in found}
        if "qkv" not in there and there & {*QKV}:
            for kind in ("weight", "bias"):
                rows, *rest = asked.pop(f"qkv.{kind}")
                asked |= {f"{name}.{kind}": (rows // 3, *rest) for name in QKV}
        return asked


self_attention = AttentionExercise(
    MySelfAttention,
    task="`cls(embed_dim, num_heads)`, an nn.Module: multi-head self-attention, (B, T, D) → (B, T, D).",
    trials=[((60, 5), noise(2, 7, 60)), ((14, 2), noise(3, 5, 14))],
    probes=attention,
    names={
        "qkv": "to_qkv in_proj c_attn qkv_proj wqkv w_qkv to_all kqv qkv_linear qkv_layer",
        "query": "queries q w_q wq to_q q_proj q_linear query_proj query_layer linear_q fc_q toqueries b_q q_mappings",
        "key": "keys k w_k wk to_k k_proj k_linear key_proj key_layer linear_k fc_k tokeys b_k k_mappings",
        "value": "values v w_v wv to_v v_proj v_linear value_proj value_layer linear_v fc_v tovalues b_v v_mappings",
        "projection": "proj out output w_o wo to_out out_proj o_proj c_proj output_proj fc_out linear_o unify_heads "
        "unifyheads o b_o dense fc linear",
    },
    called="`qkv` (or `query`, `key` and `value`) and `projection`",
    about=dict.fromkeys(("qkv", *QKV), "A layer makes whole tokens into all heads together, h·d = D values each."),
    layouts=as_qkv,
    hint="Five steps: one linear layer for q, k and v, or three, `query`, `key` and `value`; split each into "
    "heads; softmax(q kᵀ / √d) v; merge the heads; one more linear layer. `split_heads`, "
    "`merge_heads` and `attention_head` are three of them.",
    shape="(B, T, D)",
    sizes=lambda D, h, x: {"B": len(x), "T": x.shape[1], "D": D, "h": h, "d": D // h, "3": 3},
    biases="Eqs. 5 to 8 have none either. The authors' code has D biases each for q, k, v and the output, and so do "
    "published weights: to load those, leave `bias=False` out.",
)
