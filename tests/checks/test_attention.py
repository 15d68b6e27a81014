"""The checks of notebook 03 on right and wrong answers."""

import math

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from vit_tutorial import SelfAttention, attend, check

from .variants import cell, changed, judged, module, parameters

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

    def unassigned(q, k, v):
        k.transpose(0, 1)
        weights = (q @ k / q.shape[-1] ** 0.5).softmax(-1)
        return weights @ v, weights
""")
HALVED = "`x ** 1/2` is x/2: powers come before division"

RIGHT = {
    check.attention_head: {
        "the package's": attend,
        "einsum": weighing(lambda q, k: torch.einsum("...id,...jd->...ij", q / math.sqrt(q.size(-1)), k).softmax(-1)),
        "a list": lambda q, k, v: [weights_of(q, k) @ v, weights_of(q, k)],
        "two axes only": (weighing(lambda q, k: (q @ k.T / q.size(1) ** 0.5).softmax(1)), "with more axes in front"),
        "exp": (weighing(lambda q, k: (e := scores_of(q, k).exp()) / e.sum(-1, keepdim=True)), "`exp` overflows"),
    },
    check.split_heads: {
        "einops": lambda x, h: rearrange(x, "b t (h d) -> b h t d", h=h),
        "view": lambda x, h: x.view(x.size(0), x.size(1), h, -1).permute(0, 2, 1, 3),
        "chunks": lambda x, h: torch.stack(x.chunk(h, dim=-1), dim=1),
    },
    check.merge_heads: {
        "einops": lambda x: rearrange(x, "b h t d -> b t (h d)"),
        "concatenated": lambda x: torch.cat(list(x.unbind(1)), dim=-1),
    },
}
WRONG = {
    check.attention_head: [
        (weighing(lambda q, k: weights_of(q, k, 1.0)), "not divided by √d"),
        (SLIPS["half"], HALVED),
        (SLIPS["unassigned"], "`k.transpose(0, 1)` changes nothing"),
        (lambda q, k, v: ((w := weights_of(q, k)) @ v, w.squeeze()), "wrong at another"),
        (lambda q, k, v: ((w := weights_of(q, k)).detach() @ v, w.detach()), "gradient"),
        (lambda q, k, v: ((w := weights_of(q, k)) @ v.sin(), w), "`out` has the right shape and wrong values"),
    ],
    check.split_heads: [
        (lambda x, h: x.view(len(x), h, x.shape[1], -1), "`view` or `reshape` alone cuts across tokens"),
        (lambda x, h: rearrange(x, "b t (d h) -> b h t d", h=h), "every h-th value"),
        (lambda x, h: torch.stack(x.split(h, dim=-1), 1), "You have d pieces of h values"),
    ],
    check.merge_heads: [
        (lambda x: rearrange(x, "b h t d -> b t (d h)"), "the axes are (B, T, d, h), not (B, T, h, d)"),
        (lambda x: torch.cat(x.unbind(1)[::-1], dim=-1), "in the opposite order"),
    ],
}


# The whole module: classes that differ in where the weights are, then in one step of `forward`


class Separate(nn.Module):
    """q, k, v and the output as four layers, made in an unusual order."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        for name in ("projection", "value", "query", "key"):
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
        return [self.split(layer(x)) for layer in (self.query, self.key, self.value)]

    def last(self, z):
        return self.projection(self.merge(z))

    def forward(self, x):
        return self.last(self.attend(*self.heads(x)))


def separate(change=lambda self, *args: None, **changes):
    return changed(Separate, change, **changes)


def other_layers(make, **methods):
    """A class with other parts, those that `make(D, heads)` returns by name, and the methods that use them."""
    methods = {"forward": Separate.forward, **methods}
    return module(lambda D, heads: {"num_heads": heads, **make(D, heads)}, base=Separate, **methods)


def three_named(*names):
    """Three layers by these names."""
    return other_layers(
        lambda D, h: {name: nn.Linear(D, D) for name in (*names, "out")},
        heads=lambda self, x: [self.split(getattr(self, name)(x)) for name in names],
        last=lambda self, z: self.out(self.merge(z)),
    )


def fused(order="n h d", roles=(0, 1, 2), bias=True):
    """One layer for q, k and v, whose 3·D values are laid out in this order."""

    def heads(self, x):
        parts = rearrange(self.to_all(x), f"b t ({order}) -> n b h t d", n=3, h=self.num_heads)
        return [parts[role] for role in roles]

    make = lambda D, h: {"to_all": nn.Linear(D, 3 * D, bias=bias), "projection": nn.Linear(D, D)}  # noqa: E731
    return other_layers(make, heads=heads)


def torchs(forward=lambda self, x: self.attention(x, x, x, need_weights=False)[0], **options):
    """torch's own module, with options, and called by this `forward`."""
    options = {"batch_first": True, **options}
    return other_layers(lambda D, h: {"attention": nn.MultiheadAttention(D, h, **options)}, forward=forward)


