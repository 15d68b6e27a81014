"""The checks of notebook 03 on right and wrong answers."""

import math
from functools import partial

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from vit_tutorial import SelfAttention, attend, check

from .variants import CLASS, cell, changed, judged, module, parameters

ORDERS = ("n h d", "h n d", "h d n", "d h n", "n d h", "d n h")  # of the rows of one layer for q, k and v

# The functions: one head, heads split and merged


def scores_of(q, k):
    return q @ k.mT / q.shape[-1] ** 0.5


def weights_of(q, k, scale=None):
    return (q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)).softmax(-1)


def weighing(weigh):
    """One head with these weights."""
    return lambda q, k, v: ((w := weigh(q, k)) @ v, w)


SLIPS = cell("""
    def half(q, k, v):
        weights = (q @ k.T / q.shape[-1] ** 1/2).softmax(-1)
        return weights @ v, weights

    def halved(q, k, v):
        weights = (q @ k.T / (q.shape[-1] ** 1/2)).softmax(-1)
        return weights @ v, weights

    def unassigned(q, k, v):
        k.transpose(0, 1)
        weights = (q @ k / q.shape[-1] ** 0.5).softmax(-1)
        return weights @ v, weights

    def split(x, heads):
        x = x.unflatten(-1, (heads, -1))
        x.transpose(1, 2)
        return x

    def merge(x):
        x.transpose(1, 2)
        return x.reshape(len(x), x.shape[2], -1)

    def attend(self, q, k, v):
        scale = q.shape[-1] ** -1/2
        return (q @ k.mT * scale).softmax(-1) @ v

    def no_softmax(self, q, k, v):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        scores.softmax(-1)
        return scores @ v
""")
HALVED = "`x ** 1/2` is x/2: powers come before division"

