"""Lesson 04: LayerNorm, the MLP, the encoder block."""

from __future__ import annotations

import inspect
import re
from functools import partial
from unittest.mock import patch

import torch
from torch import nn

from ..attention import SelfAttention
from ..encoder import Mlp
from .exercise import Exercise, noise
from .lesson_03_attention import self_attention
from .modules import CompositeExercise, ModuleExercise
from .running import Wrong, same


def my_layer_norm(x, weight, bias, eps):
    mean = x.mean(dim=-1, keepdim=True)  # (B, T, 1)
    variance = x.var(dim=-1, correction=0, keepdim=True)  # (B, T, 1)
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


def by_hand(function):
    """Raise Wrong if the function leaves the work to PyTorch: `F.layer_norm` calls `torch.layer_norm`."""
    with patch.object(torch, "layer_norm", wraps=torch.layer_norm) as torchs:
        function(*layer_norm.trials[0])
    if torchs.called:
        raise Wrong("The values are right, and they are PyTorch's own: the task is to do without `F.layer_norm`.")


TOKENS = noise(3, 4, 6)
TOKENS[1, 2] = 2  # its values are all equal: only eps keeps it finite
TOKENS[2, 1] *= 1e-3  # so small that eps shows

AVERAGE, NORMED = "x.mean(dim=-1, keepdim=True)", "(x - mean) / torch.sqrt(variance + eps)"
VARIANCE, SQUARES = "x.var(dim=-1, correction=0, keepdim=True)", "(x - mean).square()"
ROOT, AFFINE = "torch.sqrt(variance + eps)", "* weight + bias"
UNBIASED, SUM = (", correction=0", ""), (AVERAGE, "x.sum(dim=-1, keepdim=True)")
AXES = {
    "the tokens": "1",
    "the batch": "0",
    "batch and tokens (batch norm)": "(0, 1)",
    "all values of an image": "(1, 2)",
    "all values of the batch": "(0, 1, 2)",
}

layer_norm = Exercise(
    my_layer_norm,
    task="`fn(x, weight, bias, eps)`: LayerNorm over the last axis, (B, T, D) → (B, T, D).",
    trials=[
        (TOKENS, noise(6), noise(6, seed=1), 1e-2),
        (0.05 * noise(2, 3, 7) + 0.3, noise(7), noise(7, seed=1), 1e-4),
    ],
    slips={
        "The variance divides by D - 1, not by D.": UNBIASED,
        "Your variance is the mean of the squares: the mean is not subtracted first.":
            (VARIANCE, "x.square().mean(dim=-1, keepdim=True)"),
        "Your variance is a sum of squared distances: it is not divided by D.":
            (VARIANCE, f"{SQUARES}.sum(dim=-1, keepdim=True)"),
        "Mean and variance are sums: neither is divided by D.":
            (*SUM, VARIANCE, f"{SQUARES}.sum(dim=-1, keepdim=True)"),
        "Your mean is the sum of a token's values: it is not divided by D.":
            [SUM, (*SUM, VARIANCE, f"{SQUARES}.mean(dim=-1, keepdim=True)")],
        "The mean is not subtracted.": ("(x - mean)", "x"),
        "The mean is not subtracted: this is RMSNorm.":
            ("(x - mean)", "x", VARIANCE, "x.square().mean(dim=-1, keepdim=True)"),
        **{f"You normalise over {what}, not over the D values of each token.": ("dim=-1", f"dim={dim}")
           for what, dim in AXES.items()},
        **{f"Two things: you normalise over {what}, not over the D values of each token, and the variance divides by "
           "one less than their number.": (*UNBIASED, "dim=-1", f"dim={dim}") for what, dim in AXES.items()},
        **{f"Your mean is over {what}, your variance over the D values of each token. Both are over these D values.":
               ("mean(dim=-1", f"mean(dim={dim}") for what, dim in AXES.items()},
        **{f"Your variance is over {what}, your mean over the D values of each token. Both are over these D values.":
               ("var(dim=-1", f"var(dim={dim}") for what, dim in AXES.items()},
        "Without `keepdim=True` a mean is (B, T), and does not fit beside x, (B, T, D).": (", keepdim=True", ""),
        "`bias` is not added.": (" + bias", ""),
        "`weight` is not used.": (" * weight", ""),
        "`weight` and `bias` are not used.": (" * weight + bias", ""),
        "`bias` is added before `weight` multiplies.":
            (f"return {NORMED} {AFFINE}", f"return ({NORMED} + bias) * weight"),
        "`weight` and `bias` are swapped: `bias` multiplies, `weight` is added.": (AFFINE, "* bias + weight"),
        "eps is added to the standard deviation, outside the root.": (ROOT, "(variance.sqrt() + eps)"),
        "Two things: the variance divides by D - 1, and eps is outside the root.":
            (*UNBIASED, ROOT, "(variance.sqrt() + eps)"),
        "You divide by the variance, not by its root.": (ROOT, "(variance + eps)"),
        "eps is a lower limit of the variance here. It must be added to it.": (ROOT, "variance.clamp(min=eps).sqrt()"),
        "eps is squared before it is added.": ("+ eps", "+ eps**2"),
        "eps has no effect: add it to the variance, under the root. (Added to x itself it cancels.) Without it a token "
        "of equal values is divided by 0.": [("+ eps", ""), ("x.var", "(x + eps).var", "+ eps", "")],
        "Two things: the variance divides by D - 1, and eps has no effect: add it to the variance, under the root. "
        "(Added to x itself it cancels.)":
            [(*UNBIASED, "+ eps", ""), (*UNBIASED, "x.var", "(x + eps).var", "+ eps", "")],
        **{f"eps is always {fixed}, whatever the argument says.": ("+ eps", f"+ {fixed}")
           for fixed in ("1e-5", "1e-6", "1e-8", "1e-12")},
        "Only the mean is divided by the root: division comes before subtraction. Write `(x - mean) / …`.":
            [("(x - mean) /", "(x - mean /", ROOT, f"{ROOT})"), ("(x - mean) /", "x - mean /")],
    },
    hint="Take mean and variance of each token over its D values (`dim=-1, keepdim=True, correction=0`). Subtract the "
    "mean, divide by √(variance + eps), multiply by `weight`, add `bias`.",
    shape="(B, T, D)",
    more=by_hand,
)  # fmt: skip


