"""Lesson 03: one head, heads split and merged, multi-head self-attention."""

from __future__ import annotations

import warnings
from itertools import permutations
from math import sqrt

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from .exercise import Exercise
from .modules import ModuleExercise, images_apart
from .probes import few, moved, noise
from .running import Wrong, attempt, close, same


def my_attention_head(q, k, v):
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5  # (T, d) @ (d, T) → (T, T)
    weights = scores.softmax(dim=-1)  # each row sums to 1
    return weights @ v, weights  # (T, T) @ (T, d) → (T, d)


# fmt: off
def weights_of(w: Tensor, scores: Tensor, d: int, roots: dict[str, float]):
    """Ask what is wrong with weights (…, T, T) with known scores, q kᵀ / √d; `roots` may stand for √d."""
    right, product, T, rows = scores.softmax(-1), scores * sqrt(d), scores.shape[-1], w.sum(-1)
    sums = f"your rows do not sum to 1, one of them to {rows.flatten()[(rows - 1).abs().argmax()]:.3g}"
    above, own = (w * (1 - torch.ones(T, T).tril())).abs().sum(), w.diagonal(dim1=-2, dim2=-1).abs().sum()
    yield T == 1 or not close(w, right.mT), (
        "Your weights come back transposed: row i belongs to query i, and sums to 1.")
    yield T == 1 or not close(w, 1 / T), "All your weights are 1/T: they do not change with queries and keys."
    yield T == 1 or not (close(w.amax(-1), 1) and close(rows, 1)), (
        "Each query takes one key only, an argmax. The softmax gives all a share.")
    yield T == 1 or not close(above, 0), "Each token sees only those before it and itself: a mask, as in GPT."
    yield not close(own, 0) or close(w, 0), "No token sees itself: the diagonal of your weights is 0."
    for what, other in {"the scores": scores, "q kᵀ itself": product}.items():
        yield not close(w, other), f"There is no softmax: your weights are {what}."
        yield not close(w, other.exp()), f"`exp` is only half of the softmax: {sums}. Divide each by its sum."
        yield not close(w, other.sigmoid()), f"There is a sigmoid instead of the softmax: {sums}."
    if not close(rows, 1):
        yield not close(w.sum(-2), 1), f"Your columns sum to 1, and {sums}: the softmax runs over the queries."
        yield not close(w.sum((-2, -1)), 1), "All your weights together sum to 1: each row must."
        ratio = (w / right).flatten()
        yield not close(ratio, ratio[0].item()), f"Your weights are {ratio[0]:.3g} times the softmax's: {sums}."
        yield False, f"The softmax comes last, and runs over the keys: {sums}."
    yield T == 1 or not close(w, scores.mT.softmax(-1)), "Queries and keys are exchanged: row i belongs to query i."
    mine, ours = (x - x.mean(-1, keepdim=True) for x in (w.clamp_min(1e-30).log(), scores))  # but for a constant
    factor = ((mine * ours).sum() / (ours * ours).sum()).item() if T > 1 else 1.0
    divisor = sqrt(d) / factor if factor else 0.0
    known = {"not divided at all": 1.0, "multiplied by √d": d**-0.5, "divided by d": float(d)}
    known |= {f"divided by {name}": value for name, value in (roots | {f"{divisor:.3g}": divisor}).items()}
    how = next(text for text, value in known.items() if abs(divisor - value) <= 2e-3 * abs(value))
    told = f"Your scores are {factor:.3g} times the right ones: q kᵀ is {how}, and √d is {sqrt(d):.3g}."
    yield T == 1 or not close(mine, factor * ours, 3e-3) or close(factor, 1, 2e-3), told


