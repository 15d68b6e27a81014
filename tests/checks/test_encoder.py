"""The checks of lesson 04 on right and wrong answers."""

from functools import partial, partialmethod

import torch
import torch.nn.functional as F
from einops.layers.torch import Rearrange
from torch import nn

from vit_tutorial import EncoderBlock, Mlp, check

from .test_attention import FACTS, Einsum
from .variants import cell, changed, judged, module, parameters, solved

RIGHT, WRONG = {}, {}

# LayerNorm


def moments(x, correction=0, dim=-1):
    return x.mean(dim, keepdim=True), x.var(dim, correction=correction, keepdim=True)


def divided(x, variance, eps, mean=None):
    """`x` without the mean of each token, or another one, by the root of this variance."""
    return (x - (x.mean(-1, keepdim=True) if mean is None else mean)) / (variance + eps).sqrt()


def normalised(x, eps, **options):
    mean, variance = moments(x, **options)
    return divided(x, variance, eps, mean)


def squares(x, mean=0):
    """The mean of the squares of `x - mean`."""
    return (x - mean).square().mean(-1, keepdim=True)


RIGHT[check.layer_norm] = {
    "torch": lambda x, w, b, eps: F.layer_norm(x, (x.shape[-1],), w, b, eps),
    "mean of squares": lambda x, w, b, eps: (x - (m := x.mean(-1, True))) * torch.rsqrt(squares(x, m) + eps) * w + b,
    "std": lambda x, w, b, eps: divided(x, x.std(2, unbiased=False, keepdim=True) ** 2, eps) * w + b,
    # loses digits in float32, and is right
    "E[x²] - E[x]²": lambda x, w, b, eps: divided(x, squares(x) - x.mean(-1, True).square(), eps) * w + b,
}
HALVED = cell("""
    def mine(x, w, b, eps):
        y = x - x.mean(-1, keepdim=True)
        return y / (y.square().mean(-1, keepdim=True) + eps)**1/2 * w + b
""")["mine"]
WRONG[check.layer_norm] = [
    (lambda x, w, b, eps: normalised(x, eps, correction=1) * w + b, "divides by D - 1, not by D"),
    (lambda x, w, b, eps: (x - x.mean(-1, True)) / (moments(x)[1].sqrt() + eps) * w + b, "outside the root"),
    (lambda x, w, b, eps: w * (x - x.mean(-1, True)) / (x.std(-1, keepdim=True) + eps) + b, "Two things"),
    (lambda x, w, b, eps: (x - x.mean(-1, True)) / (moments(x)[1] + eps) * w + b, "by the variance, not by its root"),
    (lambda x, w, b, eps: normalised(x, eps, dim=1) * w + b, "over the tokens"),
    (lambda x, w, b, eps: normalised(x, eps, dim=0) * w + b, "over the batch"),
    (lambda x, w, b, eps: normalised(x, eps, dim=1, correction=1) * w + b, "Two things: you normalise over the tokens"),
    (lambda x, w, b, eps: divided(x, moments(x)[1], eps, x.mean(1, True)) * w + b, "Your mean is over the tokens"),
    (lambda x, w, b, eps: divided(x, moments(x, dim=1)[1], eps) * w + b, "Your variance is over the tokens"),
    (lambda x, w, b, eps: normalised(x, eps, dim=(0, 1)) * w + b, "over batch and tokens (batch norm)"),
    (lambda x, w, b, eps: normalised(x, eps, dim=(1, 2)) * w + b, "all values of an image"),
    (lambda x, w, b, eps: normalised(x, eps, dim=(0, 1, 2)) * w + b, "all values of the batch"),
    (lambda x, w, b, eps: x / (moments(x)[1] + eps).sqrt() * w + b, "The mean is not subtracted."),
    (lambda x, w, b, eps: x * torch.rsqrt(squares(x) + eps) * w + b, "RMSNorm"),
    (lambda x, w, b, eps: divided(x, moments(x)[1], eps, x.sum(-1, True)) * w + b, "Your mean is the sum"),
    (lambda x, w, b, eps: divided(x, squares(x, s := x.sum(-1, True)), eps, s) * w + b, "Your mean is the sum"),
    (lambda x, w, b, eps: divided(x, moments(x)[1] * x.shape[-1], eps) * w + b, "Your variance is a sum"),
    (lambda x, w, b, eps: divided(x, x.shape[-1] * squares(x, s := x.sum(-1, True)), eps, s) * w + b,
     "Mean and variance are sums"),
    (lambda x, w, b, eps: normalised(x, eps) * w, "`bias` is not added"),
    (lambda x, w, b, eps: normalised(x, eps) + b, "`weight` is not used"),
    (lambda x, w, b, eps: normalised(x, eps), "`weight` and `bias` are not used"),
    (lambda x, w, b, eps: (normalised(x, eps) + b) * w, "before `weight` multiplies"),
    (lambda x, w, b, eps: normalised(x, eps) * b + w, "`weight` and `bias` are swapped"),
    (lambda x, w, b, eps: normalised(x, 1e-5) * w + b, "eps is always 1e-05"),
    (lambda x, w, b, eps: normalised(x, 1e-6) * w + b, "eps is always 1e-06"),
    (lambda x, w, b, eps: normalised(x, 1e-8) * w + b, "eps is always 1e-08"),
    (lambda x, w, b, eps: normalised(x, 0) * w + b, "eps is not used"),
    (lambda x, w, b, eps: normalised(x, eps**2) * w + b, "eps is squared"),
    (lambda x, w, b, eps: divided(x, x.var(correction=0), eps) * w + b, "one variance for all values of the batch"),
    (lambda x, w, b, eps: (x - x.mean(-1, True)) / moments(x)[1].clamp(min=eps).sqrt() * w + b, "eps is a lower limit"),
    (lambda x, w, b, eps: divided(x, squares(x), eps) * w + b, "mean of the squares"),
    (lambda x, w, b, eps: normalised(x, 0, correction=1) * w + b, "inf or nan"),
    (lambda x, w, b, eps: (x - x.mean(-1)) / x.std(-1) * w + b, "Your code stops with an error"),
    (lambda x, w, b, eps: (x - x.mean(-1, True) / (moments(x)[1] + eps).sqrt()) * w + b, "Only the mean is divided"),
    (lambda x, w, b, eps: x - x.mean(-1, True) / (moments(x)[1] + eps).sqrt() * w + b, "Write `(x - mean) / …`"),
    (HALVED, "`x ** 1/2` is x/2"),
    (lambda x, w, b, eps: x.sub_(x.mean(-1, True)) * w + b, "changes its input"),
    (lambda x, w, b, eps: divided(x, moments(x)[1].detach(), eps) * w + b, "gradient"),
]  # fmt: skip


