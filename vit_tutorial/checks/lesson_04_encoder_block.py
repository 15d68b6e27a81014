"""Lesson 04, the encoder block: for each exercise a solution, the judge, and the mistakes that it knows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import combinations

import torch
import torch.nn.functional as F
from torch import nn

from ..attention import SelfAttention
from ..encoder import Mlp
from . import references as ref
from .comparing import compare, known, random_tensor, replacing, same, within
from .exercise import exercise
from .lesson_03_attention import ATTENTION_MISTAKES
from .modules import LISTS, TokenTrial, Trial
from .reading_weights import EPS, Reading, block_problems, hidden_problem, layouts, read_block, read_mlp, sort_layers
from .references import BlockWeights, attention, block, mixed
from .running import Wrong, raise_first


def my_layer_norm(x, weight, bias, eps):
    mean = x.mean(dim=-1, keepdim=True)  # (B, T, 1)
    variance = x.var(dim=-1, correction=0, keepdim=True)  # (B, T, 1)
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias


@exercise(
    hint="Take mean and variance of each token over its D values (`dim=-1, keepdim=True, correction=0`). Subtract the "
    "mean, divide by √(variance + eps), multiply by `weight`, add `bias`.",
    solution=my_layer_norm,
)
def layer_norm(function):
    """`fn(x, weight, bias, eps)`: LayerNorm over the last axis, (B, T, D) → (B, T, D)."""
    # In float64, so that a way of computing the variance that loses digits is not taken for a wrong one.
    doubles = partial(random_tensor, dtype=torch.float64)
    first, small = doubles(3, 4, 6), 0.05 * doubles(2, 3, 7) + 0.3
    first[1, 2] = 2.0  # a token whose values are all equal: only eps keeps it finite
    first[2, 1] *= 1e-3  # a token so small that eps shows
    trials = [(x, doubles(x.shape[-1]), doubles(x.shape[-1], seed=1), eps) for x, eps in ((first, 1e-2), (small, 1e-4))]
    compare(function, norm_in_steps, trials, "(B, T, D)", NORM_MISTAKES)


def mean_square(x, mean, dim):
    return (x - mean).square().mean(dim, keepdim=True)


def by_root(y, variance, eps):
    return y / (variance + eps).sqrt()


def affine(y, w, b):
    return y * w + b


def norm_in_steps(
    x, w, b, eps, mean_over=-1, variance_over=-1, mean=torch.mean, variance=mean_square, divide=by_root, finish=affine
):
    m = mean(x, mean_over, keepdim=True)
    return finish(divide(x - m, variance(x, m, variance_over), eps), w, b)


AXES = {
    "the tokens": 1,
    "the batch": 0,
    "batch and tokens (batch norm)": (0, 1),
    "all values of an image": (1, 2),
    "all values of the batch": (0, 1, 2),
}
UNBIASED = {"variance": lambda x, m, dim: x.var(dim, keepdim=True)}
BIASED = {"variance": lambda x, m, dim: x.var(dim, correction=0, keepdim=True)}
SQUARES = {"variance": lambda x, m, dim: (x - m).square().sum(dim, keepdim=True)}
EPS_OUTSIDE = {"divide": lambda y, v, eps: y / (v.sqrt() + eps)}
NO_MEAN = {"mean": lambda x, dim, keepdim: torch.zeros_like(x)}
MEAN_DIVIDED = {**NO_MEAN, **BIASED, "divide": lambda x, v, eps: (x, by_root(x.mean(-1, keepdim=True), v, eps))}
SUM = {"mean": torch.sum}
NORM_MISTAKES = known(None, {
    "The variance divides by D - 1, not by D.": UNBIASED,
    "Your variance is the mean of the squares: the mean is not subtracted first.":
        {"variance": lambda x, m, dim: mean_square(x, 0, dim)},
    "Your variance is a sum of squared distances: it is not divided by D.": SQUARES,
    "Mean and variance are sums: neither is divided by D.": {**SUM, **SQUARES},
    "Two things: the variance divides by D - 1, and eps is outside the root.": {**UNBIASED, **EPS_OUTSIDE},
    "Each token loses its own mean, but there is one variance for all values of the batch.":
        {"variance": lambda x, m, dim: (x - x.mean()).square().mean()},
    "The mean is not subtracted.": {**NO_MEAN, **BIASED},
    "The mean is not subtracted: this is RMSNorm.": NO_MEAN,
    "Your mean is the sum of a token's values: it is not divided by D.": [{**SUM, **BIASED}, SUM],
    **{f"You normalise over {what}, not over the D values of each token.": {"mean_over": dim, "variance_over": dim}
       for what, dim in AXES.items()},
    **{f"Two things: you normalise over {what}, not over the D values of each token, and the variance divides by one "
       "less than their number.": {**UNBIASED, "mean_over": dim, "variance_over": dim} for what, dim in AXES.items()},
    **{f"Your mean is over {what}, and your variance over the D values of each token. Both are over these D values.":
        {**BIASED, "mean_over": dim} for what, dim in AXES.items()},
    **{f"Your variance is over {what}, and your mean over the D values of each token. Both are over these D values.":
        {**BIASED, "variance_over": dim} for what, dim in AXES.items()},
    "`bias` is not added.": {"finish": lambda y, w, b: y * w},
    "`weight` is not used.": {"finish": lambda y, w, b: y + b},
    "`weight` and `bias` are not used.": {"finish": lambda y, w, b: y},
    "`bias` is added before `weight` multiplies.": {"finish": lambda y, w, b: (y + b) * w},
    "`weight` and `bias` are swapped: `bias` multiplies, `weight` is added.": {"finish": lambda y, w, b: y * b + w},
    "eps is added to the standard deviation, outside the root.": EPS_OUTSIDE,
    "You divide by the variance, not by its root.": {"divide": lambda y, v, eps: y / (v + eps)},
    "eps is a lower limit of the variance here. It must be added to it.":
        {"divide": lambda y, v, eps: y / v.clamp(min=eps).sqrt()},
    "eps is squared before it is added.": {"divide": lambda y, v, eps: by_root(y, v, eps**2)},
    "eps is not used: a token of equal values gives nan.": {"divide": lambda y, v, eps: by_root(y, v, 0)},
    **{f"eps is always {fixed:g}, whatever the argument says.":
           {"divide": lambda y, v, eps, fixed=fixed: by_root(y, v, fixed)} for fixed in (1e-5, 1e-6, 1e-8, 1e-12)},
    "Only the mean is divided by the root: division comes before subtraction. Write `(x - mean) / …`.":
        [{**MEAN_DIVIDED, "finish": finish} for finish in (
            lambda y, w, b: (y[0] - y[1]) * w + b, lambda y, w, b: y[0] - y[1] * w + b)],
}, lambda steps: partial(norm_in_steps, **steps))  # fmt: skip


class MyMlp(nn.Module):
    def __init__(self, embed_dim, mlp_dim):
        super().__init__()
        self.expand = nn.Linear(embed_dim, mlp_dim)
        self.activation = nn.GELU()
        self.contract = nn.Linear(mlp_dim, embed_dim)

    def forward(self, tokens):
        return self.contract(self.activation(self.expand(tokens)))


@exercise(
    hint="`nn.Linear(embed_dim, mlp_dim)`, `nn.GELU()`, `nn.Linear(mlp_dim, embed_dim)`, one after another.",
    solution=MyMlp,
)
def mlp(cls):
    """`cls(embed_dim, mlp_dim)`, an nn.Module: two linear layers and a GELU, (B, T, D) → (B, T, D)."""
    first = MlpTrial(cls, 2, 5, 14, 33)
    order = first.find(MLP_ORDERS, MLP_MISTAKES, "But", "the MLP")
    first.confirm(order, lambda: MlpTrial(cls, 3, 4, 9, 20))
    return judge_dropout(first)


MLP_ORDERS = ((0, 1), (1, 0))  # which of the two layers comes first


class MlpTrial(TokenTrial):
    function = staticmethod(ref.mlp)
    hint = "Three steps, one after another: linear to mlp_dim, `nn.GELU()`, linear back to embed_dim. Nothing else."

    def __init__(self, cls: type, B: int, T: int, D: int, M: int):
        super().__init__(cls, random_tensor(B, T, D), embed_dim=D, mlp_dim=M)
        self.count, found = 2 * D * M + M + D, len(self.layers)
        raise_first([
            (self.inventory.norms, "There is a LayerNorm inside your MLP: it is the encoder block's (Eq. 3)."),
            (found != 2, f"An MLP has two linear layers; yours has {found} among its parameters.", LISTS),
        ])  # fmt: skip
        weights = filter(None, map(self.read, MLP_ORDERS))
        raise_first(hidden_problem(len(expand.weight), M, D) for expand, _ in weights)

    def read(self, order: tuple[int, int]) -> ref.Mlp | None:
        return read_mlp(*(self.layers[i] for i in order), self.args[0])

    def doubts(self, readings: list) -> str:
        alone = same(self.run(self.x[:, :1]), self.out[:, :1])
        return "" if alone else "A token's result depends on the other tokens: an MLP works on each token alone."


def judge_dropout(trial: Trial) -> str | None:
    """Return a remark on a module that drops values in training; raise Wrong if it drops the same values twice."""
    trial.module.train()
    repeats = all(same(trial.run(), trial.out) for _ in range(10))
    drops = [(x, y) for module, x, y in trial.calls() if isinstance(module, nn.Dropout) and module.p > 0]
    trial.module.eval()
    if any(x is dropped for n, (x, _) in enumerate(drops) for _, dropped in drops[:n]):
        raise Wrong(
            "In training the same values are dropped twice: one dropout comes straight after another.",
            "One dropout after each linear layer is enough: in the block, or inside attention and MLP, not both.",
        )
    return None if repeats else DROPOUT


DROPOUT = (
    "One thing for later: in training your module drops values at random, and nobody gave it a rate. Make the rate an "
    "argument that is 0 by default: lesson 05 asks for a model without dropout."
)
MLP_MISTAKES = [
    *replacing(ref.mlp, "activation", "GELU(x) = x·Φ(x), with Φ(x) = ½·(1 + erf(x/√2)): `nn.GELU()` as it is.", {
        **{f"The activation is {name}, not GELU.": function for name, function in {
            "ReLU": F.relu, "SiLU": F.silu, "tanh": torch.tanh, "the sigmoid": torch.sigmoid,
            "LeakyReLU": F.leaky_relu, "ELU": F.elu,
            "x·sigmoid(1.702x), a rough GELU": lambda x: x * torch.sigmoid(1.702 * x)}.items()},
        "The activation is GELU's tanh approximation, not GELU itself.": partial(F.gelu, approximate="tanh"),
        "There is no activation between the two layers: together they are one linear map.": lambda x: x,
        "Your GELU divides erf(x) by √2. The √2 belongs inside: erf(x/√2).": lambda x: x * (1 + x.erf() / 2**0.5) / 2,
        "Your GELU takes erf(x), not erf(x/√2): the √2 is missing.": lambda x: x * (1 + x.erf()) / 2,
        "Your GELU takes ½·erf(x/√2) for Φ(x): the 1 is missing.": lambda x: x * (x / 2**0.5).erf() / 2,
        "Your GELU is twice as large as it should be: the ½ is missing.": lambda x: 2 * F.gelu(x)}),
    *known(None, {
        "There is a second activation, after the last layer.": lambda w, x: F.gelu(ref.mlp(w, x)),
        "The activation comes after the second layer.": lambda w, x: F.gelu(ref.mlp(w, x, lambda y: y)),
        "There is an activation before the first layer too.": lambda w, x: ref.mlp(w, F.gelu(x)),
        "The activation comes before the first layer.": lambda w, x: ref.mlp(w, F.gelu(x), lambda y: y),
        "The input is added to the result: a residual connection, as in the block (Eq. 3).":
            lambda w, x: x + ref.mlp(w, x)}),
]  # fmt: skip


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


@exercise(
    hint="Two lines: `z = z + attention(norm1(z))`, then `z = z + mlp(norm2(z))`. Both norms are "
    "`nn.LayerNorm(embed_dim, eps=1e-6)`.",
    solution=MyEncoderBlock,
)
def encoder_block(cls):
    """`cls(embed_dim, num_heads, mlp_dim)`, an nn.Module: Eqs. 2 and 3, (B, T, D) → (B, T, D)."""
    first = BlockTrial(cls, 2, 7, 20, 5, 33)
    ways = list(layouts(first.parts.attention, *first.args[:2]))
    usual = [Reading(norms, layout=way) for norms in NORM_ORDERS for way in ways if way.usual]
    first.recognise(usual, DOUBLE_MISTAKES)
    # First with zeros in attention: only the order of the norms is open, and the sums around it show.
    with first.silenced(first.parts.attention):
        when = "Already with zeros in all weights of attention"
        order = first.find([Reading(norms) for norms in NORM_ORDERS], STRUCTURE_MISTAKES, when, "Eqs. 2 and 3")
    # Then with attention at work: the layout of its weights is open, and which norm is the first.
    when = "With zeros in all weights of attention the block is right; with attention"
    readings = [Reading(norms, layout=way) for norms in NORM_ORDERS if norms[1] == order.norms[1] for way in ways]
    usual = [reading for reading in usual if reading.norms == order.norms]
    reading = first.find(readings, MIXING_MISTAKES, when, "Eq. 2", usual)
    raise_first(block_problems(first.read(reading)))
    first.confirm(reading, lambda: BlockTrial(cls, 3, 5, 12, 2, 17), MIXING_MISTAKES)
    return judge_dropout(first)


NORM_ORDERS = ((0, 1), (1, 0), (0, 0), (1, 1))  # which of the norms comes first and which second
RESIDUAL = "Two lines: `z = z + attention(norm1(z))`, then `z = z + mlp(norm2(z))`. The sum itself is never normalised."


class BlockTrial(TokenTrial):
    function = staticmethod(block)
    hint = f"{RESIDUAL} Put the package's `SelfAttention` or `Mlp` in place of your own: does it pass then?"

    def __init__(self, cls: type, B: int, T: int, D: int, heads: int, M: int):
        small = 0.05 * random_tensor(B, T, D)  # so that eps shows
        super().__init__(cls, small, embed_dim=D, num_heads=heads, mlp_dim=M)
        self.count = 4 * (D * D + D) + 2 * D * M + M + D + 4 * D
        self.parts = sort_layers(self.layers, self.inventory.norms, D, heads)
        expand, contract = self.parts.expand, self.parts.contract
        raise_first([
            (len(expand) != 1 or len(contract) != 1, "An MLP is two linear layers, D → mlp_dim → D. Among the "
             f"parameters there are {len(expand)} of the first kind and {len(contract)} of the second; 1 of each were "
             "expected.", LISTS),
            *(hidden_problem(layer.sizes[1], M, D) for layer in contract),
            (not self.parts.attention, "There are no parameters of an attention layer.", LISTS),
        ])  # fmt: skip

    def read(self, reading: Reading) -> BlockWeights | None:
        return read_block(self.parts, reading, *self.args[:2])

    def doubts(self, readings: list) -> str:
        with self.silenced([*self.parts.attention, *self.parts.expand, *self.parts.contract]):
            doubts = [] if self.agrees(self.x) else [IDENTITY]
        if any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in self.module.modules()):
            doubts += ["Its norm is a BatchNorm, over the batch: a LayerNorm is needed, over each token's D values."]
        elif (found := len(self.parts.norms)) != 2:
            doubts += [f"It has {found} LayerNorm{'s'[: found != 1]}; two are needed."]
        return " ".join(doubts)


IDENTITY = (
    "When attention and MLP both return zero, the block must return its input: z + 0, then z + 0. Yours does not."
)


def written(formula: Callable, mlp: Callable = ref.mlp) -> Callable:
    """Return the block that computes `formula` of its input, attention `a`, the MLP `m` and their norms `n` and `o`."""
    return lambda w, z: formula(z, partial(mixed, w), partial(mlp, w.mlp), w.norm1, w.norm2)


def unnormed(*which: int) -> Callable:
    """Return the block in which those of q, k and v in `which` come from its input, the others from the norm."""

    def formula(z, a, m, n, o):
        inputs = [z if i in which else n(z) for i in range(3)]
        return (y := z + a(z, partial(attention, inputs=inputs))) + m(o(y))

    return written(formula)


def post_norm(z, a, m, n, o):
    return o((y := n(z + a(z))) + m(y))


def torch_eps(w, z):
    norms = (norm._replace(eps=1e-5) if norm.eps is None else norm for norm in (w.norm1, w.norm2))
    return block(BlockWeights(*norms, *w[2:]), z)


# Two mistakes at once, of which one hides the other while attention is silenced.
DOUBLE_MISTAKES = known(RESIDUAL, {
    "Both residuals are missing, around attention and around the MLP.": lambda z, a, m, n, o: m(o(a(n(z)))),
    "Attention and MLP both get their input without a norm.": lambda z, a, m, n, o: (y := z + a(z)) + m(y),
    "One residual goes around the whole block: attention and MLP need one each.":
        lambda z, a, m, n, o: z + m(o(a(n(z)))),
    "The MLP gets attention's result alone. It needs the sum, z + attention(norm1(z)).":
        lambda z, a, m, n, o: z + (x := a(n(z))) + m(o(x)),
}, written)  # fmt: skip

# What can be told while attention is silenced.
STRUCTURE_MISTAKES = [
    *known(f"{RESIDUAL} {IDENTITY}", {
        "The norm comes after the sum: post-norm, as in the first transformers.": post_norm,
        "Both residuals are taken from the normed input.": lambda z, a, m, n, o: (y := o((x := n(z)) + a(x))) + m(y),
        "The residual around attention is taken from the normed input, or its sum is normed.":
            lambda z, a, m, n, o: (y := (x := n(z)) + a(x)) + m(o(y)),
        "The sum around the MLP is normed: post-norm, but only there.":
            lambda z, a, m, n, o: o((y := z + a(n(z))) + m(y)),
        "The residual around the MLP is taken from the normed input.":
            lambda z, a, m, n, o: (y := o(z + a(n(z)))) + m(y),
        "The residual around attention is missing.": lambda z, a, m, n, o: (y := a(n(z))) + m(o(y)),
        "The residual around the MLP is missing.": lambda z, a, m, n, o: m(o(z + a(n(z)))),
    }, written),
    *known(RESIDUAL, {
        "The norm comes after each branch, not before it.": lambda z, a, m, n, o: (y := z + n(a(z))) + o(m(y)),
        "The MLP gets its input without a norm.": lambda z, a, m, n, o: (y := z + a(n(z))) + m(y),
        "Your attention adds its input to its result, and the block adds it again.":
            lambda z, a, m, n, o: (y := z + (x := n(z)) + a(x)) + m(o(y)),
        "The MLP is there, and `forward` does not use it.": lambda z, a, m, n, o: z + a(n(z)),
    }, written),
    *known('With that layer: `norm_first=True, activation="gelu", batch_first=True, layer_norm_eps=1e-6`.', {
        "Two things: the norm comes after the sum (post-norm), and the activation is ReLU. Both are defaults of "
        "`nn.TransformerEncoderLayer`.": written(post_norm, partial(ref.mlp, activation=F.relu))}),
    *known(EPS, {"The eps of your LayerNorm is 1e-5.": torch_eps}),
    *within(block, "mlp", "In the MLP: ", "`check.mlp` judges it alone.", MLP_MISTAKES),
]  # fmt: skip

# What can be told only once attention is at work.
QKV = ("queries", "keys", "values")
MIXING_MISTAKES = [
    *known(RESIDUAL, {
        "Attention gets its input without a norm.": lambda z, a, m, n, o: (y := z + a(z)) + m(o(y)),
        "Attention and MLP stand side by side: the MLP does not see what attention added.":
            lambda z, a, m, n, o: z + a(n(z)) + m(o(z)),
        "The second sum starts again from the block's input: what attention added is lost.":
            lambda z, a, m, n, o: z + m(o(z + a(n(z)))),
        "The MLP comes first, then attention: swap them.": lambda z, a, m, n, o: (y := z + m(o(z))) + a(n(y)),
    }, written),
    *known("Normalise once: `y = norm1(z)`, then `attention(y, y, y)`.", {
        f"Only the {' and '.join(QKV[i] for i in which)} come from the input without a norm.": unnormed(*which)
        for count in (1, 2) for which in combinations(range(3), count)}),
    *within(block, "attend", "In the attention: ", "`check.self_attention` judges it alone.", ATTENTION_MISTAKES),
]  # fmt: skip
