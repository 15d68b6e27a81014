"""The checks of notebook 03 on right and wrong answers."""

import math

import pytest
import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from vit_tutorial import SelfAttention, attend, check

from .variants import assert_not_attempted, assert_passes, assert_wrong, cell, solved, stubs

# One head: (T, d) three times -> (out, weights)


def by_loops(q, k, v):
    T, d = q.shape
    weights = torch.zeros(T, T)
    for i in range(T):
        scores = torch.stack([q[i].dot(k[j]) / d**0.5 for j in range(T)])
        weights[i] = scores.exp() / scores.exp().sum()
    return sum(weights[:, j : j + 1] * v[j] for j in range(T)), weights


def scores_of(q, k):
    return q @ k.T / q.shape[1] ** 0.5


TRIANGLE = {T: torch.ones(T, T).triu(1).bool() for T in (1, 4, 5)}


def weights_of(q, k, scale=None):
    return (q @ k.T * (q.shape[1] ** -0.5 if scale is None else scale)).softmax(-1)


RIGHT_HEAD = {
    "solution": solved(check.attention_head),
    "the package's": attend,
    "loops": by_loops,
    "einsum": lambda q, k, v: (
        torch.einsum("ij,jd->id", w := torch.softmax(torch.einsum("id,jd->ij", q / math.sqrt(q.size(1)), k), 1), v),
        w,
    ),
    "a list": lambda q, k, v: [weights_of(q, k) @ v, weights_of(q, k)],
    "fused": lambda q, k, v: (F.scaled_dot_product_attention(q[None], k[None], v[None])[0], weights_of(q, k)),
}


@pytest.mark.parametrize("answer", RIGHT_HEAD.values(), ids=RIGHT_HEAD)
def test_right_head_passes(answer):
    assert_passes(check.attention_head, answer)


def test_a_softmax_that_overflows_passes_with_a_remark():
    assert "overflows" in assert_passes(check.attention_head, by_loops).message
    assert assert_passes(check.attention_head, attend).message == ""


WRONG_HEAD = [
    (lambda q, k, v: ((w := weights_of(q, k, 1.0)) @ v, w), "not divided by √d"),
    (lambda q, k, v: ((w := weights_of(q, k, 1 / q.shape[1])) @ v, w), "divided by d, not by √d"),
    (lambda q, k, v: ((w := weights_of(q, k, q.shape[1] ** 0.5)) @ v, w), "multiplied by √d"),
    (lambda q, k, v: ((w := weights_of(q, k, len(q) ** -0.5)) @ v, w), "divided by √T"),
    (lambda q, k, v: ((w := weights_of(q, k, 1.0) / q.shape[1] ** 0.5) @ v, w), "after the softmax"),
    (lambda q, k, v: ((w := (q @ k.T / q.shape[1] ** 0.5).softmax(0)) @ v, w), "your columns sum to 1, not your rows"),
    (lambda q, k, v: ((w := q @ k.T / q.shape[1] ** 0.5) @ v, w), "no softmax"),
    (lambda q, k, v: ((w := (q @ k.T / q.shape[1] ** 0.5).exp()) @ v, w), "only half of the softmax"),
    (lambda q, k, v: ((w := (q @ k.T / q.shape[1] ** 0.5).sigmoid()) @ v, w), "a sigmoid in place of the softmax"),
    (lambda q, k, v: ((w := scores_of(q, k).flatten().softmax(0).view(len(q), -1)) @ v, w), "All weights together"),
    (lambda q, k, v: (v @ (w := (q.T @ k / q.shape[1] ** 0.5).softmax(-1)), w), "Your weights are (d, d)"),
    (lambda q, k, v: ((w := weights_of(q, k, 1 / 8)) @ v, w), "divided by 8 = √64"),
    (lambda q, k, v: ((w := weights_of(q, k, 1 / 2)) @ v, w), "divided by 2 = √4"),
    (
        lambda q, k, v: ((w := (e := scores_of(q, k).exp()) / e.sum(1)) @ v, w),
        "column j is divided by the sum of row j",
    ),
    (lambda q, k, v: ((w := F.one_hot((q @ k.T).argmax(1), len(k)).float()) @ v, w), "an argmax"),
    (lambda q, k, v: ((w := scores_of(q, k).masked_fill(TRIANGLE[len(q)], -1e9).softmax(-1)) @ v, w), "as in GPT"),
    (lambda q, k, v: ((w := (q * k / q.shape[1] ** 0.5).softmax(-1)) * v, w), "(T, T) = (5, 5) expected, got (5, 3)"),
    (lambda q, k, v: ((w := weights_of(q, k)) @ v * torch.rand(()), w), "something in your function is random"),
    (lambda q, k, v: ((w := weights_of(q, k)) @ v, w.squeeze()), "wrong at another"),
    (lambda q, k, v: ((w := weights_of(k, q)) @ v, w), "Queries and keys are swapped"),
    (lambda q, k, v: ((w := weights_of(q, k)) @ k, w), "mix the keys, not the values"),
    (lambda q, k, v: ((w := weights_of(q, k)).T @ v, w), "their columns mix the values"),
    (lambda q, k, v: ((w := weights_of(q, k)) @ v, w.T), "come back transposed"),
    (lambda q, k, v: (weights_of(q, k) @ v, q @ k.T / q.shape[1] ** 0.5), "scores before the softmax"),
    (lambda q, k, v: ((w := weights_of(q, k)), w @ v), "in the wrong order"),
    (lambda q, k, v: weights_of(q, k) @ v, "only `out` is returned"),
    (lambda q, k, v: weights_of(q, k), "Only the weights are returned"),
    (lambda q, k, v: ((w := weights_of(q, k)).detach() @ v, w.detach()), "gradient"),
    (lambda q, k, v: ((w := weights_of(q, k)) @ v.sin(), w), "`out` has the right shape and wrong values"),
    (lambda q, k, v: (q @ k @ v, q), "Your code stops with an error"),
]