# The MLP


LAYERS = {
    "up": lambda D, M: nn.Linear(D, M),
    "down": lambda D, M: nn.Linear(M, D),
    "gelu": lambda D, M: nn.GELU(),
    "relu": lambda D, M: nn.ReLU(),
    "tanh-gelu": lambda D, M: nn.GELU("tanh"),
    "dropout": lambda D, M: nn.Dropout(0.1),
    "norm": lambda D, M: nn.LayerNorm(D),
    "D-to-D": lambda D, M: nn.Linear(D, D),
    "M-to-M": lambda D, M: nn.Linear(M, M),
    "D-to-4D": lambda D, M: nn.Linear(D, 4 * D),
    "4D-to-D": lambda D, M: nn.Linear(4 * D, D),
    "D-to-33": lambda D, M: nn.Linear(D, 33),
    "33-to-D": lambda D, M: nn.Linear(33, D),
    "up-without-bias": lambda D, M: nn.Linear(D, M, bias=False),
    "down-without-bias": lambda D, M: nn.Linear(M, D, bias=False),
}


def sequential(layers):
    """A class `cls(embed_dim, mlp_dim)` of these layers, by their names."""

    class Sequential(nn.Sequential):
        def __init__(self, embed_dim, mlp_dim):
            super().__init__(*(LAYERS[name](embed_dim, mlp_dim) for name in layers.split()))

    return Sequential


