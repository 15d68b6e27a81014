"""The checks of lesson 04 on right and wrong answers."""

from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from vit_tutorial import EncoderBlock, Mlp, check
from vit_tutorial.experiments.blocks import SUSPECTS

from .variants import changed, judged, module, parameters, solved

# LayerNorm


def divided(x, variance, eps):
    return (x - x.mean(-1, keepdim=True)) / (variance + eps).sqrt()


def spread(x, correction=0):
    return x.var(-1, keepdim=True, correction=correction)


def by_matrix(x, w, b, eps):
    D = x.shape[-1]
    centred = x @ (torch.eye(D) - 1 / D)
    return centred / (centred.square().mean(-1, keepdim=True) + eps).sqrt() * w + b


def in_doubles(x, w, b, eps):
    return divided(x.double(), spread(x.double()), eps) * w + b


# The MLP


def sequential(*makers):
    """A class `cls(embed_dim, mlp_dim)` of these layers, each made by `make(D, M)`."""

    class Sequential(nn.Sequential):
        def __init__(self, embed_dim, mlp_dim):
            super().__init__(*(make(embed_dim, mlp_dim) for make in makers))

    return Sequential


def up(D, M):
    return nn.Linear(D, M)


def down(D, M):
    return nn.Linear(M, D)


def gelu(D, M):
    return nn.GELU()


def relu(D, M):
    return nn.ReLU()


def dropout(D, M):
    return nn.Dropout(0.1)


Backwards = module(  # the second layer made first
    lambda D, M: {"second": nn.Linear(M, D), "first": nn.Linear(D, M)},
    lambda self, x: self.second(F.gelu(self.first(x))),
)
Convolutions = module(  # a convolution of width 1 is a linear layer for each token
    lambda D, M: {"second": nn.Conv1d(M, D, 1), "first": nn.Conv1d(D, M, 1)},
    lambda self, x: self.second(F.gelu(self.first(x.mT))).mT,
)
BareMlp = module(
    lambda D, M: parameters("w1 w2 b1 b2", (D, M), (M, D), M, D),
    lambda self, x: F.gelu(x @ self.w1 + self.b1) @ self.w2 + self.b2,
)


def activation(function):
    return changed(Backwards, forward=lambda self, x: self.second(function(self.first(x))))


# The block, with torch's attention: the others replace its `forward` and its parts


class Block(nn.Module):
    def __init__(self, embed_dim, num_heads, mlp_dim):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(embed_dim, mlp_dim), nn.GELU(), nn.Linear(mlp_dim, embed_dim))
        self.norm2 = nn.LayerNorm(embed_dim, eps=1e-6)
        self.attention = nn.MultiheadAttention(embed_dim, num_heads, batch_first=True)
        self.norm1 = nn.LayerNorm(embed_dim, eps=1e-6)

    def mix(self, y):
        return self.attention(y, y, y)[0]

    def forward(self, z):
        z = z + self.mix(self.norm1(z))
        return z + self.mlp(self.norm2(z))


block = partial(changed, Block)


def written(formula):
    """A Block that computes `formula` of its input, attention `a`, the MLP `m` and their norms `n` and `o`."""
    return block(forward=lambda self, z: formula(z, self.mix, self.mlp, self.norm1, self.norm2))


def with_norms(make):
    return block(norm1=make, norm2=make)


HandNorm = module(
    lambda dim, eps: {"gamma": nn.Parameter(torch.ones(dim)), "beta": nn.Parameter(torch.zeros(dim))},
    lambda self, x: divided(x, spread(x), self.args[1]) * self.gamma + self.beta,
)


def attention_of(cls):
    """A Block with an attention from lesson 03, `cls(embed_dim, num_heads)`."""
    return block(attention=lambda D, h, M: cls(D, h), mix=lambda self, y: self.attention(y))


LATER = "lesson 05 asks for a model without dropout"
RIGHT = {
    check.layer_norm: {
        "mean of squares": lambda x, w, b, eps: divided(x, (x - x.mean(-1, True)).square().mean(-1, True), eps) * w + b,
        "std": lambda x, w, b, eps: divided(x, x.std(2, unbiased=False, keepdim=True) ** 2, eps) * w + b,
        "E[x²] - E[x]²": lambda x, w, b, eps: (
            divided(x, x.square().mean(-1, True) - x.mean(-1, True) ** 2, eps) * w + b
        ),
        "a centring matrix": by_matrix,
        "in float64": (in_doubles, "your result is torch.float64"),
    },
    check.mlp: {
        "the package's": Mlp,
        "sequential": sequential(up, gelu, down),
        "backwards": Backwards,
        "convolutions": Convolutions,
        "GELU by hand": activation(lambda x: x * 0.5 * (1 + torch.erf(x / 2**0.5))),
        "dropout": (sequential(up, gelu, dropout, down, dropout), LATER),
    },
    check.encoder_block: {
        "the package's": EncoderBlock,
        "suspect B": SUSPECTS["B"],
        "torch's attention": Block,
        "dropout": (block(mlp=lambda D, h, M: sequential(up, gelu, dropout, down)(D, M)), LATER),
        "own attention": attention_of(solved(check.self_attention)),
        "own MLP": block(mlp=lambda D, h, M: Backwards(D, M)),
        "norms by hand": with_norms(lambda D, h, M: HandNorm(D, 1e-6)),
        "attention without biases": (
            block(attention=lambda D, h, M: nn.MultiheadAttention(D, h, bias=False, batch_first=True)),
            "In `attention`: There is no `qkv.bias`, `projection.bias`",
        ),
    },
}