class MyMlp(nn.Module):
    def __init__(self, embed_dim, mlp_dim):
        super().__init__()
        self.expand = nn.Linear(embed_dim, mlp_dim)
        self.activation = nn.GELU()
        self.contract = nn.Linear(mlp_dim, embed_dim)

    def forward(self, tokens):
        return self.contract(self.activation(self.expand(tokens)))


MLP = "self.contract(self.activation(self.expand(tokens)))"
MLP_SLIPS = {
    **{f"The activation is {name}, not GELU.": ("nn.GELU()", code) for name, code in {
        "ReLU": "F.relu", "SiLU": "F.silu", "tanh": "torch.tanh", "the sigmoid": "torch.sigmoid",
        "LeakyReLU": "F.leaky_relu", "ELU": "F.elu",
        "x·sigmoid(1.702x), a rough GELU": "lambda x: x * torch.sigmoid(1.702 * x)"}.items()},
    "The activation is GELU's tanh approximation, not GELU itself.": ("nn.GELU()", "nn.GELU('tanh')"),
    "There is no activation between the two layers: together they are one linear map.": ("nn.GELU()", "lambda x: x"),
    "Your GELU divides erf(x) by √2. The √2 belongs inside: erf(x/√2).":
        ("nn.GELU()", "lambda x: x * (1 + x.erf() / 2**0.5) / 2"),
    "Your GELU takes erf(x), not erf(x/√2): the √2 is missing.": ("nn.GELU()", "lambda x: x * (1 + x.erf()) / 2"),
    "Your GELU takes ½·erf(x/√2) for Φ(x): the 1 is missing.": ("nn.GELU()", "lambda x: x * (x / 2**0.5).erf() / 2"),
    "Your GELU is twice as large as it should be: the ½ is missing.": ("nn.GELU()", "lambda x: 2 * F.gelu(x)"),
    "There is a second activation, after the last layer.": (MLP, f"self.activation({MLP})"),
    "The activation comes after the second layer.": (MLP, "self.activation(self.contract(self.expand(tokens)))"),
    "There is an activation before the first layer too.": ("(tokens))", "(self.activation(tokens)))"),
    "The activation comes before the first layer.": (MLP, "self.contract(self.expand(self.activation(tokens)))"),
    "The input is added to the result: a residual connection, as in the block (Eq. 3).": (MLP, f"tokens + {MLP}"),
    "There is a LayerNorm inside your MLP: it is the encoder block's (Eq. 3).":
        ("self.activation = ", "self.norm = nn.LayerNorm(embed_dim)\n        self.activation = ",
         "(tokens))", "(self.norm(tokens)))"),
    **{f"The hidden layer has {n}·D values. It must have `mlp_dim`.": ("super", f"mlp_dim = {n} * embed_dim; super")
       for n in (1, 2, 3, 4)},
}  # fmt: skip


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
        raise Wrong(
            "In training the same values are dropped twice: one dropout comes straight after another. One after each "
            "linear layer is enough: in the block, or inside attention and MLP, not both."
        )
    return "" if repeats else DROPOUT