Backwards = module(  # the second layer registered first
    lambda D, M: {"second": nn.Linear(M, D), "first": nn.Linear(D, M)},
    lambda self, x: self.second(F.gelu(self.first(x))),
)
BareMlp = module(
    lambda D, M: parameters("w1 w2 b1 b2", (D, M), (M, D), M, D),
    lambda self, x: F.gelu(x @ self.w1 + self.b1) @ self.w2 + self.b2,
)
Convolutions = module(  # a convolution of width 1 is a linear layer for each token
    lambda D, M: {"second": nn.Conv1d(M, D, 1), "first": nn.Conv1d(D, M, 1)},
    lambda self, x: self.second(F.gelu(self.first(x.mT))).mT,
)
LayerAndMatrix = module(
    lambda D, M: {"first": nn.Linear(D, M), **parameters("second bias", (M, D), D)},
    lambda self, x: F.gelu(self.first(x)) @ self.second + self.bias,
)


mlp = partial(changed, Backwards)


def activation(function):
    return mlp(forward=lambda self, x: self.second(function(self.first(x))))


DROPOUT = "lesson 05 asks for a model without dropout"
RIGHT[check.mlp] = {
    "the package's": Mlp,
    "sequential": sequential("up gelu down"),
    "backwards": Backwards,
    "bare parameters": BareMlp,
    "convolutions": Convolutions,
    "a layer and a bare matrix": LayerAndMatrix,
    "GELU by hand": activation(lambda x: x * 0.5 * (1 + torch.erf(x / 2**0.5))),
    "dropout": (sequential("up gelu dropout down dropout"), DROPOUT),
}
WRONG[check.mlp] = [
    (activation(F.relu), "ReLU, not GELU"),
    (activation(lambda x: F.gelu(x, approximate="tanh")), "tanh approximation"),
    (activation(lambda x: x * (1.702 * x).sigmoid()), "a rough GELU"),
    (activation(F.silu), "SiLU, not GELU"),
    (activation(lambda x: x * 0.5 * (1 + torch.erf(x))), "the √2 is missing"),
    (activation(lambda x: x * (1 + torch.erf(x / 2**0.5))), "the ½ is missing"),
    (activation(lambda x: x * torch.erf(x / 2**0.5) / 2), "the 1 is missing"),
    (activation(lambda x: x * (1 + torch.erf(x) / 2**0.5) / 2), "The √2 belongs inside"),
    (sequential("up down"), "no activation between"),
    (sequential("up gelu down gelu"), "a second activation"),
    (sequential("up down gelu"), "comes after the second layer"),
    (sequential("gelu up down"), "comes before the first layer"),
    (sequential("gelu up gelu down"), "before the first layer too"),
    (mlp(forward=lambda self, x: x + Backwards.forward(self, x)), "a residual connection"),
    (sequential("norm up gelu down"), "a LayerNorm inside"),
    (sequential("D-to-D gelu"), "yours has 1 among its parameters"),
    (sequential("up gelu M-to-M gelu down"), "yours has 3 among its parameters"),
    (sequential("D-to-D gelu D-to-D"), "14 values, 1 times embed_dim; mlp_dim = 33"),
    (sequential("D-to-4D gelu 4D-to-D"), "56 values, 4 times embed_dim; mlp_dim = 33"),
    (sequential("D-to-33 gelu 33-to-D"),
     "not at another size. The hidden layer of the MLP has 33 values; mlp_dim = 20"),
    (sequential("up-without-bias gelu down-without-bias"),
     "there is no bias in `0`, `2`: your module has 924 parameters"),
    (activation(lambda x: F.dropout(F.gelu(x), 0.1)), "does not give the same result each time"),
    (sequential("up gelu down dropout dropout"), "dropped twice"),
    (mlp(forward=lambda self, x: Backwards.forward(self, x - x.mean(1, keepdim=True))), "on the other tokens"),
    (mlp(forward=lambda self, x: (Backwards.forward(self, x),)), "a tuple of 1, and one tensor is asked"),
    (sequential("up gelu"), "wrong shape"),
    (activation(lambda x: F.gelu(x.detach())), "gradient"),
    (mlp(forward=torch.no_grad()(lambda self, x: Backwards.forward(self, x))), "no gradient flows back"),
]  # fmt: skip