RIGHT = {
    check.attention_head: {
        "the package's": attend,
        "einsum": weighing(lambda q, k: torch.einsum("id,jd->ij", q / math.sqrt(q.size(1)), k).softmax(1)),
        "a list": lambda q, k, v: [weights_of(q, k) @ v, weights_of(q, k)],
        "fused": lambda q, k, v: (F.scaled_dot_product_attention(q[None], k[None], v[None])[0], weights_of(q, k)),
        "exp": (weighing(lambda q, k: (e := scores_of(q, k).exp()) / e.sum(1, keepdim=True)), "`exp` overflows"),
    },
    check.split_heads: {
        "einops": lambda x, h: rearrange(x, "b t (h d) -> b h t d", h=h),
        "view": lambda x, h: x.view(x.size(0), x.size(1), h, -1).permute(0, 2, 1, 3),
        "unflatten": lambda x, h: x.unflatten(-1, (h, -1)).transpose(1, 2),
        "chunks": (lambda x, h: torch.stack(x.chunk(h, dim=-1), dim=1), "yours are a copy"),
        "contiguous": (lambda x, h: x.unflatten(-1, (h, -1)).transpose(1, 2).contiguous(), "yours are a copy"),
    },
    check.merge_heads: {
        "einops": lambda x: rearrange(x, "b h t d -> b t (h d)"),
        "view": lambda x: x.transpose(1, 2).contiguous().view(x.size(0), x.size(2), -1),
        "concatenated": lambda x: torch.cat(list(x.unbind(1)), dim=-1),
    },
}
WRONG = {
    check.attention_head: [
        (weighing(lambda q, k: weights_of(q, k, 1.0)), "not divided by √d"),
        (weighing(lambda q, k: weights_of(q, k, 1 / q.shape[1])), "divided by d, not by √d"),
        (weighing(lambda q, k: weights_of(q, k, q.shape[1] ** 0.5)), "multiplied by √d"),
        (weighing(lambda q, k: weights_of(q, k, len(q) ** -0.5)), "divided by √T"),
        (SLIPS["half"], HALVED),
        (SLIPS["halved"], HALVED),
        (SLIPS["unassigned"], "`k.transpose(0, 1)` changes nothing"),
        (weighing(lambda q, k: weights_of(q, k, 1.0) / q.shape[1] ** 0.5), "after the softmax"),
        (weighing(lambda q, k: scores_of(q, k).softmax(0)), "your columns sum to 1, not your rows"),
        (weighing(lambda q, k: scores_of(q, k)), "no softmax"),
        (weighing(lambda q, k: scores_of(q, k).exp()), "only half of the softmax"),
        (weighing(lambda q, k: scores_of(q, k).sigmoid()), "a sigmoid instead of the softmax"),
        (weighing(lambda q, k: scores_of(q, k).flatten().softmax(0).view(len(q), -1)), "All weights together"),
        (weighing(lambda q, k: weights_of(q, k, 1 / 8)), "divided by 8 = √64"),
        (weighing(lambda q, k: weights_of(q, k, 1 / 2)), "divided by 2 = √4"),
        (weighing(lambda q, k: weights_of(q, k, 1 / 4)), "divided by 4 = √16"),
        (weighing(lambda q, k: (e := scores_of(q, k).exp()) / e.sum(1)), "column j is divided by the sum of row j"),
        (weighing(lambda q, k: F.one_hot((q @ k.T).argmax(1), len(k)).float()), "an argmax"),
        (weighing(lambda q, k: (scores_of(q, k) - 1e9 * torch.ones(len(q), len(q)).triu(1)).softmax(-1)), "as in GPT"),
        (weighing(lambda q, k: (scores_of(q, k) - 1e9 * torch.eye(len(q))).softmax(-1)), "No token sees itself"),
        (weighing(lambda q, k: F.cosine_similarity(q[:, None], k, dim=-1).softmax(-1)), "The scores are cosines"),
        (lambda q, k, v: ((w := weights_of(q, k)) @ v * torch.rand(()), w), "something in your function is random"),
        (lambda q, k, v: ((w := weights_of(q, k)) @ v, w.squeeze()), "wrong at another"),
        (weighing(lambda q, k: weights_of(k, q)), "Queries and keys are swapped"),
        (lambda q, k, v: ((w := weights_of(q, k)) @ k, w), "mix the keys, not the values"),
        (lambda q, k, v: ((w := weights_of(q, k)).T @ v, w), "their columns mix the values"),
        (lambda q, k, v: ((w := weights_of(q, k)) @ v, w.T), "come back transposed"),
        (lambda q, k, v: (weights_of(q, k) @ v, scores_of(q, k)), "scores before the softmax"),
        (lambda q, k, v: ((w := weights_of(q, k)), w @ v), "in the wrong order"),
        (lambda q, k, v: weights_of(q, k) @ v, "only `out` is returned"),
        (lambda q, k, v: weights_of(q, k), "Only the weights are returned"),
        (lambda q, k, v: ((w := weights_of(q, k)).detach() @ v, w.detach()), "gradient"),
        (lambda q, k, v: ((w := weights_of(q, k)) @ v.sin(), w), "`out` has the right shape and wrong values"),
        (lambda q, k, v: (q @ k @ v, q), "Two matrices of (T, d) cannot be multiplied"),
        (weighing(lambda q, k: (q * k / q.shape[1] ** 0.5).softmax(-1)), "or must be the weights, (T, T)"),
        (lambda q, k, v: (q.softmax(-1) @ v.nothing, q), "Your code stops with an error"),
    ],
    check.split_heads: [
        (lambda x, h: x.view(len(x), h, x.shape[1], -1), "`view` or `reshape` alone cuts across tokens"),
        (lambda x, h: x.view(*x.shape[:2], h, -1), "Your axes are (B, T, h, d); (B, h, T, d) is asked"),
        (lambda x, h: rearrange(x, "b t (d h) -> b h t d", h=h), "every h-th value"),
        (lambda x, h: rearrange(x, "b t (h d) -> b h d t", h=h), "Your axes are (B, h, d, T);"),
        *((lambda x, h, dim=dim: torch.stack(x.split(h, dim=-1), dim), "You have d pieces of h values")
          for dim in range(3)),
        (SLIPS["split"], "`x.transpose(1, 2)` changes nothing"),
        (lambda x, h: torch.stack(x.chunk(h, -1)), "Your axes are (h, B, T, d);"),
        (lambda x, h: rearrange(x, "b t (h d) -> (b h) t d", h=h), "folded into one axis"),
        (lambda x, h: rearrange(x, "b t (d h) -> b d t h", h=h), "(B, d, T, h) and a head takes every"),
        (lambda x, h: rearrange(x, "b t (h d) -> t h b d", h=h), "Your axes are (T, h, B, d);"),
        (lambda x, h: rearrange(x, "b t (h d) -> b h t d", h=h).squeeze(1), "wrong at another"),
        (lambda x, h: rearrange(x, "b t (h d) -> b h t d", h=3), "Right at the first size tried"),
    ],
    check.merge_heads: [
        (lambda x: rearrange(x, "b h t d -> b t (d h)"), "the axes are (B, T, d, h), not (B, T, h, d)"),
        (lambda x: x.permute(0, 3, 2, 1).reshape(len(x), x.shape[2], -1), "the axes are (B, d, T, h), not"),
        (lambda x: x.transpose(2, 3).reshape(len(x), x.shape[2], -1), "the axes are (B, h, d, T), not (B, T, h, d)"),
        (SLIPS["merge"], "`x.transpose(1, 2)` changes nothing"),
        (lambda x: torch.cat(x.unbind(1)[::-1], dim=-1), "in the opposite order"),
        (lambda x: x.transpose(1, 2).view(len(x), x.shape[2], -1), "Your code stops with an error"),
        (lambda x: x.transpose(1, 2).flatten(2).squeeze(0), "wrong at another"),
    ],
}  # fmt: skip