DROPOUT = (
    "One thing for later: in training your module drops values at random, and nobody gave it a rate. Make the rate an "
    "argument that is 0 by default: lesson 05 asks for a model without dropout."
)

mlp = ModuleExercise(
    MyMlp,
    task="`cls(embed_dim, mlp_dim)`, an nn.Module: two linear layers and a GELU, (B, T, D) → (B, T, D).",
    trials=[((14, 33), noise(2, 5, 14)), ((9, 20), noise(3, 4, 9))],
    slips=MLP_SLIPS,
    hint="`nn.Linear(embed_dim, mlp_dim)`, `nn.GELU()`, `nn.Linear(mlp_dim, embed_dim)`, one after another.",
    shape="(B, T, D)",
    more=lambda cls: in_training(cls(14, 33).eval(), noise(2, 5, 14)),
)


class Norm(nn.LayerNorm):
    """The norm of a block, a part that is judged for itself."""

    def __init__(self, embed_dim):
        super().__init__(embed_dim, eps=1e-6)


class BatchNorm(nn.BatchNorm1d):
    def forward(self, x):
        return super().forward(x.mT).mT


NORM = ModuleExercise(
    Norm,
    task="a LayerNorm",
    hint="",
    trials=[((D,), 0.01 * noise(2, 5, D)) for D in (20, 10)],  # so small that eps shows
    slips={
        "All is right but one number: the eps of your LayerNorm is 1e-05. Write `nn.LayerNorm(embed_dim, eps=1e-6)`, "
        "as in the paper's code: PyTorch's default is 1e-5.": ("1e-6", "1e-5"),
        "This is a BatchNorm, over the batch. A LayerNorm is needed, over each token's D values.": BatchNorm,
        "This is an RMSNorm. A LayerNorm subtracts the mean as well, and has a bias.": [
            nn.RMSNorm,
            partial(nn.RMSNorm, eps=1e-6),
        ],
        "There is no LayerNorm: it has a weight and a bias of D values each.": [
            nn.Identity,
            partial(nn.LayerNorm, elementwise_affine=False),
            partial(nn.LayerNorm, eps=1e-6, elementwise_affine=False),
        ],
    },
    shape="(B, T, D)",
)


class MyEncoderBlock(nn.Module):
    def __init__(self, embed_dim, num_heads, mlp_dim):
        super().__init__()
        self.norm1 = nn.LayerNorm(embed_dim, eps=1e-6)
        self.attention = SelfAttention(embed_dim, num_heads)
        self.norm2 = nn.LayerNorm(embed_dim, eps=1e-6)
        self.mlp = Mlp(embed_dim, mlp_dim)

    def forward(self, z):
        z = z + self.attention(self.norm1(z))  # Eq. 2
        return z + self.mlp(self.norm2(z))  # Eq. 3


EQUATIONS = inspect.getsource(MyEncoderBlock.forward).partition("\n")[2].strip()
PARTS = {"a": "self.attention", "m": "self.mlp", "n": "self.norm1", "o": "self.norm2"}