WRONG = {
    check.layer_norm: [
        (lambda x, w, b, eps: divided(x, spread(x, 1), eps) * w + b, "divides by D - 1, not by D"),
        (lambda x, w, b, eps: (x - x.mean(-1, True)) / (x.std(-1, keepdim=True) + eps) * w + b, "Two things"),
        (lambda x, w, b, eps: (x - x.mean(1, True)) / (x.var(1, False, keepdim=True) + eps).sqrt() * w + b,
         "You normalise over the tokens"),
        (lambda x, w, b, eps: (x - x.mean(-1, True)) / (x + eps).std(-1, keepdim=True) * w + b,
         "Added to x itself it cancels"),
        (lambda x, w, b, eps: (x - x.mean(-1)) / x.std(-1) * w + b, "Without `keepdim=True` a mean is (B, T)"),
        (lambda x, w, b, eps: F.layer_norm(x, x.shape[-1:], w, b, eps), "do without `F.layer_norm`"),
    ],
    check.mlp: [
        (activation(F.relu), "ReLU, not GELU"),
        (sequential(up, down), "no activation between"),
        (sequential(lambda D, M: nn.LayerNorm(D), up, gelu, down), "a LayerNorm inside"),
        (sequential(lambda D, M: nn.Linear(D, 4 * D), gelu, lambda D, M: nn.Linear(4 * D, D)),
         "The hidden layer has 4·D values"),
        (sequential(up, gelu, dropout, down, dropout, dropout), "dropped twice"),
        (sequential(lambda D, M: nn.Linear(D, M, bias=False), gelu, down), "there is no `expand.bias`"),
    ],
    check.encoder_block: [
        (SUSPECTS["A"], "post-norm"),
        (SUSPECTS["D"], "Both residuals are taken from the normed input."),
        (with_norms(lambda D, h, M: nn.Identity()), "In `norm1`: There is no LayerNorm"),
        (block(mlp=lambda D, h, M: sequential(up, relu, down)(D, M),  # and something unknown
               forward=lambda self, z: Block.forward(self, 2 * z)), "In `mlp`: The activation is ReLU"),
        (written(lambda z, a, m, n, o: o((y := z + a(n(z))) + m(o(y)))), "The block's output is normed"),
        (block(mix=lambda self, y: self.attention(y, y, y)), "`nn.MultiheadAttention` returns one, (tokens, weights)"),
        (block(norm2=lambda D, h, M: nn.LayerNorm(D)), "the eps of your LayerNorm is 1e-05"),
        (block(norm3=lambda D, h, M: nn.LayerNorm(D)), "does not depend on `norm3.weight`"),
        (block(mlp=lambda D, h, M: sequential(up, relu, down)(20, 33)), "is a size or a batch written into your code?"),
        (block(lambda self, *sizes: setattr(self, "norm2", self.norm1)), "`norm1` and `norm2` are one and the same"),
    ],
}  # fmt: skip


test_right_answers_pass, test_wrong_answers_are_named = judged(RIGHT, WRONG)


ThreeInputs = module(
    lambda D, h, M: {"inner": nn.MultiheadAttention(D, h, batch_first=True)},
    lambda self, q, k, v: self.inner(q, k, v),
)


def test_other_parts_are_not_called_wrong():
    assert check.encoder_block(block(attention=ThreeInputs)).status == "not judged"
    hidden = block(
        lambda self, *sizes: setattr(self, "pairs", [("mlp", self._modules.pop("mlp"))]),
        mlp=property(lambda self: self.pairs[0][1]),
    )
    assert check.encoder_block(hidden).status == "not judged"
    assert check.mlp(BareMlp).status == "not judged"
    assert check.encoder_block(block(mlp=lambda D, h, M: BareMlp(D, M))).status == "not judged"
    verdict = check.encoder_block(nn.TransformerEncoderLayer)
    assert verdict.status == "not judged"
    assert "It looks for `norm1`, `attention`, `norm2`, `mlp`. Yours: `self_attn`" in verdict.message