# The block: one with torch's attention, whose `forward` and parts the others replace


class Block(nn.Module):
    def __init__(self, embed_dim, num_heads, mlp_dim, eps=1e-6):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(embed_dim, mlp_dim), nn.GELU(), nn.Linear(mlp_dim, embed_dim))
        self.norm2 = nn.LayerNorm(embed_dim, eps=eps)
        self.attention = nn.MultiheadAttention(embed_dim, num_heads, batch_first=True)
        self.norm1 = nn.LayerNorm(embed_dim, eps=eps)

    def mix(self, y):
        return self.attention(y, y, y)[0]

    def forward(self, z):
        z = z + self.mix(self.norm1(z))
        return z + self.mlp(self.norm2(z))


block = partial(changed, Block)


def with_norms(make):
    """A Block whose two norms are what `make(D, h, M)` makes."""
    return block(norm1=make, norm2=make)


HandNorm = module(
    lambda dim, eps=1e-6: {"beta": nn.Parameter(torch.zeros(dim)), "gamma": nn.Parameter(torch.ones(dim))},
    lambda self, x: normalised(x, *self.args[1:] or [1e-6]) * self.gamma + self.beta,
)


def torchs(**options):
    """torch's own block, with other options than the right ones."""
    right = {"dropout": 0.0, "activation": "gelu", "layer_norm_eps": 1e-6, "batch_first": True, "norm_first": True}
    build = nn.TransformerEncoderLayer.__init__
    return type("Mine", (nn.TransformerEncoderLayer,), {"__init__": partialmethod(build, **{**right, **options})})


def bare_norms(self, D, h, M):
    del self.norm1, self.norm2
    self.g1, self.b1 = nn.Parameter(torch.ones(D)), nn.Parameter(torch.zeros(D))
    self.g2, self.b2 = nn.Parameter(torch.ones(D)), nn.Parameter(torch.zeros(D))
    self.vectors = lambda: ((self.g1, self.b1), (self.g2, self.b2))


def listed_norms(self, D, h, M):
    del self.norm1, self.norm2
    self.g = nn.ParameterList(torch.ones(D) for _ in range(2))
    self.b = nn.ParameterList(torch.zeros(D) for _ in range(2))
    self.vectors = lambda: zip(self.g, self.b, strict=True)


def with_bare_norms(self, z):
    for branch, (weight, bias) in zip((self.mix, self.mlp), self.vectors(), strict=True):
        z = z + branch(F.layer_norm(z, z.shape[-1:], weight, bias, 1e-6))
    return z


def attention_of(cls):
    """A Block with an attention from lesson 03, `cls(embed_dim, num_heads)`."""
    return block(attention=lambda D, h, M: cls(D, h), mix=lambda self, y: self.attention(y))


def mlp_of(layers):
    return lambda D, h, M: sequential(layers)(D, M)


RIGHT[check.encoder_block] = {
    "the package's": EncoderBlock,
    "torch's attention": Block,
    "torch's block": torchs(),
    "own attention": attention_of(solved(check.self_attention)),
    "own MLP": block(mlp=lambda D, h, M: Backwards(D, M)),
    "bare attention": attention_of(Einsum),
    "bare MLP": block(mlp=lambda D, h, M: BareMlp(D, M)),
    "norms by hand": with_norms(lambda D, h, M: HandNorm(D)),
    "norms as bare vectors": block(bare_norms, forward=with_bare_norms),
    "norms in lists": block(listed_norms, forward=with_bare_norms),
    "mixed": block(norm2=lambda D, h, M: HandNorm(D), mlp=lambda D, h, M: Convolutions(D, M)),
    "dropout": (block(mlp=mlp_of("up gelu dropout down dropout")), DROPOUT),
    "torch's block with dropout": (torchs(dropout=0.1), DROPOUT),
}