class ByOtherNames(nn.Module):
    """Four layers in the usual order, by names that say nothing."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.a, self.b, self.c, self.d = (nn.Linear(embed_dim, embed_dim) for _ in "abcd")

    def forward(self, x):
        q, k, v = (Separate.split(self, layer(x)) for layer in (self.a, self.b, self.c))
        return self.d(Separate.merge(self, weights_of(q, k) @ v))


RIGHT[check.self_attention] = {
    "the package's": SelfAttention,
    "three layers by their names": Separate,
    **{names: three_named(*names.split()) for names in ("W_q W_k W_v", "to_q to_k to_v", "q_proj k_proj v_proj")},
    "torch": torchs(),
    "torch, turned by hand": torchs(
        lambda self, x: self.attention(*3 * [x.transpose(0, 1)])[0].transpose(0, 1), batch_first=False),
    "v, q, k in one layer": fused(roles=(1, 2, 0)),
    **{f"one layer, its rows by {axes}": fused(axes) for axes in ("h n d", "h d n")},
    "lazy": separate(layer=lambda self, D: nn.LazyLinear(D)),
    "with dropout": separate(attend=lambda self, q, k, v: F.dropout(weights_of(q, k) @ v, 0.1, self.training)),
    "heads dealt out in turn, both ways": separate(
        split=lambda self, x: rearrange(x, "b t (d h) -> b h t d", h=self.num_heads),
        merge=lambda self, x: rearrange(x, "b h t d -> b t (d h)")),
    # Eqs. 5-8 as they are written
    "no biases for q, k and v": (fused(bias=False), "There is no `qkv.bias`. Eqs. 5 to 8 have none either"),
}  # fmt: skip


def attending(weigh):
    """A class whose heads have these weights."""
    return separate(attend=lambda self, q, k, v: weigh(q, k) @ v)


def ending(change):
    """Right, but for what is made of the result."""
    return separate(forward=lambda self, x: change(Separate.forward(self, x)))


WRONG[check.self_attention] = [
    (attending(lambda q, k: weights_of(q, k, 1.0)), "not divided by √d"),
    (separate(split=lambda self, x: x.view(len(x), self.num_heads, x.shape[1], -1)), "split by `view` or `reshape`"),
    (torchs(batch_first=False), "Attention runs across the batch"),
    (torchs(lambda self, x: self.attention(x, x, x)), "must be a tensor, got a tuple of 2"),
    (other_layers(
        lambda D, h: {**{name: nn.Linear(D // h, D // h) for name in ("query", "key", "value")},
                      "projection": nn.Linear(D, D)},
        heads=lambda self, x: [layer(self.split(x)) for layer in (self.query, self.key, self.value)]),
     "A cut into heads comes after it"),
    (separate(lambda self, D, h: setattr(self, "key", self.query)),
     "The queries and the keys come from the same layer"),
    (other_layers(lambda D, h: {**{name: nn.Linear(D, h * D) for name in ("query", "key", "value")},
                                "out": nn.Linear(h * D, D)}, last=lambda self, z: self.out(self.merge(z))),
     "Your heads are D wide each"),
    (separate(scale=lambda D, h: nn.Parameter(torch.ones(()))), "does not depend on `scale`"),
    (separate(attend=lambda self, q, k, v: weights_of(q, k) @ v.detach()), "gradient"),
    (separate(layer=lambda self, D: nn.Linear(D, D).requires_grad_(False)), "can never learn"),
    (ending(lambda out: out * (torch.rand(()) > 0.1)), "something in it is random"),  # right nine times in ten
    # divides by the T of its first call, multiplies by the T of this one
    (separate(forward=lambda self, x: Separate.forward(self, x) * x.shape[1] / vars(self).setdefault("T", x.shape[1])),
     "wrong when it is called again"),
    (separate(heads=lambda self, x: Separate.heads(self, x + x.roll(1, 0) + x[:, :1])),
     "somewhere images mix. Tokens in another order give other results"),
]  # fmt: skip


test_right_answers_pass, test_wrong_answers_are_named = judged(RIGHT, WRONG)


def test_layers_made_otherwise_are_not_called_wrong():
    """What the task does not ask for, the check cannot read: it says what it looks for, and judges nothing."""
    bare = module(
        lambda D, h: {"num_heads": h, **parameters("w o b c", *(((3, D, D), (D, D), (3, 1, D), D)))},
        lambda self, x: self.merge(weights_of(*(qkv := self.split_all(x))[:2]) @ qkv[2]) @ self.o + self.c,
        Separate,
        split_all=lambda self, x: [self.split(x @ w + b) for w, b in zip(self.w, self.b, strict=True)],
    )
    by_head = module(  # a matrix for each head, and none with two axes
        lambda D, h: parameters("w b o c", (3, h, D, D // h), (3, h, 1, D // h), (h, D // h, D), D),
        lambda self, x: (
            torch.einsum("bhtd,hdD->btD", weights_of(*(qkv := self.split_all(x))[:2]) @ qkv[2], self.o) + self.c
        ),
        split_all=lambda self, x: torch.einsum("btD,nhDd->nbhtd", x, self.w) + self.b[:, None],
    )
    assert check.self_attention(by_head).status == "not judged"
    verdict = check.self_attention(bare)
    assert verdict.status == "not judged"
    assert "Name them so: `qkv.weight` (60, 20), `qkv.bias` (60,), `projection.weight` (20, 20)" in verdict.message
    assert check.self_attention(ByOtherNames).status == "not judged"