@pytest.mark.parametrize(("answer", "phrase"), WRONG_HEAD, ids=[phrase for _, phrase in WRONG_HEAD])
def test_wrong_head_is_told_what_is_wrong(answer, phrase):
    assert_wrong(check.attention_head, answer, phrase)


# Heads split and merged

RIGHT_SPLIT = {
    "solution": solved(check.split_heads),
    "einops": lambda x, h: rearrange(x, "b t (h d) -> b h t d", h=h),
    "view": lambda x, h: x.view(x.size(0), x.size(1), h, -1).permute(0, 2, 1, 3),
    "chunks": lambda x, h: torch.stack(x.chunk(h, dim=-1), dim=1),
}
RIGHT_MERGE = {
    "solution": solved(check.merge_heads),
    "einops": lambda x: rearrange(x, "b h t d -> b t (h d)"),
    "view": lambda x: x.transpose(1, 2).contiguous().view(x.size(0), x.size(2), -1),
    "concatenated": lambda x: torch.cat(list(x.unbind(1)), dim=-1),
}
WRONG_SPLIT = [
    (lambda x, h: x.view(len(x), h, x.shape[1], -1), "`view` alone cuts across tokens"),
    (lambda x, h: x.view(*x.shape[:2], h, -1), "T and h are not swapped"),
    (lambda x, h: rearrange(x, "b t (d h) -> b h t d", h=h), "every h-th number"),
    (lambda x, h: rearrange(x, "b t (h d) -> b h d t", h=h), "last two axes are swapped"),
    (lambda x, h: torch.stack(x.chunk(h, -1)), "heads come before the batch"),
    (lambda x, h: rearrange(x, "b t (h d) -> (b h) t d", h=h), "folded into one axis"),
    (lambda x, h: rearrange(x, "b t (d h) -> b d t h", h=h), "h and d are exchanged"),
    (lambda x, h: rearrange(x, "b t (h d) -> t h b d", h=h), "(B, h, T, d) = (2, 3, 5, 4) expected, got (5, 3, 2, 4)"),
    (lambda x, h: rearrange(x, "b t (h d) -> b h t d", h=h).squeeze(1), "wrong at another"),
    (lambda x, h: rearrange(x, "b t (h d) -> b h t d", h=3), "Right at the first size tried"),
]
WRONG_MERGE = [
    (lambda x: x.reshape(len(x), x.shape[2], -1), "`view` alone cuts across heads"),
    (lambda x: rearrange(x, "b h t d -> b t (d h)"), "dealt out in turn"),
    (lambda x: x.permute(0, 3, 2, 1).reshape(len(x), x.shape[2], -1), "the axes are (B, d, T, h), not (B, T, h, d)"),
    (lambda x: x.transpose(2, 3).reshape(len(x), x.shape[2], -1), "the axes are (B, h, d, T), not (B, T, h, d)"),
    (lambda x: torch.cat(x.unbind(1)[::-1], dim=-1), "in the opposite order"),
    (lambda x: x.transpose(1, 2), "not merged"),
    (lambda x: x.sum(1), "added up"),
    (lambda x: x.mean(1), "averaged"),
    (lambda x: x.flatten(1, 2), "merged into one axis"),
    (lambda x: x.transpose(1, 2).view(len(x), x.shape[2], -1), "Your code stops with an error"),
    (lambda x: x.transpose(1, 2).flatten(2).squeeze(0), "wrong at another"),
]


