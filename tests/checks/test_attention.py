"""The checks of notebook 03 on right and wrong answers."""

import math

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import nn

from vit_tutorial import SelfAttention, attend, check

from .variants import judged, module, solved


def scores_of(q, k):
    return q @ k.mT / q.shape[-1] ** 0.5


def weights_of(q, k, scale=None):
    return (q @ k.mT * (q.shape[-1] ** -0.5 if scale is None else scale)).softmax(-1)


def weighing(weigh):
    """One head with these weights."""
    return lambda q, k, v: ((w := weigh(q, k)) @ v, w)


DIVISOR, SOFTMAX = "q.shape[-1] ** 0.5", "scores.softmax(dim=-1)"

RIGHT = {
    check.attention_head: {
        "the package's": attend,
        "einsum": weighing(lambda q, k: torch.einsum("...id,...jd->...ij", q / math.sqrt(q.size(-1)), k).softmax(-1)),
        "a list": lambda q, k, v: [weights_of(q, k) @ v, weights_of(q, k)],
        "two axes only": weighing(lambda q, k: (q @ k.T / q.size(1) ** 0.5).softmax(1)),
        "exp": weighing(lambda q, k: (e := scores_of(q, k).exp()) / e.sum(-1, keepdim=True)),
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
        (lambda q, k, v: ((w := weights_of(q, k)) @ v, w.mT), "the weights that you return are not those that mix it"),
        (weighing(lambda q, k: F.one_hot(scores_of(q, k).argmax(-1), len(k)).float()), "or an argmax"),
        (weighing(scores_of), "A row of your weights sums to -1.38, not to 1"),
        (weighing(lambda q, k: scores_of(q, k).softmax(0)), "Your columns sum to 1"),
        (weighing(lambda q, k: weights_of(q, k, 1.0)), "Your scores are 1.73 times the right ones"),
        (weighing(lambda q, k: weights_of(k, q)), "Queries and keys are exchanged"),
        (lambda q, k, v: ((w := weights_of(q, k)) @ v.sin(), w), "`out` is not `weights @ v`"),
        ("q @ k", "F.normalize(q) @ F.normalize(k)", "the softmax of no multiple of q kᵀ"),
        (DIVISOR, "(q.shape[-1] ** 1/2)", "q kᵀ is divided by 1.5 (`d ** 1/2` is d/2"),
        (lambda q, k, v: ((w := weights_of(q, k)).detach() @ v, w.detach()), "gradient"),
        (lambda q, k, v: weights_of(q, k) @ v, "2 values, out (T, d) and weights (T, T); got a tensor of shape (5, 3)"),
        (weighing(lambda q, k: (q @ k.mT / 0).softmax(-1)), "`out` holds 15 values that are inf or nan"),
    ],
    check.split_heads: [
        (lambda x, h: 2 * x.unflatten(2, (h, -1)).transpose(1, 2), "values that are not among those that were given"),
        (lambda x, h: x.view(len(x), h, x.shape[1], -1),
         "was at image 0, token 0, value 7. What was at image 0, token 1"),
        (lambda x, h: rearrange(x, "b t (d h) -> b h t d", h=h),
         "value 3. What was at image 0, token 0, value 1 belongs"),
        (lambda x, h: rearrange(x, "b t (h d) -> t b h d", h=h), "(T, B, h, d) = (5, 2, 3, 7), and (B, h, T, d)"),
        (lambda x, h: torch.stack(x.split(h, dim=-1), 1), "(B, d, T, h) = (2, 7, 5, 3), and (B, h, T, d)"),
        ("D // num_heads", "D / num_heads", "`/` makes a float: divide by `//`"),
    ],
    check.merge_heads: [
        (lambda x: rearrange(x, "b h t d -> b t (d h)"), "head 1, token 0, value 0. What was at image 0, head 0"),
        (lambda x: x.reshape(len(x), x.shape[2], -1),
         "value 7 of your result stands what was at image 0, head 0, token 1"),
    ],
}  # fmt: skip


# The whole module: what is changed in the solution, and classes that are written in another way