# The whole module: classes that differ in where the weights are, then in one step of `forward`


class Separate(nn.Module):
    """q, k, v and the output as four layers, registered in an unusual order."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        for name in "abcd":  # the output, v, q and k
            setattr(self, name, self.layer(embed_dim))

    def layer(self, embed_dim):
        return nn.Linear(embed_dim, embed_dim)

    def split(self, x):
        return rearrange(x, "b t (h d) -> b h t d", h=self.num_heads)

    def merge(self, x):
        return rearrange(x, "b h t d -> b t (h d)")

    def attend(self, q, k, v):
        return weights_of(q, k) @ v

    def heads(self, x):
        return [self.split(layer(x)) for layer in (self.c, self.d, self.b)]

    def last(self, z):
        return self.a(self.merge(z))

    def forward(self, x):
        return self.last(self.attend(*self.heads(x)))


separate = partial(changed, Separate)


def attention(make, **methods):
    """A class with other parts, those that `make(D, heads)` returns by name, and the methods that use them."""
    methods = {"forward": Separate.forward, **methods}
    return module(lambda D, heads: {"num_heads": heads, **make(D, heads)}, base=Separate, **methods)


def fused(order="n h d", roles=(0, 1, 2), bias=True):
    """One layer for q, k and v, whose 3·D numbers are laid out in this order."""

    def heads(self, x):
        parts = rearrange(self.to_all(x), f"b t ({order}) -> n b h t d", n=3, h=self.num_heads)
        return [parts[role] for role in roles]

    return attention(lambda D, h: {"to_all": nn.Linear(D, 3 * D, bias=bias), "a": nn.Linear(D, D)}, heads=heads)


def pair_fused(order="n h d", layers="cba", roles=(0, 1, 2)):
    """Two of q, k and v in one layer, `b`; the third in `c`."""

    def heads(self, x):
        parts = [self.split(self.c(x)), *rearrange(self.b(x), f"b t ({order}) -> n b h t d", n=2, h=self.num_heads)]
        return [parts[role] for role in roles]

    return attention(lambda D, h: {name: nn.Linear(D, D * (1 + (name == "b"))) for name in layers}, heads=heads)


def by_lists(turn):
    """Each head has small layers of its own, in the lists that `turn(heads)` makes of them, and turns back again."""

    def make(D, h):
        lists = turn([[nn.Linear(D, D // h) for _ in "qkv"] for _ in range(h)])
        return {"lists": nn.ModuleList(nn.ModuleList(layers) for layers in lists), "out": nn.Linear(D, D)}

    def forward(self, x):
        mixed = [self.attend(*(layer(x) for layer in layers)) for layers in turn(self.lists)]
        return self.out(torch.cat(mixed, dim=-1))

    return attention(make, forward=forward)


def bare(times):
    """Bare matrices and vectors, which `times(x, matrix)` applies."""

    def applied(self, x, name):
        return times(x, getattr(self, f"w{name}")) + getattr(self, f"b{name}")

    return attention(
        lambda D, h: parameters("wq wk wv wo bq bk bv bo", *4 * [(D, D)], *4 * [(D,)]),
        heads=lambda self, x: [self.split(applied(self, x, name)) for name in "qkv"],
        last=lambda self, z: applied(self, self.merge(z), "o"),
    )


Einsum = attention(  # a matrix for each head in one parameter
    lambda D, h: parameters("w b w_out b_out", (3, h, D, D // h), (3, h, 1, D // h), (h, D // h, D), D),
    heads=lambda self, x: torch.einsum("btD,nhDd->nbhtd", x, self.w) + self.b[:, None],
    last=lambda self, z: torch.einsum("bhtd,hdD->btD", z, self.w_out) + self.b_out,
)
BareOutput = attention(  # three layers for q, k and v; the output as a bare parameter with a matrix for each head
    lambda D, h: {**{name: nn.Linear(D, D) for name in "cdb"}, **parameters("w bias", (h, D // h, D), D)},
    last=lambda self, z: torch.einsum("bhtd,hde->bte", z, self.w) + self.bias,
)


def torchs(forward=lambda self, x: self.attention(x, x, x, need_weights=False)[0], **options):
    """torch's own module, with options, and called by this `forward`."""
    options = {"batch_first": True, **options}
    return attention(lambda D, h: {"attention": nn.MultiheadAttention(D, h, **options)}, forward=forward)