@pytest.mark.parametrize("answer", RIGHT_SPLIT.values(), ids=RIGHT_SPLIT)
def test_right_split_passes(answer):
    assert_passes(check.split_heads, answer)


@pytest.mark.parametrize("answer", RIGHT_MERGE.values(), ids=RIGHT_MERGE)
def test_right_merge_passes(answer):
    assert_passes(check.merge_heads, answer)


@pytest.mark.parametrize(("answer", "phrase"), WRONG_SPLIT, ids=[phrase for _, phrase in WRONG_SPLIT])
def test_wrong_split_is_told_what_is_wrong(answer, phrase):
    assert_wrong(check.split_heads, answer, phrase)


@pytest.mark.parametrize(("answer", "phrase"), WRONG_MERGE, ids=[phrase for _, phrase in WRONG_MERGE])
def test_wrong_merge_is_told_what_is_wrong(answer, phrase):
    assert_wrong(check.merge_heads, answer, phrase)


# The whole module: classes that differ in where the weights are, then in one step of `forward`


class Separate(nn.Module):
    """q, k, v and the output as four layers, registered in an unusual order."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.a = nn.Linear(embed_dim, embed_dim)  # the output
        self.b = nn.Linear(embed_dim, embed_dim)  # v
        self.c = nn.Linear(embed_dim, embed_dim)  # q
        self.d = nn.Linear(embed_dim, embed_dim)  # k

    def split(self, x):
        return rearrange(x, "b t (h d) -> b h t d", h=self.num_heads)

    def merge(self, x):
        return rearrange(x, "b h t d -> b t (h d)")

    def attend(self, q, k, v):
        return (q @ k.mT / math.sqrt(q.shape[-1])).softmax(-1) @ v

    def forward(self, x):
        q, k, v = self.split(self.c(x)), self.split(self.d(x)), self.split(self.b(x))
        return self.a(self.merge(self.attend(q, k, v)))


class Fused(Separate):
    """One layer for q, k and v; `pattern` says how its 3·D numbers are laid out."""

    pattern = "b t (n h d) -> n b h t d"
    roles = (0, 1, 2)
    bias = True

    def __init__(self, embed_dim, num_heads):
        nn.Module.__init__(self)
        self.num_heads = num_heads
        self.to_all = nn.Linear(embed_dim, 3 * embed_dim, bias=self.bias)
        self.out = nn.Linear(embed_dim, embed_dim)

    def forward(self, x):
        parts = rearrange(self.to_all(x), self.pattern, n=3, h=self.num_heads)
        q, k, v = (parts[i] for i in self.roles)
        return self.out(self.merge(self.attend(q, k, v)))


class Torch(nn.Module):
    def __init__(self, embed_dim, num_heads, **options):
        super().__init__()
        self.attention = nn.MultiheadAttention(embed_dim, num_heads, **{"batch_first": True, **options})

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


class TorchTransposed(Torch):
    """Without batch_first, and turned by hand: right."""

    def __init__(self, embed_dim, num_heads):
        super().__init__(embed_dim, num_heads, batch_first=False)

    def forward(self, x):
        return super().forward(x.transpose(0, 1)).transpose(0, 1)


class OneHead(nn.Module):
    def __init__(self, embed_dim, head_dim):
        super().__init__()
        self.key = nn.Linear(embed_dim, head_dim)
        self.query = nn.Linear(embed_dim, head_dim)
        self.value = nn.Linear(embed_dim, head_dim)

    def forward(self, x):
        return F.scaled_dot_product_attention(self.query(x), self.key(x), self.value(x))


class ListOfHeads(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.heads = nn.ModuleList(OneHead(embed_dim, embed_dim // num_heads) for _ in range(num_heads))
        self.out = nn.Linear(embed_dim, embed_dim)

    def forward(self, x):
        return self.out(torch.cat([head(x) for head in self.heads], dim=-1))


class ListsOfLayers(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        layers = [[nn.Linear(embed_dim, embed_dim // num_heads) for _ in range(num_heads)] for _ in range(3)]
        self.q, self.k, self.v = (nn.ModuleList(part) for part in layers)
        self.out = nn.Linear(embed_dim, embed_dim)

    def forward(self, x):
        lists = zip(self.q, self.k, self.v, strict=True)
        return self.out(torch.cat([F.scaled_dot_product_attention(q(x), k(x), v(x)) for q, k, v in lists], dim=-1))


class Bare(Separate):
    """Bare parameters, applied as x @ W + b."""

    def __init__(self, embed_dim, num_heads):
        nn.Module.__init__(self)
        self.num_heads = num_heads
        for name in ("wq", "wk", "wv", "wo"):
            setattr(self, name, nn.Parameter(torch.randn(embed_dim, embed_dim)))
        for name in ("bq", "bk", "bv", "bo"):
            setattr(self, name, nn.Parameter(torch.zeros(embed_dim)))

    def forward(self, x):
        q, k, v = (
            self.split(x @ self.wq + self.bq),
            self.split(x @ self.wk + self.bk),
            self.split(x @ self.wv + self.bv),
        )
        return self.merge(self.attend(q, k, v)) @ self.wo + self.bo


class BareRows(Bare):
    """The same as x @ W.T + b."""

    def forward(self, x):
        q, k, v = (
            self.split(F.linear(x, w, b)) for w, b in ((self.wq, self.bq), (self.wk, self.bk), (self.wv, self.bv))
        )
        return F.linear(self.merge(self.attend(q, k, v)), self.wo, self.bo)


class Einsum(nn.Module):
    """A matrix for each head in one parameter."""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        d = embed_dim // num_heads
        self.w = nn.Parameter(torch.randn(3, num_heads, embed_dim, d))
        self.b = nn.Parameter(torch.zeros(3, num_heads, 1, d))
        self.w_out = nn.Parameter(torch.randn(num_heads, d, embed_dim))
        self.b_out = nn.Parameter(torch.zeros(embed_dim))

    def forward(self, x):
        q, k, v = torch.einsum("btD,nhDd->nbhtd", x, self.w) + self.b[:, None]
        return torch.einsum("bhtd,hdD->btD", F.scaled_dot_product_attention(q, k, v), self.w_out) + self.b_out


class PairFused(nn.Module):
    """Two of q, k and v in one layer, `b`; the third in `a`; the output in `o`."""

    pattern, order, roles = "b t (n h d) -> n b h t d", "ab o", (0, 1, 2)

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        sizes = {"a": embed_dim, "b": 2 * embed_dim, "o": embed_dim}
        for name in self.order.replace(" ", ""):
            setattr(self, name, nn.Linear(embed_dim, sizes[name]))

    def forward(self, x):
        first = rearrange(self.a(x), "b t (h d) -> b h t d", h=self.num_heads)
        parts = [first, *rearrange(self.b(x), self.pattern, n=2, h=self.num_heads)]
        mixed, _ = attend(*(parts[role] for role in self.roles))
        return self.o(rearrange(mixed, "b h t d -> b t (h d)"))


class BareOutput(Separate):
    """Three layers for q, k and v; the output as a bare parameter with a matrix for each head."""

    def __init__(self, embed_dim, num_heads):
        super().__init__(embed_dim, num_heads)
        del self.a
        self.w = nn.Parameter(torch.randn(num_heads, embed_dim // num_heads, embed_dim))
        self.bias = nn.Parameter(torch.zeros(embed_dim))

    def forward(self, x):
        mixed = self.attend(*(self.split(p(x)) for p in (self.b, self.c, self.d)))
        return torch.einsum("bhtd,hde->bte", mixed, self.w) + self.bias


class AlsoInAList(Separate):
    """A list of layers that are registered beside."""

    def __init__(self, embed_dim, num_heads):
        super().__init__(embed_dim, num_heads)
        self.layers = [self.a, self.b, [nn.Softmax(-1)]]


def fused(**changes):
    return type("Fused", (Fused,), changes)


def changed(base=Separate, **changes):
    return type(base.__name__, (base,), changes)


RIGHT_ATTENTION = {
    "solution": solved(check.self_attention),
    "the package's": SelfAttention,
    "separate, in another order": Separate,
    "torch": Torch,
    "torch, turned by hand": TorchTransposed,
    "a list of heads": ListOfHeads,
    "lists of layers": ListsOfLayers,
    "bare parameters": Bare,
    "bare parameters, as rows": BareRows,
    "einsum": Einsum,
    "v, q, k in one layer": fused(roles=(1, 2, 0)),
    "head by head in one layer": fused(pattern="b t (h n d) -> n b h t d"),
    "innermost q, k, v": fused(pattern="b t (h d n) -> n b h t d"),
    "d, n, h": fused(pattern="b t (d n h) -> n b h t d", roles=(2, 0, 1)),
    "k and v in one layer": PairFused,
    "k and v in one layer, head by head": changed(PairFused, pattern="b t (h n d) -> n b h t d"),
    "q and k in one layer, the output first": changed(PairFused, order="ob a", roles=(1, 2, 0)),
    "bare output": BareOutput,
    "layers also in a list": AlsoInAList,
    "lazy": changed(
        __init__=lambda self, D, h: (
            nn.Module.__init__(self),
            setattr(self, "num_heads", h),
            *(setattr(self, name, nn.LazyLinear(D)) for name in "abcd"),
        )[0]
    ),
    "with dropout": changed(attend=lambda self, q, k, v: F.dropout(attend(q, k, v)[0], 0.1, self.training)),
    "heads dealt out in turn, both ways": changed(
        split=lambda self, x: rearrange(x, "b t (d h) -> b h t d", h=self.num_heads),
        merge=lambda self, x: rearrange(x, "b h t d -> b t (d h)"),
    ),
    "conv": changed(
        __init__=lambda self, D, h: (
            nn.Module.__init__(self),
            setattr(self, "num_heads", h),
            *(setattr(self, name, nn.Conv1d(D, D, 1)) for name in "abcd"),
        )[0],
        forward=lambda self, x: (
            self.a(self.merge(self.attend(*(self.split(p(x.mT).mT) for p in (self.b, self.c, self.d)))).mT).mT
        ),
    ),
}


@pytest.mark.parametrize("answer", RIGHT_ATTENTION.values(), ids=RIGHT_ATTENTION)
def test_right_attention_passes(answer):
    assert_passes(check.self_attention, answer)


def scaled(scale):
    return lambda self, q, k, v: (q @ k.mT * scale(q.shape[-1])).softmax(-1) @ v


def over(dim):
    return lambda self, q, k, v: (q @ k.mT / q.shape[-1] ** 0.5).softmax(dim) @ v


class Sliced(nn.Module):
    """Heads are cut before the projection; one small layer for all heads."""

    shared = True

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads, d = num_heads, embed_dim // num_heads
        count = 1 if self.shared else num_heads
        self.q, self.k, self.v = (nn.ModuleList(nn.Linear(d, d, bias=False) for _ in range(count)) for _ in range(3))
        self.out = nn.Linear(embed_dim, embed_dim)

    def forward(self, x):
        pieces = x.chunk(self.num_heads, dim=-1)
        mixed = [
            F.scaled_dot_product_attention(*(layers[i % len(layers)](piece) for layers in (self.q, self.k, self.v)))
            for i, piece in enumerate(pieces)
        ]
        return self.out(torch.cat(mixed, dim=-1))


class TorchAcross(Torch):
    def __init__(self, embed_dim, num_heads):
        super().__init__(embed_dim, num_heads, batch_first=False)


class WithoutOutput(Separate):
    def __init__(self, embed_dim, num_heads):
        super().__init__(embed_dim, num_heads)
        self.a = nn.Identity()


class NewEachTime(Separate):
    def forward(self, x):
        self.a = nn.Linear(x.shape[-1], x.shape[-1])
        return super().forward(x)


class ProjectedTwice(Torch):
    def __init__(self, embed_dim, num_heads):
        super().__init__(embed_dim, num_heads)
        self.q, self.k, self.v = (nn.Linear(embed_dim, embed_dim) for _ in range(3))

    def forward(self, x):
        return self.attention(self.q(x), self.k(x), self.v(x))[0]


class Normed(Separate):
    def __init__(self, embed_dim, num_heads):
        super().__init__(embed_dim, num_heads)
        self.norm = nn.LayerNorm(embed_dim)

    def forward(self, x):
        return super().forward(self.norm(x))


class KeepsLength(Separate):
    """Divides by the T of its first call, multiplies by the T of this one."""

    def forward(self, x):
        self.__dict__.setdefault("T", x.shape[1])
        return super().forward(x) * x.shape[1] / self.T


class InADict(Separate):
    def __init__(self, embed_dim, num_heads):
        super().__init__(embed_dim, num_heads)
        self.layers = {"keys": self.d}
        del self.d

    def forward(self, x):
        return self.a(self.merge(self.attend(*(self.split(p(x)) for p in (self.c, self.layers["keys"], self.b)))))


class Unused(Separate):
    def __init__(self, embed_dim, num_heads):
        super().__init__(embed_dim, num_heads)
        self.scale = nn.Parameter(torch.ones(()))


class Narrow(nn.Module):
    """One head's q, k and v for all heads; taken `once`, or once for each head."""

    once = False

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.qkv = nn.Linear(embed_dim, 3 * embed_dim // num_heads)
        self.count = 1 if self.once else num_heads
        self.out = nn.Linear(self.count * embed_dim // num_heads, embed_dim)

    def forward(self, x):
        return self.out(attend(*self.qkv(x).chunk(3, -1))[0].repeat(1, 1, self.count))


class Wide(Separate):
    """Each head as wide as a token."""

    def __init__(self, embed_dim, num_heads):
        nn.Module.__init__(self)
        self.num_heads = num_heads
        self.b, self.c, self.d = (nn.Linear(embed_dim, num_heads * embed_dim) for _ in range(3))
        self.out = self.a = nn.Linear(num_heads * embed_dim, embed_dim)


def made(self, x):
    if "a" in self._modules:
        self.a = nn.Linear(x.shape[-1], x.shape[-1])


def blocks_view(self, x):
    return x.view(len(x), self.num_heads, x.shape[1], -1)


def flat_view(self, x):
    return x.reshape(len(x), x.shape[2], -1)


def unswapped(self, x):
    return x.unflatten(-1, (self.num_heads, -1))


def sharing(**names):
    """Layers that are others under a second name."""

    def build(self, embed_dim, num_heads):
        Separate.__init__(self, embed_dim, num_heads)
        for name, other in names.items():
            setattr(self, name, getattr(self, other))

    return changed(__init__=build)


WRONG_ATTENTION = {
    "no scale": (changed(attend=scaled(lambda d: 1)), "not divided by √d"),
    "scale by D": (
        changed(attend=lambda self, q, k, v: (q @ k.mT / 20**0.5).softmax(-1) @ v),
        "by √D, the width of a token",
    ),
    "scaled twice": (changed(attend=scaled(lambda d: 1 / d)), "divided by d, not by √d"),
    "scaled by the inverse": (changed(attend=scaled(lambda d: d**0.5)), "multiplied by √d"),
    "scaled after": (
        changed(attend=lambda self, q, k, v: (q @ k.mT).softmax(-1) / q.shape[-1] ** 0.5 @ v),
        "after the softmax",
    ),
    "no softmax": (changed(attend=lambda self, q, k, v: q @ k.mT / q.shape[-1] ** 0.5 @ v), "no softmax"),
    "softmax over queries": (changed(attend=over(-2)), "over the queries, not over the keys"),
    "softmax over heads": (changed(attend=over(1)), "over the heads, not over the keys"),
    "scaled by √h": (
        changed(attend=lambda self, q, k, v: (q @ k.mT / self.num_heads**0.5).softmax(-1) @ v),
        "by √h, the root of how many heads",
    ),
    "scaled by √64": (changed(attend=scaled(lambda d: 1 / 8)), "divided by 8 = √64"),
    "scaled by √4, the first size": (
        changed(attend=scaled(lambda d: 1 / 2)),
        "not at another size. The scores are divided by 2 = √4",
    ),
    "exp alone": (changed(attend=lambda self, q, k, v: (q @ k.mT / 2).exp() @ v), "only half of the softmax"),
    "weights averaged": (
        changed(attend=lambda self, q, k, v: attend(q, k, v)[1].mean(1, keepdim=True) @ v),
        "The weights are averaged over the heads",
    ),
    "the output projection first": (
        changed(
            forward=lambda self, x: self.merge(
                self.attend(*(self.split(p(self.a(x))) for p in (self.c, self.d, self.b)))
            )
        ),
        "The output projection comes first",
    ),
    "no layer for v": (
        changed(b=property(lambda self: lambda x: x)),
        "The values come from no layer: they are the tokens",
    ),
    "a layer for the output only": (
        changed(**dict.fromkeys("bcd", property(lambda self: lambda x: x))),
        "The queries, the keys and the values come from no layer",
    ),
    "one q, k and v for all heads": (Narrow, "All heads share one q, one k and one v"),
    "heads averaged": (
        changed(Narrow, once=True),
        "`out` takes in d = 4 numbers: are your heads added up or averaged?",
    ),
    "heads of width D": (Wide, "`out` takes in h·D = 100 numbers: are your heads D numbers wide each?"),
    "a layer made at the first call": (
        changed(
            forward=lambda self, x: (self.__dict__.setdefault("once", made(self, x)), Separate.forward(self, x))[1]
        ),
        "made in `forward`",
    ),
    "softmax over the batch": (changed(attend=over(0)), "over the batch, not over the keys"),
    "split by view": (changed(split=blocks_view), "split by `view` without a transpose"),
    "merged by view": (changed(merge=flat_view), "merged by `view` without a transpose"),
    "split and merged by view": (changed(split=blocks_view, merge=flat_view), "split and merged by `view`"),
    "T and h not swapped": (
        changed(split=unswapped, merge=lambda self, x: x.flatten(2)),
        "the heads of one token attend to each other",
    ),
    "T and h swapped only afterwards": (
        changed(split=unswapped, merge=lambda self, x: x.transpose(1, 2).reshape(len(x), x.shape[1], -1)),
        "attend to each other inside a token",
    ),
    "causal": (
        changed(attend=lambda self, q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True)),
        "only those before it",
    ),
    "queries for keys": (changed(attend=lambda self, q, k, v: attend(q, q, v)[0]), "The queries stand in for the keys"),
    "something kept from the first call": (KeepsLength, "wrong when the same object then gets (1, 6, 20)"),
    "an unused layer": (
        changed(attend=lambda self, q, k, v: attend(q, q.exp(), v)[0]),
        "Never used: `d.weight`, `d.bias`",
    ),
    "keys mixed": (changed(attend=lambda self, q, k, v: F.scaled_dot_product_attention(q, k, k)), "mix the keys"),
    "batch_first forgotten": (TorchAcross, "Attention runs across the batch"),
    "heads forgotten": (
        changed(split=lambda self, x: x[:, None], merge=lambda self, x: x[:, 0]),
        "There is 1 head here",
    ),
    "h and d swapped": (
        changed(
            split=lambda self, x: rearrange(x, "b t (h d) -> b h t d", d=self.num_heads),
        ),
        "There are 4 heads here",
    ),
    "a residual inside": (changed(forward=lambda self, x: x + Separate.forward(self, x)), "a residual connection"),
    "heads slice the input": (Sliced, "slice the input before projecting"),
    "heads slice the input, each with its own layers": (
        changed(Sliced, shared=False),
        "slice the input before projecting",
    ),
    "no output projection": (WithoutOutput, "output projection is missing"),
    "output projection unused": (
        changed(forward=lambda self, x: self.merge(self.attend(*(self.split(p(x)) for p in (self.c, self.d, self.b))))),
        "does not use it",
    ),
    "no bias for q, k, v": (fused(bias=False), "q, k and v have no bias"),
    "no bias at all": (
        type("T", (Torch,), {"__init__": lambda s, D, h: Torch.__init__(s, D, h, bias=False)}),
        "1600 parameters",
    ),
    "dropout in eval mode": (
        changed(attend=lambda self, q, k, v: F.dropout(attend(q, k, v)[1], 0.2) @ v),
        "does not give the same result each time",
    ),
    "rarely dropped in eval mode": (
        changed(forward=lambda self, x: Separate.forward(self, x) * (torch.rand(()) > 0.1)),
        "does not give the same result each time",
    ),
    "layers made in forward": (NewEachTime, "Layers or parameters are made in `forward`"),
    "layers in a dict": (InADict, "The layers in `layers` are in a plain Python dict"),
    "one layer for q and k": (sharing(d="c"), "The queries and the keys come from the same layer"),
    "one layer for q, k and v": (sharing(c="b", d="b"), "The queries, the keys and the values come from"),
    "one layer for v and the output": (sharing(a="b"), "The values and the output come from the same layer"),
    "half precision": (changed(forward=lambda self, x: Separate.forward(self, x).half()), "got torch.float16"),
    "relu at the end": (changed(forward=lambda self, x: Separate.forward(self, x).relu()), "No result is below 0"),
    "changes its input": (changed(forward=lambda self, x: Separate.forward(self, x.add_(1))), "Your `forward` changes"),
    "nothing returned": (changed(forward=lambda self, x: print(end="")), "Your `forward` returns nothing"),
    "a norm inside": (Normed, "a LayerNorm inside your attention"),
    "projected twice": (ProjectedTwice, "more linear layers beside"),
    "values cut off from the gradient": (
        changed(attend=lambda self, q, k, v: attend(q, k, v.detach())[0]),
        "gradient",
    ),
    "a tuple": (type("T", (Torch,), {"forward": lambda s, x: s.attention(x, x, x)}), "one tensor is asked"),
    "one parameter too many": (Unused, "Never used: `scale`"),
    "a size written into the code": (
        changed(split=lambda self, x: x.unflatten(-1, (5, 4)).transpose(1, 2)),
        "not at another size",
    ),
    "the batch first in the result": (
        changed(forward=lambda self, x: Separate.forward(self, x).transpose(0, 1)),
        "wrong shape",
    ),
    "weights frozen": (
        changed(__init__=lambda self, D, h: (Separate.__init__(self, D, h), self.c.requires_grad_(False))[0]),
        "can never learn",
    ),
}


@pytest.mark.parametrize(("answer", "phrase"), WRONG_ATTENTION.values(), ids=WRONG_ATTENTION)
def test_wrong_attention_is_told_what_is_wrong(answer, phrase):
    assert_wrong(check.self_attention, answer, phrase)


def test_an_unknown_mistake_gets_true_facts_and_a_next_step():
    answer = changed(attend=lambda self, q, k, v: attend(q, k.sin(), v)[0])
    verdict = assert_wrong(check.self_attention, answer, "none of the usual mistakes explains them")
    assert "1680 parameters, as many as it should" in verdict.message
    assert "same result alone and in a batch, as it must" in verdict.message
    assert "same results in that order, as they must" in verdict.message
    assert "check.attention_head" in verdict.hint


def test_facts_say_when_images_and_tokens_mix():
    def forward(self, x):
        return Separate.forward(self, x + x.roll(1, 0) + x[:, :1])

    verdict = assert_wrong(check.self_attention, changed(forward=forward), "somewhere images mix")
    assert "different tokens get mixed up" in verdict.message


STUB = """
class MySelfAttention(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        {init}

    def forward(self, tokens):
        # fill in
        {forward}
"""


@pytest.mark.parametrize(
    ("init", "forward"), [("", "raise NotImplementedError"), ("...", "..."), ("raise NotImplementedError", "pass")]
)
def test_an_untouched_class_is_not_attempted(init, forward):
    answer = cell(STUB.format(init=init, forward=forward))["MySelfAttention"]
    assert_not_attempted(check.self_attention, answer)


@pytest.mark.parametrize(
    ("init", "forward", "empty"),
    [
        ("self.h = 1", "pass", "forward"),
        ("self.qkv = nn.Linear(embed_dim, 3 * embed_dim)", "raise NotImplementedError", "forward"),
        ("raise NotImplementedError", "return self.qkv(tokens)", "__init__"),
        ("", "return self.qkv(tokens)", "__init__"),
    ],
)
def test_half_a_class_is_told_which_half_is_empty(init, forward, empty):
    answer = cell(STUB.format(init=init, forward=forward))["MySelfAttention"]
    assert_wrong(check.self_attention, answer, f"`{empty}` is empty")


@pytest.mark.parametrize(
    ("exercise", "parameters"),
    [(check.attention_head, "q, k, v"), (check.split_heads, "tokens, num_heads"), (check.merge_heads, "heads")],
)
def test_untouched_functions_are_not_attempted(exercise, parameters):
    for answer in stubs(parameters).values():
        assert_not_attempted(exercise, answer)