def one_head(got, expected, q, k, v):
    (out, w), (right_out, right), (T, d) = got, expected, q.shape
    scores, done = q @ k.mT / sqrt(d), close(out, right_out)
    yield T == 1 or not (done and close(w, right.mT)), "`out` is right, but the weights come back transposed."
    yield not (done and close(w, scores)), "`out` is right, but you return the scores before the softmax."
    for name, x in {"queries": q, "keys": k}.items():
        alike = T > 1 and close(w, (x @ x.mT / sqrt(d)).softmax(-1))
        yield not alike, f"Your weights compare {name} with {name}. Each query must meet every key."
    cosines = (F.normalize(q, dim=1) @ F.normalize(k, dim=1).T).softmax(-1)
    yield not close(w, cosines), (
        "The scores are cosines: queries and keys are scaled to length 1. Divide by √d instead.")
    if not close(w, right):
        yield from weights_of(w, scores, d, {"√T": sqrt(T), "T": float(T)})
        yield not done, "`out` is right, and the weights that you return are others."
    for name, x in {"k": k, "q": q}.items():
        yield not close(out, right @ x), f"The weights are right, and mix `{name}`, not `v`."
    yield not close(out, right.mT @ v), "The weights are right, but their columns mix the values: `weights.T @ v`."
    yield not close(w, right), "The weights are right, and `out` is not `weights @ v`."
# fmt: on