RIGHT[check.self_attention] = {
    "the package's": SelfAttention,
    "separate, in another order": Separate,
    "torch": torchs(),
    "torch, turned by hand": torchs(
        lambda self, x: self.attention(*3 * [x.transpose(0, 1)])[0].transpose(0, 1), batch_first=False),
    "a list of heads": by_lists(lambda heads: heads),
    "lists of layers": by_lists(lambda lists: zip(*lists, strict=True)),
    "bare parameters": bare(torch.matmul),
    "bare parameters, as rows": bare(F.linear),
    "einsum": Einsum,
    "v, q, k in one layer": fused(roles=(1, 2, 0)),
    "k, q, v in one layer, by d, n, h": fused("d n h", (2, 0, 1)),
    **{f"one layer, its rows by {axes}": fused(axes) for axes in ORDERS},
    "k and v in one layer": pair_fused(),
    "k and v in one layer, head by head": pair_fused("h n d"),
    "q and k in one layer, the output first": pair_fused(layers="abc", roles=(1, 2, 0)),
    "bare output": BareOutput,
    "layers also in a list": separate(
        lambda self, D, h: setattr(self, "layers", [self.a, self.b, [nn.Softmax(-1)]])),
    "lazy": separate(layer=lambda self, D: nn.LazyLinear(D)),
    "with dropout": separate(attend=lambda self, q, k, v: F.dropout(weights_of(q, k) @ v, 0.1, self.training)),
    "heads dealt out in turn, both ways": separate(
        split=lambda self, x: rearrange(x, "b t (d h) -> b h t d", h=self.num_heads),
        merge=lambda self, x: rearrange(x, "b h t d -> b t (d h)")),
    "conv": separate(
        layer=lambda self, D: nn.Conv1d(D, D, 1),
        heads=lambda self, x: [self.split(layer(x.mT).mT) for layer in (self.c, self.d, self.b)],
        last=lambda self, z: self.a(self.merge(z).mT).mT),
    # Eqs. 5-8 as they are written
    "no biases for q, k and v": (fused(bias=False), "Without a bias: `to_all`. Eqs. 5 to 8 have none either"),
    "no biases, torch": (torchs(bias=False), "The authors' code has D biases each"),
    "no biases": (separate(layer=lambda self, D: nn.Linear(D, D, bias=False)), "Without a bias: `a`, `b`, `c`, `d`."),
}  # fmt: skip


def attending(weigh):
    """A class whose heads have these weights."""
    return separate(attend=lambda self, q, k, v: weigh(q, k) @ v)