LAYER, NAMES = "self.qkv = nn.Linear(embed_dim, 3 * embed_dim)", "self.query, self.key, self.value"
PARTS, LAST = "self.qkv(tokens).chunk(3, dim=-1)", "self.projection = nn.Linear(embed_dim, embed_dim)"
SPLIT, MERGE = "part.reshape(B, T, self.num_heads, -1).transpose(1, 2)", ".transpose(1, 2).reshape(B, T, D)"


def three(names=NAMES, layer="nn.Linear(embed_dim, embed_dim)"):
    """q, k and v by three layers."""
    calls = ", ".join(f"{name}(tokens)" for name in names.split(", "))
    return LAYER, f"{names} = ({layer} for _ in range(3))", PARTS, f"({calls})"


def unnamed(*edits):
    """Layers whose names say nothing."""
    return *three("self.a, self.b, self.c"), "self.projection", "self.d", *edits


def heads(divisor=lambda d, D: d**0.5):
    """A list of heads, modules with layers of their own."""
    head = module(
        lambda D, d: {name: nn.Linear(D, d) for name in ("query", "key", "value")},
        lambda self, x: weights_of(self.query(x), self.key(x), 1 / divisor(*self.args[::-1])) @ self.value(x),
    )
    return module(
        lambda D, h: {"heads": nn.ModuleList(head(D, D // h) for _ in range(h)), "projection": nn.Linear(D, D)},
        lambda self, x: self.projection(torch.cat([head(x) for head in self.heads], dim=-1)),
    )


def torchs(take=lambda pair: pair[0], **options):
    """torch's own module, with options, and what is taken of the pair that it returns."""
    return module(
        lambda D, h: {"attention": nn.MultiheadAttention(D, h, **options)},
        lambda self, x: take(self.attention(x, x, x)),
    )


LISTS = (*three(layer="nn.ModuleList(nn.Linear(embed_dim, embed_dim // num_heads) for _ in range(num_heads))"),
         "(tokens)", "", "part.reshape", "torch.cat([layer(tokens) for layer in part], -1).reshape")  # fmt: skip
MATRICES = (*three("self.w_q, self.w_k, self.w_v",
                   "nn.Parameter(torch.randn(num_heads, embed_dim, embed_dim // num_heads))"),
            SPLIT, "torch.einsum('btD,hDd->bhtd', tokens, part)", "(tokens)", "")  # fmt: skip
RIGHT[check.self_attention] = {
    "the package's": SelfAttention,
    **{names: three(names) for names in (NAMES, "self.W_q, self.W_k, self.W_v", "self.to_q, self.to_k, self.to_v")},
    "lazy": three(layer="nn.LazyLinear(embed_dim)"),
    "keeps its weights to look at": ("mixed =", "self.weights = weights; mixed ="),
    "torch": torchs(batch_first=True),
    "v, q, k in one layer": ("q, k, v = (", "v, q, k = ("),
    "one layer, head by head": (PARTS, "self.qkv(tokens).unflatten(-1, (self.num_heads, 3, -1)).unbind(3)"),
    "one layer, value by value": (PARTS, "self.qkv(tokens).unflatten(-1, (self.num_heads, -1, 3)).unbind(4)"),
    "with dropout": (SOFTMAX, f"F.dropout({SOFTMAX}, 0.1, self.training)"),
    "heads dealt out in turn, both ways": (
        "self.num_heads, -1).transpose(1, 2)", "-1, self.num_heads).permute(0, 3, 1, 2)", MERGE,
         ".permute(0, 2, 3, 1).reshape(B, T, D)"),
    "no biases for q, k and v": (LAYER, LAYER[:-1] + ", bias=False)"),
    "a list of Head modules": heads(),
    "three lists of layers": LISTS,
    "bare matrices": (*three(layer="nn.Parameter(torch.randn(embed_dim, embed_dim))"), "(tokens)", "",
                      "part.reshape", "(tokens @ part).reshape"),
    "a convolution of width 1": (LAYER, "self.qkv = nn.Conv1d(embed_dim, 3 * embed_dim, 1)", "self.qkv(tokens)",
                                 "self.qkv(tokens.mT).mT"),
}  # fmt: skip
WRONG[check.self_attention] = [
    ("self.qkv(tokens)", "self.qkv(tokens + tokens.roll(1, 0))", "somewhere images mix"),
    ("self.projection(mixed)", "tokens + self.projection(mixed)", "you return the input: the block adds it"),
    ("self.qkv(tokens)", "self.qkv(F.layer_norm(tokens, (D,)))", "not linear: a norm, an activation"),
    (PARTS, f"(*{PARTS}[:2], tokens)", "The values are the tokens themselves"),
    (SPLIT, "part.reshape(B, self.num_heads, T, -1)", "value 0 of token 0 is made of values [0, 12,"),
    (MERGE, ".reshape(B, T, D)", "value 12 of token 0 is made of values [0]"),
    (SOFTMAX, "F.one_hot(scores.argmax(-1), T) + 0 * scores", "Query 0 takes nothing from key 0"),
    (*three(), LAST, LAST + "; self.key = self.query", "`qkv.weight` is (120, D)"),
    (*three(), "q @ k", "q @ q", "does not depend on `key.weight`, `key.bias`"),
    ("q @ k", "q @ (q + k)", "With keys of zero all weights are alike. Yours are not"),
    ("= num_heads", "= embed_dim // num_heads", "mixed by 12 different tables of weights. 5 heads have 5"),
    (*three(), f"{NAMES} =", "self.value, self.query, self.key =", SPLIT, "part.reshape(B, self.num_heads, T, -1)",
     "value 0 of token 0 is made of values [0, 12,"),
    (SOFTMAX, "scores", "With all scores zero nothing comes from the values"),
    ("self.qkv(tokens)", "self.qkv(self.projection(tokens))", "self.projection(mixed)", "mixed", "which layer is last"),
    (" / " + DIVISOR, "", "Your scores are 3.46 times the right ones: q kᵀ is not divided at all, and √d is 3.46"),
    (heads(lambda d, D: D**0.5), "Your scores are 0.447 times the right ones"),
    (SOFTMAX, "scores.softmax(-2)", "Your columns sum to 1"),
    (*unnamed(SOFTMAX, "(scores - torch.arange(T)).softmax(-1)"), "Tokens in another order give other results"),
    (*unnamed(SOFTMAX, "scores.sigmoid()"), "Equal tokens should give what one of them gives alone"),
    (torchs(lambda pair: pair, batch_first=True), "must be a tensor (B, T, D) of torch.float32, got a tuple of 2"),
    (*three(layer="nn.Linear(embed_dim // num_heads, embed_dim // num_heads)"), "`qkv.weight` is (36, d)"),
    (LAST, LAST + "; self.scale = nn.Parameter(torch.ones(1))", "does not depend on `scale`"),
    ("weights @ v", "weights @ v.detach()", "the gradient that flows back is not"),
    (*three(), "weights @ v", "weights @ v.detach()", "`value.bias`, or no gradient flows back"),
    ("self.projection(mixed)", "mixed", "does not depend on `projection.weight`"),
    (LAST, "", "self.projection(mixed)", "mixed", "`projection.weight` is not among your parameters"),
    ("self.projection(mixed)", "self.projection(mixed) * (torch.rand(()) > 0.1)",
     "Two calls with the same input give two results"),  # nine times in ten right
    # divides by the T of its first call, multiplies by the T of this one
    ("self.projection(mixed)", 'self.projection(mixed) * T / vars(self).setdefault("T", T)',
     "keeps something from call to call"),
    ("part.reshape(B, T, self.num_heads, -1).transpose(1, 2)", "part.view(B, self.num_heads, T, -1)",
     "Is the order right?"),
]  # fmt: skip

test_right_answers_pass, test_wrong_answers_are_told_the_truth = judged(RIGHT, WRONG)


def test_layers_made_otherwise_are_not_called_wrong():
    """What the task does not ask for, the check cannot read: it says what it looks for, and judges nothing."""
    assert check.self_attention(solved(check.self_attention, *MATRICES)).status == "not judged"
    for edits in (unnamed(), unnamed(" / " + DIVISOR, "")):
        verdict = check.self_attention(solved(check.self_attention, *edits))
        assert verdict.status == "not judged"
        assert "`qkv` (or `query`, `key` and `value`) and `projection`. Yours: `a.weight (60, 60)`" in verdict.message