def written(formula):
    """A Block that computes `formula` of its input, attention `a`, the MLP `m` and their norms `n` and `o`."""
    return block(forward=lambda self, z: formula(z, self.mix, self.mlp, self.norm1, self.norm2))


def unnormed(which):
    """A block in which only those of q, k and v that are not in `which` come from the normed input."""

    def forward(self, z):
        y = self.norm1(z)
        z = z + self.attention(*(z if name in which else y for name in "qkv"))[0]
        return z + self.mlp(self.norm2(z))

    return block(forward=forward)


UNKNOWN = f"none of the usual mistakes explains them. It has 3133 parameters, as many as it should. {FACTS}"
PACKAGE = "Put the package's `SelfAttention` or `Mlp` in place"
WRONG[check.encoder_block] = [
    (written(lambda z, a, m, n, o: (y := z.add_(a(n(z)))).add_(m(o(y)))),
     "after the call `z` holds other values. `z += …` writes into the caller's tensor"),
    (written(lambda z, a, m, n, o: (y := z + a(n(z))).add_(m(o(y)))),
     "that an earlier step still needs to compute its gradient. `z = z + …` makes a new one"),
    (written(lambda z, a, m, n, o: o((y := n(z + a(z))) + m(y))), "post-norm"),
    (torchs(norm_first=False), "post-norm"),
    (nn.TransformerEncoderLayer, "Both are defaults of `nn.TransformerEncoderLayer`"),
    (torchs(activation="relu", dropout=0.1), "In the MLP: The activation is ReLU"),
    (written(lambda z, a, m, n, o: (y := z + n(a(z))) + o(m(y))), "comes after each branch"),
    (written(lambda z, a, m, n, o: (y := o((x := n(z)) + a(x))) + m(y)),
     "Both residuals are taken from the normed input"),
    (written(lambda z, a, m, n, o: (y := (x := n(z)) + a(x)) + m(o(y))), "around attention is taken from the normed"),
    (written(lambda z, a, m, n, o: (y := n(z + a(z))) + m(o(y))), "from the normed input, or its sum is normed"),
    (written(lambda z, a, m, n, o: o((y := z + a(n(z))) + m(y))), "The sum around the MLP is normed"),
    (written(lambda z, a, m, n, o: (y := o(z + a(n(z)))) + m(y)), "around the MLP is taken from the normed"),
    (written(lambda z, a, m, n, o: m(o(a(n(z))))), "Both residuals are missing, around attention and around the MLP"),
    (written(lambda z, a, m, n, o: (y := a(n(z))) + m(o(y))), "residual around attention is missing"),
    (written(lambda z, a, m, n, o: m(o(z + a(n(z))))), "residual around the MLP is missing"),
    (written(lambda z, a, m, n, o: z + m(o(a(n(z))))), "One residual goes around the whole block"),
    (written(lambda z, a, m, n, o: z + (x := a(n(z))) + m(o(x))), "The MLP gets attention's result alone"),
    (written(lambda z, a, m, n, o: (y := z + a(n(z))) + m(y)), "The MLP gets its input without a norm"),
    (written(lambda z, a, m, n, o: (y := z + a(z)) + m(o(y))), "Attention gets its input without a norm"),
    (written(lambda z, a, m, n, o: (y := z + a(z)) + m(y)), "Attention and MLP both get their input without a norm"),
    (with_norms(lambda D, h, M: nn.Identity()), "It has 0 LayerNorms; two are needed"),
    (unnormed("qk"), "Only the queries and keys come from the input without a norm"),
    (unnormed("kv"), "Only the keys and values come from the input without a norm"),
    (unnormed("qv"), "Only the queries and values come from the input without a norm"),
    (unnormed("q"), "Only the queries come from the input without a norm"),
    (unnormed("k"), "Only the keys come from the input without a norm"),
    (unnormed("v"), "Only the values come from the input without a norm"),
    (written(lambda z, a, m, n, o: z + a(n(z)) + m(o(z))), "stand side by side"),
    (written(lambda z, a, m, n, o: z + m(o(z + a(n(z))))), "starts again from the block's input"),
    (written(lambda z, a, m, n, o: (y := z + m(o(z))) + a(n(y))), "The MLP comes first"),
    (written(lambda z, a, m, n, o: z + a(n(z))), "The MLP is there"),
    (written(lambda z, a, m, n, o: (y := z + a(n(z))) + m(n(y))), "One LayerNorm stands at both places"),
    (block(lambda self, D, h, M: setattr(self, "norm2", self.norm1)), "One LayerNorm stands at both places"),
    (with_norms(lambda D, h, M: nn.LayerNorm(D)), "eps of your LayerNorm is 1e-05"),
    (block(norm1=lambda D, h, M: nn.LayerNorm(D)), "eps of your LayerNorm is 1e-05"),
    (with_norms(lambda D, h, M: HandNorm(D, 1e-5)), "eps of your LayerNorm is 1e-5"),
    (block(mlp=mlp_of("up relu down")), "In the MLP: The activation is ReLU"),
    (block(mlp=mlp_of("up tanh-gelu down")), "In the MLP: The activation is GELU's tanh approximation"),
    (block(mlp=lambda D, h, M: Backwards(D, 4 * D)), "80 values, 4 times embed_dim; mlp_dim = 33"),
    (block(mlp=lambda D, h, M: Backwards(D, 33)),
     "not at another size. The hidden layer of the MLP has 33 values; mlp_dim = 17"),
    (block(attention=lambda D, h, M: nn.MultiheadAttention(D, h)), "In the attention: Attention runs across the batch"),
    (block(mix=lambda self, y: self.attention(y, y, y)), "`nn.MultiheadAttention` returns (output, weights)"),
    (block(mix=lambda self, y: self.attention(y, y, y)[1]), "`nn.MultiheadAttention` returns (output, weights)"),
    (block(mix=lambda self, y: self.attention(y, y, y, need_weights=False)[1]),
     "`nn.MultiheadAttention` returns (output, weights)"),
    (block(mix=lambda self, y: y + self.attention(y, y, y)[0]), "the block adds it again"),
    (block(attention=lambda D, h, M: nn.MultiheadAttention(D, 1, batch_first=True)), "There is 1 head here"),
    (block(mlp=mlp_of("up gelu down dropout"), drop=lambda D, h, M: nn.Dropout(0.1),
           forward=lambda self, z: (y := z + self.mix(self.norm1(z))) + self.drop(self.mlp(self.norm2(y)))),
     "dropped twice"),
    (block(lambda self, *sizes: setattr(self, "layers", [self._modules.pop("mlp")]),
           mlp=property(lambda self: self.layers[0])),
     "The layers in `layers` are in a plain Python list"),
    (block(lambda self, *sizes: setattr(self, "pairs", [(self._modules.pop("mlp"), 1)]),
           mlp=property(lambda self: self.pairs[0][0])),
     "The layers in `pairs` are in a plain Python list"),
    (with_norms(lambda D, h, M: nn.Sequential(
        Rearrange("b t d -> b d t"), nn.BatchNorm1d(D), Rearrange("b d t -> b t d"))), "Its norm is a BatchNorm"),
    (block(norm3=lambda D, h, M: nn.LayerNorm(D)), "Never used: `norm3.weight`"),
    (written(lambda z, a, m, n, o: (y := z + a(n(z)).detach()) + m(o(y))), "gradient"),
    # unknown mistakes, narrowed down
    (block(forward=lambda self, z: Block.forward(self, z.sin())),
     f"Already with zeros in all weights of attention the values are not those of Eqs. 2 and 3, and {UNKNOWN}",
     PACKAGE),
    (block(forward=lambda self, z: Block.forward(self, z) / 2),
     f"{UNKNOWN} When attention and MLP both return zero, the block must return its input", PACKAGE),
    (written(lambda z, a, m, n, o: (y := z + a(n(z)).tanh()) + m(o(y))),
     f"attention the block is right; with attention the values are not those of Eq. 2, and {UNKNOWN}", PACKAGE),
]  # fmt: skip


test_right_answers_pass, test_wrong_answers_are_named, test_untouched_stubs_are_not_attempted = judged(RIGHT, WRONG)