def sliced(count):
    """Heads are cut before the projection; `count(heads)` small layers each for q, k and v serve them in turn."""

    def make(D, h):
        small = {name: nn.ModuleList(nn.Linear(D // h, D // h, bias=False) for _ in range(count(h))) for name in "qkv"}
        return {**small, "out": nn.Linear(D, D)}

    def forward(self, x):
        pieces = enumerate(x.chunk(self.num_heads, dim=-1))
        mixed = [self.attend(*(p[i % len(p)](piece) for p in (self.q, self.k, self.v))) for i, piece in pieces]
        return self.out(torch.cat(mixed, dim=-1))

    return attention(make, forward=forward)


def narrow(count):
    """One head's q, k and v for all heads, taken as often as `count(heads)` says."""
    return attention(
        lambda D, h: {"qkv": nn.Linear(D, 3 * D // h), "out": nn.Linear(count(h) * D // h, D)},
        forward=lambda self, x: self.out(attend(*self.qkv(x).chunk(3, -1))[0].repeat(1, 1, count(self.num_heads))),
    )


Wide = attention(  # each head as wide as a token
    lambda D, h: {**{name: nn.Linear(D, h * D) for name in "bcd"}, "out": nn.Linear(h * D, D)},
    last=lambda self, z: self.out(self.merge(z)),
)
VIEWED = {"split": lambda self, x: x.view(len(x), self.num_heads, x.shape[1], -1)}
FLATTENED = {"merge": lambda self, x: x.reshape(len(x), x.shape[2], -1)}
UNSWAPPED = {"split": lambda self, x: x.unflatten(-1, (self.num_heads, -1))}


def ending(change):
    """Right, but for what is made of the result."""
    return separate(forward=lambda self, x: change(Separate.forward(self, x)))


def made(self, x):
    self.a = nn.Linear(x.shape[-1], x.shape[-1])


def half(init, forward):
    """A class of which only one method may be written."""
    source = CLASS.format("D, heads", f"super().__init__()\n        {init}", f"# fill in\n        {forward}")
    return cell(source)["Mine"]


FACTS = (
    "An image gets the same result alone and in a batch, as it must. "
    "Tokens in another order give the same results in that order, as they must."
)
WRONG[check.self_attention] = [
    (attending(lambda q, k: weights_of(q, k, 1.0)), "not divided by √d"),
    (attending(lambda q, k: weights_of(q, k, 20**-0.5)), "by √D, the width of a token"),
    (attending(lambda q, k: weights_of(q, k, 1.0) / q.shape[-1] ** 0.5), "after the softmax"),
    (attending(lambda q, k: weights_of(q, k, q.shape[-2] ** -0.5)), "divided by √T, not by √d"),
    (separate(attend=SLIPS["attend"]), HALVED),
    (separate(attend=SLIPS["no_softmax"]), "`scores.softmax(-1)` changes nothing"),
    (attending(lambda q, k: scores_of(q, k).softmax(-2)), "over the queries, not over the keys"),
    (attending(lambda q, k: scores_of(q, k).softmax(1)), "over the heads, not over the keys"),
    (attending(lambda q, k: weights_of(q, k, q.shape[1] ** -0.5)), "by √h, the root of how many heads"),
    (attending(lambda q, k: weights_of(q, k, 1 / 8)), "divided by 8 = √64"),
    (attending(lambda q, k: weights_of(q, k, 1 / 2)), "not at another size. The scores are divided by 2 = √4"),
    (attending(lambda q, k: weights_of(q, k).mean(1, keepdim=True)), "The weights are averaged over the heads"),
    (separate(heads=lambda self, x: Separate.heads(self, self.a(x)), last=Separate.merge),
     "The output projection comes first"),
    (separate(b=property(lambda self: lambda x: x)), "The values come from no layer: they are the tokens"),
    (separate(**dict.fromkeys("bcd", property(lambda self: lambda x: x))),
     "The queries, the keys and the values come from no layer"),
    (narrow(lambda h: h), "All heads share one q, one k and one v"),
    (narrow(lambda h: 1), "`out` takes in d = 4 values: are your heads added up or averaged?"),
    (Wide, "`out` takes in h·D = 100 values: are your heads D wide each?"),
    (separate(forward=lambda self, x: (vars(self).setdefault("once", made(self, x)), Separate.forward(self, x))[1]),
     "made in `forward`"),
    (attending(lambda q, k: scores_of(q, k).softmax(0)), "over the batch, not over the keys"),
    (separate(**VIEWED), "split by `view` or `reshape` without a transpose"),
    (separate(**FLATTENED), "merged by `view` or `reshape` without a transpose"),
    (separate(**VIEWED, **FLATTENED), "split and merged by `view` or"),
    (separate(**UNSWAPPED, merge=lambda self, x: x.flatten(2)), "the heads of one token attend to each other"),
    (separate(**UNSWAPPED, merge=lambda self, x: x.transpose(1, 2).reshape(len(x), x.shape[1], -1)),
     "attend to each other inside a token"),
    (separate(attend=lambda self, q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
     "only itself and those before it"),
    (attending(lambda q, k: weights_of(q, q)), "The queries stand in for the keys"),
    # divides by the T of its first call, multiplies by the T of this one
    (separate(forward=lambda self, x: Separate.forward(self, x) * x.shape[1] / vars(self).setdefault("T", x.shape[1])),
     "wrong when the same object then gets (1, 6, 20)"),
    (attending(lambda q, k: weights_of(q, q.exp())), "Never used: `d.weight`, `d.bias`"),
    (separate(attend=lambda self, q, k, v: weights_of(q, k) @ k), "mix the keys"),
    (torchs(batch_first=False), "Attention runs across the batch"),
    (separate(split=lambda self, x: x[:, None], merge=lambda self, x: x[:, 0]), "There is 1 head here"),
    (separate(split=lambda self, x: rearrange(x, "b t (h d) -> b h t d", d=self.num_heads)), "There are 4 heads here"),
    (separate(forward=lambda self, x: x + Separate.forward(self, x)), "a residual connection"),
    (sliced(lambda heads: 1), "slice the input before projecting"),
    (sliced(lambda heads: heads), "slice the input before projecting"),
    (separate(a=lambda D, h: nn.Identity()), "output projection is missing"),
    (separate(last=Separate.merge), "does not use it"),
    (attending(lambda q, k: F.dropout(weights_of(q, k), 0.2)), "does not give the same result each time"),
    (ending(lambda out: out * (torch.rand(()) > 0.1)), "does not give the same result each time"),
    (separate(forward=lambda self, x: (made(self, x), Separate.forward(self, x))[1]),
     "Layers or parameters are made in `forward`"),
    (separate(lambda self, D, h: setattr(self, "layers", {"keys": self._modules.pop("d")}),
              d=property(lambda self: self.layers["keys"])),
     "The layers in `layers` are in a plain Python dict"),
    (separate(lambda self, D, h: setattr(self, "d", self.c)), "The queries and the keys come from the same layer"),
    (separate(lambda self, D, h: self._modules.update(c=self.b, d=self.b)),
     "The queries, the keys and the values come from"),
    (separate(lambda self, D, h: setattr(self, "a", self.b)), "The values and the output come from the same layer"),
    (ending(lambda out: out.half()), "got torch.float16"),
    (ending(lambda out: out.relu()), "No result is below 0"),
    (separate(forward=lambda self, x: Separate.forward(self, x.add_(1))), "Your `forward` changes"),
    (separate(forward=lambda self, x: print(end="")), "Your `forward` returns nothing"),
    (separate(norm=lambda D, h: nn.LayerNorm(D), forward=lambda self, x: Separate.forward(self, self.norm(x))),
     "a LayerNorm inside your attention"),
    (changed(torchs(lambda self, x: self.attention(self.q(x), self.k(x), self.v(x))[0]),
             **dict.fromkeys("qkv", lambda D, h: nn.Linear(D, D))),
     "more linear layers beside"),
    (separate(attend=lambda self, q, k, v: weights_of(q, k) @ v.detach()), "gradient"),
    (torchs(lambda self, x: self.attention(x, x, x)), "one tensor is asked"),
    (separate(scale=lambda D, h: nn.Parameter(torch.ones(()))), "Never used: `scale`"),
    (separate(split=lambda self, x: x.unflatten(-1, (5, 4)).transpose(1, 2)), "not at another size"),
    (ending(lambda out: out.transpose(0, 1)), "wrong shape"),
    (separate(layer=lambda self, D: nn.Linear(D, D).requires_grad_(False)), "can never learn"),
    *((changed(fused(order), last=lambda self, z: 0 * (out := Separate.last(self, z)) + out.detach()), "no gradient")
      for order in ORDERS),
    # what is true of a module that no mistake explains
    (attending(lambda q, k: weights_of(q, k.sin())),
     f"none of the usual mistakes explains them. It has 1680 parameters, as many as it should. {FACTS}",
     "check.attention_head"),
    (separate(heads=lambda self, x: Separate.heads(self, x + x.roll(1, 0) + x[:, :1])),
     "somewhere images mix. "
     "Tokens in another order give other results: somewhere numbers of different tokens get mixed up."),
    (half("self.h = 1", "pass"), "`forward` is empty"),
    (half("self.qkv = nn.Linear(D, 3 * D)", "raise NotImplementedError"), "`forward` is empty"),
    (half("raise NotImplementedError", "return self.qkv(x)"), "`__init__` is empty"),
    (half("", "return self.qkv(x)"), "`__init__` is empty"),
]  # fmt: skip


test_right_answers_pass, test_wrong_answers_are_named, test_untouched_stubs_are_not_attempted = judged(RIGHT, WRONG)