def without_overflow(function):
    """Say what happens to large scores, and to more axes in front."""
    if not function(100 * noise(4, 7), noise(4, 7), noise(4, 7))[0].isfinite().all():
        return (
            "One thing for later: `exp` overflows when a score passes 88. `softmax` subtracts each row's maximum first."
        )
    heads = [noise(2, 3, 4, 5, seed=seed) for seed in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's, of `k.T` with more than two axes
        if same(attempt(function, *heads), my_attention_head(*heads)):
            return ""
    return (
        "One thing for later: with more axes in front, as in (B, h, T, d), yours does not work. `k.transpose(-2, -1)` "
        "and `softmax(-1)` count from the end, and work with any."
    )


attention_head = Exercise(
    my_attention_head,
    task="`fn(q, k, v) -> (out, weights)`: one head, q, k, v and out (T, d), weights (T, T).",
    trials=[tuple(noise(T, d, seed=seed) for seed in range(3)) for T, d in ((5, 3), (1, 2), (4, 7))],
    probes=one_head,
    hint="Three steps: scores `q @ k.transpose(-2, -1)`, divided by √d; a softmax along each row; the rows mix the "
    "values. The weights are (T, T), and each row sums to 1.",
    shape="out (T, d); weights (T, T)",
    sizes=lambda q, k, v: {"T": q.shape[0], "d": q.shape[1]},
    more=without_overflow,
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


def as_qkv(found, D, h):
    """Yield the reader's weights as those of `qkv` and `projection`, in every order that right layers may hold them in.

    Which of three layers is called `query` is only a name. The 3·D rows of one layer count q, k and v (n), heads (h)
    and the values of a head (d), in any order; so do the D columns of the projection.
    """
    sizes, d = {"n": 3, "h": h, "d": D // h}, D // h

    def by_axes(piece, *axes):  # a matrix for each head, with its axes in any order
        whole = piece.ndim == 3 and 1 not in piece.shape
        return piece.permute([piece.shape.index(axis) for axis in axes]) if whole else piece

    found = {name: [by_axes(piece, h, d, D) for piece in pieces] for name, pieces in found.items()}
    orders = sorted(map("".join, permutations("nhd")), key="nhd".__ne__) if "qkv.weight" in found else ("hd", "dh")

    def three(kind, order):
        """The pieces of q, of k and of v."""
        fused = found.get(f"qkv.{kind}", [])
        if len(fused) == 1:
            rows = fused[0].unflatten(0, [sizes[axis] for axis in order])
            return [[part] for part in rows.movedim([order.index(axis) for axis in "nhd"], [0, 1, 2])]
        if fused:  # a layer for each head
            return [[piece.chunk(3)[n] for piece in fused] for n in range(3)]
        each = [found.get(f"{name}.{kind}", []) for name in ("query", "key", "value")]
        dealt = order == "dh" and all(len(pieces) == 1 and pieces[0].ndim < 3 for pieces in each)
        return [[pieces[0].unflatten(0, (d, h)).transpose(0, 1)] if dealt else pieces for pieces in each]

    for out in ("hd", "dh"):
        for roles in permutations(range(3)):
            for order in orders:
                views = {
                    f"qkv.{kind}": [piece for n in roles for piece in three(kind, order)[n]]
                    for kind in ("weight", "bias")
                }
                views |= {name: pieces for name, pieces in found.items() if name.startswith("projection")}
                weight = by_axes(views["projection.weight"][0], D, h, d)
                turned = weight.unflatten(1, (d, h)).mT if out == "dh" and weight.ndim == 2 else weight
                views["projection.weight"] = [turned]
                yield {name: pieces for name, pieces in views.items() if pieces}


# fmt: off
def attention(pair):
    x, h, shared = pair.x, pair.args[1], "somewhere values of different tokens get mixed up"
    with torch.no_grad():
        turned = attempt(lambda: pair.mine(x.transpose(0, 1)).transpose(0, 1))
    across = pair.views is not None and not isinstance(turned, Exception) and close(turned, pair.ours(x))
    yield not across, (
        "Attention runs across the batch: you are right if batch and tokens change places (`batch_first`).")
    yield from images_apart(pair)
    if pair.views is not None:
        yield from with_chosen_weights(pair, noise(1, 7, x.shape[2], seed=9), h)
    with torch.no_grad():  # what attention does whatever its layers are called
        out, other = pair.mine(x), torch.cat([x[:, :-1], x[:, -1:] + 1], dim=1)
        alone, equal = pair.mine(x[:, :1]).expand_as(out), pair.mine(x[:, :1].expand_as(x))
        twice = pair.mine(torch.cat([x, x], 1))[:, : x.shape[1]]
        yield not close(pair.mine(other)[:, 0], out[:, 0]), (
            "Token 0 of your result does not change with the last token.")
        yield close(pair.mine(x.flip(1)).flip(1), out), f"Tokens in another order give other results: {shared}."
        yield close(equal, alone), "Equal tokens should give what one of them gives alone: do your weights sum to 1?"
        yield close(twice, out), "Every token twice should change nothing, and does: look at the softmax."


def with_chosen_weights(pair, x, h):
    """Ask what the layer does with the weights that tell most: one step at a time, the others an identity or zero."""
    (_, T, D), d = x.shape, x.shape[2] // h
    one, none, itself = torch.eye(D), torch.zeros(D, D), torch.eye(T, dtype=torch.bool)
    Q, K = (0.35 * D**-0.5 * noise(D, D, seed=seed) for seed in (21, 22))  # scores of about one

    def run(x, q=none, k=none, v=one, out=1.0):
        return pair.given(x, qkv=torch.cat([q, k, v]), projection=out)

    yield not close(run(x, out=0.0), x), (
        "With an output projection of zeros you return the input. Adding it is the block's (Eq. 2).")
    yield close(run(x, Q, K, out=2.0), 2 * run(x, Q, K)), (
        "Twice the output projection does not double the result: it comes last (Eq. 8).")
    yield close(run(x, v=none), 0), (
        "With a value layer of zeros your result is not zero: your weights mix something else.")
    more, equal = noise(1, T, D, seed=4), "With all scores equal"
    straight = close(run(x + more), run(x) + run(more))
    yield straight, f"{equal}, the sum of two inputs does not give the sum of their results: a norm, or an activation?"
    units = run(x + torch.eye(T * D).reshape(T * D, T, D)) - run(x)  # one unit more, in one place
    takes = units.reshape(T, D, T, D).permute(2, 3, 0, 1)  # what (token t, value c) takes from (token s, value e)
    tokens, values = (takes.abs() > 1e-4).any(3).any(1), (takes[0].abs() > 1e-4).any(1)
    only = "is T not swapped with h, or does the softmax run over another axis"
    yield not (tokens == itself).all(), f"{equal}, each token takes from itself alone: {only}?"
    made = [values[c].nonzero().flatten().tolist() for c in range(D)]
    c = next((c for c in range(D) if made[c] not in ([c], [])), None)
    own = f"{equal}, value {c} of token 0 is made of values {few(made[c or 0])}, not of value {c}"
    yield c is None, f"{own}: heads are split or merged without a transpose, or reordered."
    yield bool(tokens.any()), f"{equal}, no token takes anything from any token: all weights are zero."
    yield not (tokens == torch.ones_like(itself).tril()).all(), (
        f"{equal}, each token takes from itself and those before it: a mask.")
    yield not (tokens == ~itself).all(), f"{equal}, no token takes from itself: the diagonal is masked."
    yield not (tokens.sum(1) == 1).all(), f"{equal}, each token takes from one token only: an argmax?"
    lost = [c for c in range(D) if not made[c]]
    yield not lost, f"{equal}, values {few(lost)} of your result take nothing from any token."
    shares = takes.diagonal(dim1=1, dim2=3).mean(-1)  # (T, T)
    total, first = shares[0].sum().item(), [round(share, 2) for share in shares[0].tolist()]
    yield close(shares.sum(1), 1), (
        f"{equal}, your result is {total:.3g} times the mean of all tokens: the weights do not sum to 1.")
    yield close(shares, 1 / T), f"{equal}, all weights should be 1/T = {1 / T:.3g}. Those of token 0 are {first}."
    mean = x.mean(1, keepdim=True).expand_as(x)
    for name, q, k in (("keys", Q, none), ("queries", none, K)):
        yield close(run(x, q, k), mean), (
            f"With {name} of zero all weights are alike. Yours are not: your scores are not q kᵀ.")
    w = mixing_weights(lambda layer: run(x, Q, K, layer), x)
    if w is not None:
        alike = [[c for c in range(D) if close(w[c], w[e], 1e-3)] for e in range(D)]
        count = len({tuple(each) for each in alike})
        yield count == h, (
            f"Your values are mixed by {count} different tables of weights. {h} heads have {h}.")
        yield alike[0] == list(range(d)), (
            f"Values {few(alike[0])} have the same weights, as head 0. It must be the first {d}.")
        q, k = (my_split_heads(x @ layer.T, h)[0] for layer in (Q, K))
        roots = {"√D": sqrt(D), "D": float(D), "√h": sqrt(h), "h": float(h), "√T": sqrt(T), "T": float(T)}
        yield from weights_of(w[::d], q @ k.mT / sqrt(d), d, roots)
# fmt: on


def mixing_weights(given, x):
    """Return the weights (D, T, T) by which each value of a token is mixed, found by several value layers; or None."""
    layers = [noise(x.shape[2], x.shape[2], seed=seed) for seed in range(x.shape[1] + 2)]
    mixed = torch.stack([given(layer)[0] for layer in layers]).permute(2, 0, 1).double()  # (D, runs, T)
    values = torch.stack([x[0] @ layer.T for layer in layers]).permute(2, 0, 1).double()
    found = torch.linalg.lstsq(values, mixed).solution  # (D, S, T)
    return found.mT.float() if close(values @ found, mixed, 1e-3) else None


DROPOUT = (
    "One thing for later: in training your module drops values at random, and nobody gave it a rate. Make the rate an "
    "argument that is 0 by default: lesson 05 asks for a model without dropout."
)


def in_training(module, x):
    """Return a remark on a module that drops values in training; raise Wrong if it drops the same values twice."""
    out, drops = module(x), []
    for part in module.modules():
        if isinstance(part, nn.Dropout) and part.p > 0:
            part.register_forward_hook(lambda part, args, result: drops.append((args[0], result)))
    module.train()
    repeats = all(same(module(x), out) for _ in range(10))
    module.eval()
    if any(dropped is result for dropped, _ in drops for _, result in drops):
        raise Wrong("In training the same values are dropped twice: one dropout comes straight after another.")
    return "" if repeats else DROPOUT


class AttentionExercise(ModuleExercise):
    called = "`qkv` (or `query`, `key` and `value`) and `projection`"

    def fits(self, pair):
        """A lone token is made of its values: without them nothing is left."""
        D = pair.args[0]
        without = torch.cat([noise(2 * D, D), torch.zeros(D, D)])
        return close(pair.given(pair.x[:, :1], qkv=without, projection=1), 0)


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
    instead={"qkv": ("query", "key", "value")},
    about=dict.fromkeys(
        ("qkv", "query", "key", "value"), "A layer sees whole tokens. The cut into heads comes after it."
    ),
    layouts=as_qkv,
    hint="Five steps: one linear layer for q, k and v, or three, `query`, `key` and `value`; split each into "
    "heads; softmax(q kᵀ / √d) v; merge the heads; one more linear layer. `split_heads`, "
    "`merge_heads` and `attention_head` are three of them.",
    shape="(B, T, D)",
    sizes=lambda D, h, x: {"B": len(x), "T": x.shape[1], "D": D, "h": h, "d": D // h, "3": 3},
    more=lambda cls: in_training(cls(60, 5).eval(), noise(2, 7, 60)),
    biases="Eqs. 5 to 8 have none either. The authors' code has D biases each for q, k, v and the output, and so do "
    "published weights: to load those, leave `bias=False` out.",
)