def steps(first="z + a(n(z))", second="z + m(o(z))"):
    """Edit Eqs. 2 and 3, written with `a` for attention, `m` for the MLP, `n` and `o` for their norms."""
    lines = f"z = {first}\n        return {second}"
    return EQUATIONS, re.sub(r"\b([amno])(?=\()", lambda name: PARTS[name[1]], lines)


encoder_block = CompositeExercise(
    MyEncoderBlock,
    task="`cls(embed_dim, num_heads, mlp_dim)`, an nn.Module: Eqs. 2 and 3, (B, T, D) → (B, T, D).",
    trials=[((20, 5, 33), noise(2, 7, 20)), ((12, 2, 17), noise(3, 5, 12))],
    parts={
        "norm1": (NORM, lambda D: (D, 5, 33)),
        "attention": (self_attention, lambda D, h: (D, h, 33)),
        "norm2": (NORM, lambda D: (D, 5, 33)),
        "mlp": (mlp, lambda D, M: (D, 1, M)),
    },
    slips={
        "Both residuals are missing, around attention and around the MLP.": steps("a(n(z))", "m(o(z))"),
        "Attention and MLP both get their input without a norm.": steps("z + a(z)", "z + m(z)"),
        "One residual goes around the whole block: attention and MLP need one each.": steps("z", "z + m(o(a(n(z))))"),
        "The MLP gets attention's result alone. It needs the sum, z + attention(norm1(z)).":
            steps("z", "z + a(n(z)) + m(o(a(n(z))))"),
        "The norm comes after the sum: post-norm, as in the first transformers.": steps("n(z + a(z))", "o(z + m(z))"),
        "Both residuals are taken from the normed input.": steps("n(z) + a(n(z))", "o(z) + m(o(z))"),
        "The residual around attention is taken from the normed input.": steps("n(z) + a(n(z))"),
        "The second sum starts from the normed input: what attention added is lost, and the stream is normed.":
            steps("n(z)", "z + m(o(z + a(z)))"),
        "The residual around the MLP is taken from the normed input.": steps(second="o(z) + m(o(z))"),
        "The sum around attention is normed: post-norm, but only there.": steps("n(z + a(z))"),
        "The sum around the MLP is normed: post-norm, but only there.": steps(second="o(z + m(z))"),
        "The block's output is normed. The sum itself is never normalised.":
            [steps(second="o(z + m(o(z)))"), steps(second="n(z + m(o(z)))")],
        "The residual around attention is missing.": steps("a(n(z))"),
        "The residual around the MLP is missing.": steps(second="m(o(z))"),
        "The norm comes after each branch, not before it.": steps("z + n(a(z))", "z + o(m(z))"),
        "Attention's norm comes after it, not before it.": steps("z + n(a(z))"),
        "Attention gets its input without a norm.": steps("z + a(z)"),
        "The MLP gets its input without a norm.": steps(second="z + m(z)"),
        "The MLP is there, and `forward` does not use it.": steps(second="z"),
        "Attention and MLP stand side by side: the MLP does not see what attention added.":
            steps("z", "z + a(n(z)) + m(o(z))"),
        "The second sum starts again from the block's input: what attention added is lost.":
            steps("z", "z + m(o(z + a(n(z))))"),
        "The MLP comes first, then attention: swap them.": steps("z + m(o(z))", "z + a(n(z))"),
        "One LayerNorm stands at both places, and Eqs. 2 and 3 have one each: `norm1` before the attention, `norm2` "
        "before the MLP.": steps(second="z + m(n(z))"),
        "The two norms are exchanged: `norm1` is attention's, `norm2` the MLP's.": steps("z + a(o(z))", "z + m(n(z))"),
        "The branches are subtracted. Eqs. 2 and 3 add them.": steps("z - a(n(z))", "z - m(o(z))"),
        "Attention's input is added inside it too: the block adds z, and nothing else does.":
            steps("z + n(z) + a(n(z))"),
    },
    hint="Two lines: `z = z + attention(norm1(z))`, then `z = z + mlp(norm2(z))`. Both norms are "
    "`nn.LayerNorm(embed_dim, eps=1e-6)`.",
    shape="(B, T, D)",
    more=lambda cls: in_training(cls(20, 5, 33).eval(), noise(2, 7, 20)),
    imports="from vit_tutorial import Mlp, SelfAttention",
)  # fmt: skip
