"""The checks of notebook 04 on right and wrong answers."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from vit_tutorial import EncoderBlock, Mlp, SelfAttention, check

from .variants import assert_not_attempted, assert_passes, assert_wrong, cell, solved, stubs

# LayerNorm


def moments(x, correction=0, dim=-1):
    return x.mean(dim, keepdim=True), x.var(dim, correction=correction, keepdim=True)


def normalised(x, eps, **options):
    mean, variance = moments(x, **options)
    return (x - mean) / (variance + eps).sqrt()


RIGHT_NORM = {
    "solution": solved(check.layer_norm),
    "torch": lambda x, w, b, eps: F.layer_norm(x, (x.shape[-1],), w, b, eps),
    "mean of squares": lambda x, w, b, eps: (
        (x - x.mean(-1, True)) * torch.rsqrt(((x - x.mean(-1, True)) ** 2).mean(-1, True) + eps) * w + b
    ),
    "std": lambda x, w, b, eps: (
        w * (x - x.mean(2, keepdim=True)) / (x.std(2, unbiased=False, keepdim=True) ** 2 + eps).sqrt() + b
    ),
}
WRONG_NORM = [
    (lambda x, w, b, eps: normalised(x, eps, correction=1) * w + b, "divides by D - 1, not by D"),
    (
        lambda x, w, b, eps: (x - x.mean(-1, True)) / (x.std(-1, correction=0, keepdim=True) + eps) * w + b,
        "outside the root",
    ),
    (lambda x, w, b, eps: w * (x - x.mean(-1, True)) / (x.std(-1, keepdim=True) + eps) + b, "Two things"),
    (lambda x, w, b, eps: (x - x.mean(-1, True)) / (moments(x)[1] + eps) * w + b, "by the variance, not by its root"),
    (lambda x, w, b, eps: normalised(x, eps, dim=1) * w + b, "over the tokens"),
    (lambda x, w, b, eps: normalised(x, eps, dim=0) * w + b, "over the batch"),
    (lambda x, w, b, eps: normalised(x, eps, dim=(0, 1)) * w + b, "that is batch norm"),
    (lambda x, w, b, eps: normalised(x, eps, dim=(1, 2)) * w + b, "all numbers of an image"),
    (lambda x, w, b, eps: x / (moments(x)[1] + eps).sqrt() * w + b, "The mean is not subtracted"),
    (lambda x, w, b, eps: x * torch.rsqrt(x.square().mean(-1, True) + eps) * w + b, "RMSNorm"),
    (lambda x, w, b, eps: normalised(x, eps) * w, "`bias` is not added"),
    (lambda x, w, b, eps: normalised(x, eps) + b, "`weight` is not used"),
    (lambda x, w, b, eps: normalised(x, eps), "`weight` and `bias` are not used"),
    (lambda x, w, b, eps: (normalised(x, eps) + b) * w, "before `weight` multiplies"),
    (lambda x, w, b, eps: normalised(x, 1e-5) * w + b, "eps is always 1e-05"),
    (lambda x, w, b, eps: normalised(x, 1e-6) * w + b, "eps is always 1e-06"),
    (lambda x, w, b, eps: normalised(x, 0) * w + b, "eps is not used"),
    (lambda x, w, b, eps: normalised(x, eps**2) * w + b, "eps is squared"),
    (lambda x, w, b, eps: normalised(x, 1e-8) * w + b, "eps is always 1e-08"),
    (
        lambda x, w, b, eps: (x - x.mean(-1, True)) / (x.square().mean(-1, True) + eps).sqrt() * w + b,
        "mean of the squares",
    ),
    (lambda x, w, b, eps: normalised(x, 0, correction=1) * w + b, "inf or nan"),
    (lambda x, w, b, eps: (x - x.mean(-1)) / x.std(-1) * w + b, "Your code stops with an error"),
    (lambda x, w, b, eps: x.sub_(x.mean(-1, True)) * w + b, "changes its input"),
    (lambda x, w, b, eps: (x - x.mean(-1, True)) / (moments(x)[1].detach() + eps).sqrt() * w + b, "gradient"),
]


@pytest.mark.parametrize("answer", RIGHT_NORM.values(), ids=RIGHT_NORM)
def test_right_norm_passes(answer):
    assert_passes(check.layer_norm, answer)


@pytest.mark.parametrize(("answer", "phrase"), WRONG_NORM, ids=[phrase for _, phrase in WRONG_NORM])
def test_wrong_norm_is_told_what_is_wrong(answer, phrase):
    assert_wrong(check.layer_norm, answer, phrase)


# The MLP


def sequential(*layers):
    """A class `cls(embed_dim, mlp_dim)` of these layers, each made by `layer(D, M)`."""

    class Sequential(nn.Sequential):
        def __init__(self, embed_dim, mlp_dim):
            super().__init__(*(layer(embed_dim, mlp_dim) for layer in layers))

    return Sequential


def up(D, M):
    return nn.Linear(D, M)


def down(D, M):
    return nn.Linear(M, D)


def gelu(D, M):
    return nn.GELU()


class Backwards(nn.Module):
    """The second layer registered first."""

    def __init__(self, embed_dim, mlp_dim):
        super().__init__()
        self.second = nn.Linear(mlp_dim, embed_dim)
        self.first = nn.Linear(embed_dim, mlp_dim)

    def forward(self, x):
        return self.second(F.gelu(self.first(x)))


class BareMlp(nn.Module):
    def __init__(self, embed_dim, mlp_dim):
        super().__init__()
        self.w1, self.w2 = nn.Parameter(torch.randn(embed_dim, mlp_dim)), nn.Parameter(torch.randn(mlp_dim, embed_dim))
        self.b1, self.b2 = nn.Parameter(torch.zeros(mlp_dim)), nn.Parameter(torch.zeros(embed_dim))

    def forward(self, x):
        return F.gelu(x @ self.w1 + self.b1) @ self.w2 + self.b2


class Convolutions(nn.Module):
    """A convolution of width 1 is a linear layer for each token."""

    def __init__(self, embed_dim, mlp_dim):
        super().__init__()
        self.first, self.second = nn.Conv1d(embed_dim, mlp_dim, 1), nn.Conv1d(mlp_dim, embed_dim, 1)

    def forward(self, x):
        return self.second(F.gelu(self.first(x.mT))).mT


class LayerAndMatrix(nn.Module):
    def __init__(self, embed_dim, mlp_dim):
        super().__init__()
        self.first = nn.Linear(embed_dim, mlp_dim)
        self.second, self.bias = nn.Parameter(torch.randn(mlp_dim, embed_dim)), nn.Parameter(torch.zeros(embed_dim))

    def forward(self, x):
        return F.gelu(self.first(x)) @ self.second + self.bias


def activation(function):
    return type("Mine", (Backwards,), {"forward": lambda self, x: self.second(function(self.first(x)))})


def forward(function):
    return type("Mine", (Backwards,), {"forward": function})


RIGHT_MLP = {
    "solution": solved(check.mlp),
    "the package's": Mlp,
    "sequential": sequential(up, gelu, down),
    "with dropout": sequential(up, gelu, lambda D, M: nn.Dropout(0.1), down, lambda D, M: nn.Dropout(0.1)),
    "backwards": Backwards,
    "bare parameters": BareMlp,
    "convolutions": Convolutions,
    "a layer and a bare matrix": LayerAndMatrix,
    "GELU by hand": activation(lambda x: x * 0.5 * (1 + torch.erf(x / 2**0.5))),
}
WRONG_MLP = {
    "relu": (activation(F.relu), "ReLU, not GELU"),
    "tanh-GELU": (activation(lambda x: F.gelu(x, approximate="tanh")), "tanh approximation"),
    "quick GELU": (activation(lambda x: x * (1.702 * x).sigmoid()), "a rough GELU"),
    "silu": (activation(F.silu), "SiLU, not GELU"),
    "none": (sequential(up, down), "no activation between"),
    "at the end too": (sequential(up, gelu, down, gelu), "a second activation"),
    "only at the end": (sequential(up, down, gelu), "comes after the second layer"),
    "at the start": (sequential(gelu, up, down), "comes before the first layer"),
    "residual": (forward(lambda self, x: x + Backwards.forward(self, x)), "a residual connection"),
    "norm inside": (sequential(lambda D, M: nn.LayerNorm(D), up, gelu, down), "a LayerNorm inside"),
    "one layer": (sequential(lambda D, M: nn.Linear(D, D), gelu), "among your parameters there is 1"),
    "three layers": (sequential(up, gelu, lambda D, M: nn.Linear(M, M), gelu, down), "there are 3"),
    "mlp_dim ignored": (
        sequential(lambda D, M: nn.Linear(D, 4 * D), gelu, lambda D, M: nn.Linear(4 * D, D)),
        "56 numbers, 4 times embed_dim; mlp_dim = 33",
    ),
    "mlp_dim written into the code": (
        sequential(lambda D, M: nn.Linear(D, 33), gelu, lambda D, M: nn.Linear(33, D)),
        "not at another size. The hidden layer of the MLP has 33 numbers; mlp_dim = 20",
    ),
    "no biases": (
        sequential(lambda D, M: nn.Linear(D, M, bias=False), gelu, lambda D, M: nn.Linear(M, D, bias=False)),
        "924 parameters with embed_dim 14 and mlp_dim 33, for 2 images of 5 tokens, and the paper's has 971. "
        "Without a bias: `0`, `2`",
    ),
    "dropout in eval mode": (
        activation(lambda x: F.dropout(F.gelu(x), 0.1)),
        "does not give the same result each time",
    ),
    "tokens mixed": (
        forward(lambda self, x: Backwards.forward(self, x - x.mean(1, keepdim=True))),
        "on the other tokens",
    ),
    "a tuple": (forward(lambda self, x: (Backwards.forward(self, x),)), "a tuple of 1, and one tensor is asked"),
    "back to mlp_dim": (sequential(up, gelu), "wrong shape"),
    "detached": (activation(lambda x: F.gelu(x.detach())), "gradient"),
    "without gradients": (
        forward(torch.no_grad()(lambda self, x: Backwards.forward(self, x))),
        "no gradient flows back",
    ),
}


@pytest.mark.parametrize("answer", RIGHT_MLP.values(), ids=RIGHT_MLP)
def test_right_mlp_passes(answer):
    assert_passes(check.mlp, answer)


@pytest.mark.parametrize(("answer", "phrase"), WRONG_MLP.values(), ids=WRONG_MLP)
def test_wrong_mlp_is_told_what_is_wrong(answer, phrase):
    assert_wrong(check.mlp, answer, phrase)


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


class HandNorm(nn.Module):
    def __init__(self, dim, eps=1e-6, names=("beta", "gamma")):
        super().__init__()
        self.small = eps
        self.beta, self.gamma = nn.Parameter(torch.zeros(dim)), nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return normalised(x, self.small) * self.gamma + self.beta


def block(function=Block.forward, change=lambda self, D, h, M: None, **names):
    """A Block with another `forward`, after `change` has replaced parts of it."""

    class Changed(Block):
        def __init__(self, embed_dim, num_heads, mlp_dim):
            super().__init__(embed_dim, num_heads, mlp_dim)
            change(self, embed_dim, num_heads, mlp_dim)

        forward = function

    for name, value in names.items():
        setattr(Changed, name, value)
    return Changed


def replace(**parts):
    """A change that replaces parts by what `part(D, h, M)` makes."""
    return lambda self, *sizes: [setattr(self, name, part(*sizes)) for name, part in parts.items()]


class Torch(nn.TransformerEncoderLayer):
    def __init__(self, embed_dim, num_heads, mlp_dim, norm_first=True):
        options = {"dropout": 0.0, "activation": "gelu", "layer_norm_eps": 1e-6, "batch_first": True}
        super().__init__(embed_dim, num_heads, mlp_dim, norm_first=norm_first, **options)


class TorchPostNorm(Torch):
    def __init__(self, embed_dim, num_heads, mlp_dim):
        super().__init__(embed_dim, num_heads, mlp_dim, norm_first=False)


class TorchRelu(nn.TransformerEncoderLayer):
    def __init__(self, embed_dim, num_heads, mlp_dim):
        super().__init__(embed_dim, num_heads, mlp_dim, layer_norm_eps=1e-6, batch_first=True, norm_first=True)


class BareAttention(nn.Module):
    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.heads = num_heads
        self.w, self.b = nn.Parameter(torch.randn(3, embed_dim, embed_dim)), nn.Parameter(torch.zeros(3, embed_dim))
        self.wo, self.bo = nn.Parameter(torch.randn(embed_dim, embed_dim)), nn.Parameter(torch.zeros(embed_dim))

    def forward(self, x):
        q, k, v = (
            (x @ w + b).unflatten(-1, (self.heads, -1)).transpose(1, 2) for w, b in zip(self.w, self.b, strict=True)
        )
        return F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2) @ self.wo + self.bo


def bare_norms(self, D, h, M):
    del self.norm1, self.norm2
    self.g1, self.b1 = nn.Parameter(torch.ones(D)), nn.Parameter(torch.zeros(D))
    self.g2, self.b2 = nn.Parameter(torch.ones(D)), nn.Parameter(torch.zeros(D))
    self.vectors = lambda i: (self.g1, self.b1) if i == 1 else (self.g2, self.b2)


def listed_norms(self, D, h, M):
    del self.norm1, self.norm2
    self.g = nn.ParameterList(torch.ones(D) for _ in range(2))
    self.b = nn.ParameterList(torch.zeros(D) for _ in range(2))
    self.vectors = lambda i: (self.g[i - 1], self.b[i - 1])


def functional_norm(self, z, i):
    return F.layer_norm(z, z.shape[-1:], *self.vectors(i), 1e-6)


def with_bare_norms(self, z):
    z = z + self.mix(self.norm(z, 1))
    return z + self.mlp(self.norm(z, 2))


RIGHT_BLOCK = {
    "solution": cell(
        check.encoder_block.solution().source,
        name="/tmp/ipykernel_4711/solution_of_the_block.py",
        SelfAttention=SelfAttention,
        Mlp=Mlp,
    )["MyEncoderBlock"],
    "the package's": EncoderBlock,
    "torch's attention": Block,
    "torch's block": Torch,
    "own attention and MLP": block(
        change=replace(
            attention=lambda D, h, M: solved(check.self_attention)(D, h), mlp=lambda D, h, M: Backwards(D, M)
        ),
        mix=lambda self, y: self.attention(y),
    ),
    "bare attention": block(
        change=replace(attention=lambda D, h, M: BareAttention(D, h)), mix=lambda self, y: self.attention(y)
    ),
    "bare MLP": block(change=replace(mlp=lambda D, h, M: BareMlp(D, M))),
    "norms by hand": block(change=replace(norm1=lambda D, h, M: HandNorm(D), norm2=lambda D, h, M: HandNorm(D))),
    "norms as bare vectors": block(change=bare_norms, norm=functional_norm, forward=with_bare_norms),
    "norms in lists": block(change=listed_norms, norm=functional_norm, forward=with_bare_norms),
    "dropout": block(
        lambda self, z: Block.forward(self, z),
        replace(
            mlp=lambda D, h, M: nn.Sequential(
                nn.Linear(D, M), nn.GELU(), nn.Dropout(0.1), nn.Linear(M, D), nn.Dropout(0.1)
            )
        ),
    ),
}


def post_norm(self, z):
    z = self.norm1(z + self.mix(z))
    return self.norm2(z + self.mlp(z))


def residual_from_normed(self, z):
    z = self.norm1(z)
    z = z + self.mix(z)
    z = self.norm2(z)
    return z + self.mlp(z)


def first_residual_from_normed(self, z):
    z = self.norm1(z)
    z = z + self.mix(z)
    return z + self.mlp(self.norm2(z))


def second_residual_from_normed(self, z):
    z = z + self.mix(self.norm1(z))
    z = self.norm2(z)
    return z + self.mlp(z)


def unnormed(which):
    """A block in which only those of q, k and v that are not in `which` come from the normed input."""

    def forward(self, z):
        y = self.norm1(z)
        z = z + self.attention(*(z if name in which else y for name in "qkv"))[0]
        return z + self.mlp(self.norm2(z))

    return block(forward)


class Turned(nn.BatchNorm1d):
    def forward(self, x):
        return super().forward(x.mT).mT


def mlp_first(self, z):
    z = z + self.mlp(self.norm2(z))
    return z + self.mix(self.norm1(z))


def one_norm(self, z):
    z = z + self.mix(self.norm1(z))
    return z + self.mlp(self.norm1(z))


def other_eps(D, h, M):
    return nn.LayerNorm(D)


def dropped_twice(self, z):
    z = z + self.mix(self.norm1(z))
    return z + self.drop(self.mlp(self.norm2(z)))


WRONG_BLOCK = {
    "post-norm": (block(post_norm), "post-norm"),
    "torch's block, post-norm": (TorchPostNorm, "post-norm"),
    "torch's block, as it comes": (nn.TransformerEncoderLayer, "Both are defaults of `nn.TransformerEncoderLayer`"),
    "torch's block, ReLU": (TorchRelu, "In the MLP: The activation is ReLU"),
    "norm after each branch": (
        block(lambda self, z: (y := z + self.norm1(self.mix(z))) + self.norm2(self.mlp(y))),
        "comes after each branch",
    ),
    "both residuals from the normed": (block(residual_from_normed), "Both residuals are taken from the normed input"),
    "first residual from the normed": (block(first_residual_from_normed), "around attention is taken from the normed"),
    "second residual from the normed": (block(second_residual_from_normed), "around the MLP is taken from the normed"),
    "no residual": (
        block(lambda self, z: self.mlp(self.norm2(self.mix(self.norm1(z))))),
        "residual around attention is missing",
    ),
    "no first residual": (
        block(lambda self, z: (y := self.mix(self.norm1(z))) + self.mlp(self.norm2(y))),
        "residual around attention is missing",
    ),
    "no second residual": (
        block(lambda self, z: self.mlp(self.norm2(z + self.mix(self.norm1(z))))),
        "residual around the MLP is missing",
    ),
    "MLP without norm": (
        block(lambda self, z: (y := z + self.mix(self.norm1(z))) + self.mlp(y)),
        "The MLP gets its input without a norm",
    ),
    "attention without norm": (
        block(lambda self, z: (y := z + self.mix(z)) + self.mlp(self.norm2(y))),
        "Attention gets its input without a norm",
    ),
    "queries and keys without norm": (unnormed("qk"), "Queries and keys come from the input without a norm"),
    "keys and values without norm": (unnormed("kv"), "Keys and values come from the input without a norm"),
    "queries and values without norm": (unnormed("qv"), "Queries and values come from the input without a norm"),
    "queries without norm": (unnormed("q"), "The queries come from the input without a norm"),
    "keys without norm": (unnormed("k"), "The keys come from the input without a norm"),
    "values without norm": (unnormed("v"), "The values come from the input without a norm"),
    "side by side": (
        block(lambda self, z: z + self.mix(self.norm1(z)) + self.mlp(self.norm2(z))),
        "stand side by side",
    ),
    "attention lost": (
        block(lambda self, z: z + self.mlp(self.norm2(z + self.mix(self.norm1(z))))),
        "starts again from the block's input",
    ),
    "MLP first": (block(mlp_first), "The MLP comes first"),
    "MLP unused": (block(lambda self, z: z + self.mix(self.norm1(z))), "The MLP is there"),
    "one norm at both places, the other unused": (block(one_norm), "One LayerNorm stands at both places"),
    "one norm shared": (
        block(change=lambda self, D, h, M: setattr(self, "norm2", self.norm1)),
        "One LayerNorm stands at both places",
    ),
    "eps 1e-5": (block(change=replace(norm1=other_eps, norm2=other_eps)), "eps of your LayerNorm is 1e-05"),
    "eps 1e-5 in one norm": (block(change=replace(norm1=other_eps)), "eps of your LayerNorm is 1e-05"),
    "eps 1e-5 by hand": (
        block(change=replace(norm1=lambda D, h, M: HandNorm(D, 1e-5), norm2=lambda D, h, M: HandNorm(D, 1e-5))),
        "eps of your LayerNorm is 1e-5",
    ),
    "relu": (
        block(change=replace(mlp=lambda D, h, M: nn.Sequential(nn.Linear(D, M), nn.ReLU(), nn.Linear(M, D)))),
        "In the MLP: The activation is ReLU",
    ),
    "tanh-GELU": (
        block(change=replace(mlp=lambda D, h, M: nn.Sequential(nn.Linear(D, M), nn.GELU("tanh"), nn.Linear(M, D)))),
        "In the MLP: The activation is GELU's tanh approximation",
    ),
    "mlp_dim ignored": (
        block(change=replace(mlp=lambda D, h, M: Backwards(D, 4 * D))),
        "80 numbers, 4 times embed_dim; mlp_dim = 33",
    ),
    "mlp_dim written into the code": (
        block(change=replace(mlp=lambda D, h, M: Backwards(D, 33))),
        "not at another size. The hidden layer of the MLP has 33 numbers; mlp_dim = 17",
    ),
    "batch_first forgotten": (
        block(change=replace(attention=lambda D, h, M: nn.MultiheadAttention(D, h))),
        "In the attention: Attention runs across the batch",
    ),
    "attention with its own residual": (
        block(mix=lambda self, y: y + self.attention(y, y, y)[0]),
        "the block adds it again",
    ),
    "one head": (
        block(change=replace(attention=lambda D, h, M: nn.MultiheadAttention(D, 1, batch_first=True))),
        "There is 1 head here",
    ),
    "dropped twice": (
        block(
            dropped_twice,
            lambda self, D, h, M: (self.mlp.append(nn.Dropout(0.1)), setattr(self, "drop", nn.Dropout(0.1))),
        ),
        "dropped twice",
    ),
    "MLP in a list": (
        block(
            lambda self, z: (y := z + self.mix(self.norm1(z))) + self.layers[0](self.norm2(y)),
            lambda self, D, h, M: (setattr(self, "layers", [self.mlp]), delattr(self, "mlp")),
        ),
        "The layers in `layers` are in a plain Python list",
    ),
    "pairs of layers in a list": (
        block(
            change=lambda self, D, h, M: (setattr(self, "pairs", [(self.mlp, 1)]), delattr(self, "mlp")),
            function=lambda self, z: (y := z + self.mix(self.norm1(z))) + self.pairs[0][0](self.norm2(y)),
        ),
        "The layers in `pairs` are in a plain Python list",
    ),
    "batch norm": (
        block(change=replace(norm1=lambda D, h, M: Turned(D), norm2=lambda D, h, M: Turned(D))),
        "Its norm is a BatchNorm",
    ),
    "a norm too many": (block(change=replace(norm3=lambda D, h, M: nn.LayerNorm(D))), "Never used: `norm3.weight`"),
    "attention without gradient": (
        block(lambda self, z: (y := z + self.mix(self.norm1(z)).detach()) + self.mlp(self.norm2(y))),
        "gradient",
    ),
}


@pytest.mark.parametrize("answer", RIGHT_BLOCK.values(), ids=RIGHT_BLOCK)
def test_right_block_passes(answer):
    assert_passes(check.encoder_block, answer)


@pytest.mark.parametrize(("answer", "phrase"), WRONG_BLOCK.values(), ids=WRONG_BLOCK)
def test_wrong_block_is_told_what_is_wrong(answer, phrase):
    assert_wrong(check.encoder_block, answer, phrase)


@pytest.mark.parametrize(
    ("function", "phrase"),
    [
        (lambda self, z: Block.forward(self, z.sin()), "Already with zeros in all weights of attention"),
        (lambda self, z: Block.forward(self, z) / 2, "the block must give back its input"),
        (
            lambda self, z: (y := z + self.mix(self.norm1(z)).tanh()) + self.mlp(self.norm2(y)),
            "With zeros in all weights of attention the block is right; with attention",
        ),
    ],
)
def test_an_unknown_mistake_in_the_block_is_narrowed_down(function, phrase):
    verdict = assert_wrong(check.encoder_block, block(function), phrase)
    assert "3133 parameters, as many as it should" in verdict.message
    assert "Put the package's `SelfAttention` or `Mlp` in place" in verdict.hint


# Stubs


def test_untouched_stubs_are_not_attempted():
    for answer in stubs("x, weight, bias, eps").values():
        assert_not_attempted(check.layer_norm, answer)
    for exercise, arguments in (
        (check.mlp, "embed_dim, mlp_dim"),
        (check.encoder_block, "embed_dim, num_heads, mlp_dim"),
    ):
        source = f"class Mine(nn.Module):\n    def __init__(self, {arguments}):\n        super().__init__()\n"
        answer = cell(source + "    def forward(self, z):\n        raise NotImplementedError")["Mine"]
        assert_not_attempted(exercise, answer)
