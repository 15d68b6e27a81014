"""Lesson 04, the encoder block: for each exercise a solution, the judge, and the mistakes that it knows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.modules.module import register_module_forward_hook

from ..attention import SelfAttention
from ..encoder import Mlp
from .comparing import Mistake, compare, mistakes_in, random_tensor, same
from .exercise import exercise
from .lesson_03_attention import ATTENTION_MISTAKES
from .modules import LISTS, Layer, Search, Trial, paired
from .reading_weights import (
    EPS,
    NORM_ORDERS,
    Parts,
    Reading,
    check_block_parts,
    check_hidden,
    complain_about_block,
    layouts,
    mlp_parameters,
    read_block,
    read_mlp,
    silent_parameters,
    sort_layers,
    usual_layouts,
)
from .references import BlockWeights, MlpWeights, attention, block, mixed, normed, reference_mlp
from .running import Wrong

# LayerNorm ------------------------------------------------------------------------------------------------------------


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


def scaled(y, weight, bias):
    return y * weight + bias


def norm_in_steps(x, w, b, eps, *, dim=-1, mean=torch.mean, variance=mean_square, divide=by_root, finish=scaled):
    m = mean(x, dim, keepdim=True)
    return finish(divide(x - m, variance(x, m, dim), eps), w, b)


def no_mean(x, dim, keepdim):
    return torch.zeros_like(x)


def variance_of(correction):
    return {"variance": lambda x, m, dim: x.var(dim, correction=correction, keepdim=True)}


wrong_norm = mistakes_in(norm_in_steps)
CENTRE = "First `x - mean`, then divide. The mean is `x.mean(-1, keepdim=True)`."
VARIANCE = "The variance is the mean of the squared distances from the mean: `x.var(-1, correction=0)` divides by D."
INSIDE = "Divide by `torch.sqrt(variance + eps)`."
TOKEN = "Each token is normalised by itself, over its D values: `dim=-1`, with `keepdim=True`."
EPS_OUTSIDE = {"divide": lambda y, v, eps: y / (v.sqrt() + eps)}
SUM_OF_SQUARES = {"variance": lambda x, m, dim: (x - m).square().sum(dim, keepdim=True)}
NORM_MISTAKES = [
    wrong_norm("The variance divides by D - 1, not by D.", VARIANCE, **variance_of(1)),
    wrong_norm("eps is added to the standard deviation, outside the root.", INSIDE, **EPS_OUTSIDE),
    wrong_norm("Two things: the variance divides by D - 1, and eps is outside the root.", f"{VARIANCE} {INSIDE}",
               **variance_of(1), **EPS_OUTSIDE),
    wrong_norm("You divide by the variance, not by its root.", INSIDE, divide=lambda y, v, eps: y / (v + eps)),
    wrong_norm("Your variance is the mean of the squares: the mean is not subtracted first.", VARIANCE,
               variance=lambda x, m, dim: mean_square(x, 0, dim)),
    *(wrong_norm(f"You normalise over {what}, not over the D values of each token.", TOKEN, dim=dim) for dim, what in (
        (1, "the tokens"), (0, "the batch"), ((0, 1), "batch and tokens, which is batch norm"),
        ((1, 2), "all values of an image"), ((0, 1, 2), "all values of the batch"))),
    wrong_norm("The mean is not subtracted.", CENTRE, mean=no_mean, **variance_of(0)),
    wrong_norm("The mean is not subtracted: this is RMSNorm.", CENTRE, mean=no_mean),
    *(wrong_norm("Your mean is the sum of a token's values: it is not divided by D.", CENTRE, mean=torch.sum, **steps)
      for steps in ({}, variance_of(0))),
    wrong_norm("Your variance is a sum of squared distances: it is not divided by D.", VARIANCE, **SUM_OF_SQUARES),
    wrong_norm("Mean and variance are sums: neither is divided by D.", VARIANCE, mean=torch.sum, **SUM_OF_SQUARES),
    *(wrong_norm(message, "The last step is `normalised * weight + bias`.", finish=finish) for message, finish in (
        ("`bias` is not added.", lambda y, w, b: y * w),
        ("`weight` is not used.", lambda y, w, b: y + b),
        ("`weight` and `bias` are not used.", lambda y, w, b: y),
        ("`bias` is added before `weight` multiplies.", lambda y, w, b: (y + b) * w),
        ("`weight` and `bias` are swapped: `bias` multiplies, and `weight` is added.", lambda y, w, b: y * b + w))),
    wrong_norm("eps is squared before it is added.", INSIDE, divide=lambda y, v, eps: by_root(y, v, eps**2)),
    wrong_norm("eps is not used: a token whose values are all equal gives nan.", INSIDE,
               divide=lambda y, v, eps: by_root(y, v, 0)),
    *(wrong_norm(f"eps is always {fixed:g}, whatever the argument says.", INSIDE,
                 divide=lambda y, v, eps, fixed=fixed: by_root(y, v, fixed)) for fixed in (1e-5, 1e-6, 1e-8, 1e-12)),
]  # fmt: skip


# The MLP --------------------------------------------------------------------------------------------------------------


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
    D, M = 14, 33
    first, count = mlp_trial(cls, 2, 5, D, M), 2 * D * M + M + D
    hint = "Three steps, one after another: linear to mlp_dim, `nn.GELU()`, linear back to embed_dim. Nothing else."
    search = Search(first, reference_mlp, read_mlp_trial, count, hint)
    order = search.find(MLP_ORDERS, MLP_MISTAKES, "But", "the MLP", lambda: mixing(first))
    search.confirm(order, lambda: mlp_trial(cls, 3, 4, 9, 20))
    return judge_dropout(first)


MLP_ORDERS = ((0, 1), (1, 0))  # which of the two layers comes first


def mlp_trial(cls: type, B: int, T: int, D: int, M: int) -> Trial:
    """Return a trial that has the parts of an MLP: two layers with mlp_dim values between them, and no norm."""
    trial = token_trial(cls, random_tensor(B, T, D), embed_dim=D, mlp_dim=M)
    if trial.parts.norms:
        raise Wrong("There is a LayerNorm inside your MLP.", "The norm is the encoder block's work (Eq. 3).")
    if (found := len(layers_of(trial))) != 2:
        raise Wrong(
            f"An MLP has two linear layers; among your parameters there {'is' if found == 1 else 'are'} {found}.", LISTS
        )
    for weights in filter(None, (read_mlp_trial(trial, order) for order in MLP_ORDERS)):
        check_hidden(len(weights.expand), M, D)
    return trial


def token_trial(cls: type, tokens: torch.Tensor, **sizes: int) -> Trial:
    words = ", ".join(f"{name} {size}" for name, size in sizes.items())
    words += f", for {tokens.shape[0]} images of {tokens.shape[1]} tokens"
    return Trial(cls, tuple(sizes.values()), tokens, tuple(tokens.shape), "(B, T, D)", words)


def layers_of(trial: Trial) -> list[Layer]:
    D, *_, M = trial.args
    return [*trial.parts.layers, *paired(trial.parts.loose, max(3 * D, M))]


def read_mlp_trial(trial: Trial, order: tuple[int, int]) -> MlpWeights | None:
    return read_mlp(*(layers_of(trial)[i] for i in order), trial.args[0])


def mixing(trial: Trial) -> str:
    alone = same(trial.run(trial.x[:, :1]), trial.out[:, :1])
    return "" if alone else "A token's result depends on the other tokens: an MLP works on each token alone."


def judge_dropout(trial: Trial) -> str | None:
    """Return a remark on a module that drops values in training; raise Wrong if it drops the same values twice."""
    dropped, twice = [], []

    def note(module, inputs, output):
        if isinstance(module, nn.Dropout) and module.p > 0:
            twice.extend(x for x in inputs if any(x is y for y in dropped))
            dropped.append(output)

    handle = register_module_forward_hook(note)
    trial.module.train()
    repeats = all(same(trial.run(), trial.out) for _ in range(10))
    trial.module.eval()
    handle.remove()
    if twice:
        raise Wrong(
            "In training the same values are dropped twice: one dropout comes straight after another.",
            "One dropout after each linear layer is enough: in the block, or inside attention and MLP, not both.",
        )
    return None if repeats else DROPOUT


DROPOUT = (
    "One thing for later: in training your module drops values at random, and nobody gave it a rate. Make the rate an "
    "argument that is 0 by default: lesson 05 asks for a model without dropout."
)


wrong_mlp = mistakes_in(reference_mlp)
GELU = "`nn.GELU()`, as it is, between the two linear layers."
PHI = "GELU(x) = x·Φ(x), with Φ(x) = ½·(1 + erf(x/√2)). `nn.GELU()` computes it."
MLP_MISTAKES = [
    *(wrong_mlp(f"The activation is {what}, not GELU.", GELU, activation=function) for function, what in (
        (F.relu, "ReLU"), (F.silu, "SiLU"), (torch.tanh, "tanh"), (torch.sigmoid, "the sigmoid"),
        (F.leaky_relu, "LeakyReLU"), (F.elu, "ELU"),
        (lambda x: x * torch.sigmoid(1.702 * x), "x·sigmoid(1.702x), a rough GELU"))),
    *(wrong_mlp(message, hint, activation=function) for function, message, hint in (
        (partial(F.gelu, approximate="tanh"), "The activation is GELU's tanh approximation, not GELU itself.", GELU),
        (lambda x: x * (1 + x.erf()) / 2, "Your GELU takes erf(x), not erf(x/√2): the √2 is missing.", PHI),
        (lambda x: 2 * F.gelu(x), "Your GELU is twice as large as it should be: the ½ is missing.", PHI),
        (lambda x: x, "There is no activation between the two layers: together they are one linear map.", GELU))),
    *(Mistake(function, message, GELU) for function, message in (
        (lambda w, x: F.gelu(reference_mlp(w, x)), "There is a second activation, after the last layer."),
        (lambda w, x: F.gelu(reference_mlp(w, x, lambda y: y)), "The activation comes after the second layer."),
        (lambda w, x: reference_mlp(w, F.gelu(x)), "There is an activation before the first layer too."),
        (lambda w, x: reference_mlp(w, F.gelu(x), lambda y: y), "The activation comes before the first layer."))),
    Mistake(lambda w, x: x + reference_mlp(w, x), "The input is added to the result: a residual connection.",
            "The residual is the encoder block's work (Eq. 3). The MLP returns only what the block adds."),
]  # fmt: skip


# The encoder block ----------------------------------------------------------------------------------------------------


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
    D, heads, M = 20, 5, 33
    first, count = block_trial(cls, 2, 7, D, heads, M), 4 * (D * D + D) + 2 * D * M + M + D + 4 * D
    search = Search(first, block, read_block_trial, count, f"{RESIDUAL} {SWAP}")
    parts = block_parts(first)
    ways = list(layouts(parts.attention, D, heads))
    usual = [Reading(norms, layout=way) for norms in NORM_ORDERS for way in usual_layouts(ways)]
    search.recognise(usual, DOUBLE_MISTAKES)
    # First with zeros in attention: only the order of the norms is open, and the sums around it show.
    when = "Already with zeros in all weights of attention"
    with first.silenced(silent_parameters(parts)):
        orders = [Reading(norms) for norms in NORM_ORDERS]
        order = search.find(orders, STRUCTURE_MISTAKES, when, "Eqs. 2 and 3", lambda: doubts(first, parts))
    # Then with attention at work: the layout of its weights is open, and which norm is the first.
    when = "With zeros in all weights of attention the block is right; with attention"
    readings = [Reading(norms, layout=way) for norms in NORM_ORDERS if norms[1] == order.norms[1] for way in ways]
    usual = [reading for reading in usual if reading.norms == order.norms]
    reading = search.find(readings, MIXING_MISTAKES, when, "Eq. 2", lambda: doubts(first, parts), usual)
    complain_about_block(read_block_trial(first, reading))
    remark = judge_dropout(first)
    search.confirm(reading, lambda: block_trial(cls, 3, 5, 12, 2, 17), MIXING_MISTAKES)
    return remark


def block_trial(cls: type, B: int, T: int, D: int, heads: int, M: int) -> Trial:
    small = 0.05 * random_tensor(B, T, D)  # so that eps shows
    trial = token_trial(cls, small, embed_dim=D, num_heads=heads, mlp_dim=M)
    check_block_parts(block_parts(trial), 1, M, D)
    return trial


def block_parts(trial: Trial) -> Parts:
    D, heads, _ = trial.args
    return sort_layers(layers_of(trial), trial.parts.norms, D, heads)


def read_block_trial(trial: Trial, reading: Reading) -> BlockWeights | None:
    D, heads, _ = trial.args
    return read_block(block_parts(trial), reading, D, heads)


def doubts(trial: Trial, parts: Parts) -> str:
    """Say what is odd about a block that no known mistake explains."""
    sentences = []
    with trial.silenced([*silent_parameters(parts), *mlp_parameters(parts)]):
        if not trial.agrees(trial.x):
            sentences.append(IDENTITY)
    if any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in trial.module.modules()):
        sentences.append("Its norm is a BatchNorm, over the batch: a LayerNorm is needed, over each token's D values.")
    elif (found := len(parts.norms)) != 2:
        sentences.append(f"It has {found} LayerNorm{'s'[: found != 1]}; two are needed.")
    return " ".join(sentences)


IDENTITY = (
    "When attention and MLP both return zero, the block must return its input: z + 0, then z + 0. Yours does not."
)
RESIDUAL = "Two lines: `z = z + attention(norm1(z))`, then `z = z + mlp(norm2(z))`. The sum itself is never normalised."
SWAP = "Put the package's `SelfAttention` or `Mlp` in place of your own: does it pass then?"
wrong_block = partial(mistakes_in(block), hint=RESIDUAL)

# Wrong ways to go through one half of the block. The right one is `z + branch(norm(z))`.
HALVES = {
    "post-norm": lambda norm, branch, z: normed(norm, z + branch(z)),
    "norm of the branch": lambda norm, branch, z: z + normed(norm, branch(z)),
    "from normed": lambda norm, branch, z: normed(norm, z) + branch(normed(norm, z)),
    "no residual": lambda norm, branch, z: branch(normed(norm, z)),
    "no norm": lambda norm, branch, z: z + branch(z),
    "skipped": lambda norm, branch, z: z,
    "input added twice": lambda norm, branch, z: z + normed(norm, z) + branch(normed(norm, z)),
}


def wrong_half(message: str, name: str, halves=("first", "second"), **steps) -> Mistake:
    return wrong_block(message, **dict.fromkeys(halves, HALVES[name]), **steps)


def from_input(which: tuple[int, ...]) -> Callable:
    """Return a first half in which those of q, k and v in `which` come from the input, the others from the norm."""

    def half(norm, branch, z):
        y = normed(norm, z)
        return z + branch(y, attend=partial(attention, sources=[z if i in which else y for i in range(3)]))

    return half


def attended(w, z):
    return mixed(w, normed(w.norm1, z))


def processed(w, z):
    return reference_mlp(w.mlp, normed(w.norm2, z))


def torch_eps(w, z):
    norms = (norm._replace(eps=1e-5) if norm.eps is None else norm for norm in (w.norm1, w.norm2))
    return block(BlockWeights(*norms, *w[2:]), z)


# Two mistakes at once, of which one hides the other while attention is silenced.
DOUBLE_MISTAKES = [
    wrong_half(f"Both residuals are missing, around attention and around the MLP. {IDENTITY}", "no residual"),
    wrong_half("Attention and MLP both get their input without a norm.", "no norm"),
]

# What can be told while attention is silenced.
STRUCTURE_MISTAKES = [
    wrong_half(f"The norm comes after the sum: post-norm, as in the first transformers. {IDENTITY}", "post-norm"),
    wrong_half("Two things: the norm comes after the sum (post-norm), and the activation is ReLU. Both are defaults of "
               f"`nn.TransformerEncoderLayer`. {IDENTITY}", "post-norm", mlp=partial(reference_mlp, activation=F.relu),
               hint='With that layer: `norm_first=True, activation="gelu", batch_first=True, layer_norm_eps=1e-6`.'),
    wrong_half("The norm comes after each branch, not before it.", "norm of the branch"),
    wrong_half(f"Both residuals are taken from the normed input. {IDENTITY}", "from normed"),
    *(wrong_half(f"The residual around {what} is {wrong}. {IDENTITY}", name, [half])
      for name, wrong in (("from normed", "taken from the normed input"), ("no residual", "missing"))
      for half, what in (("first", "attention"), ("second", "the MLP"))),
    Mistake(lambda w, z: z + processed(w, attended(w, z)), "One residual goes around the whole block. Attention and "
            "MLP need one each: here `z` meets only what the MLP makes of attention's result.", RESIDUAL),
    wrong_half("The MLP gets its input without a norm.", "no norm", ["second"]),
    wrong_half("Your attention adds its input to its result, and the block adds it again.", "input added twice",
               ["first"]),
    wrong_half("The MLP is there, and `forward` does not use it.", "skipped", ["second"]),
    Mistake(torch_eps, "The eps of your LayerNorm is 1e-5.", EPS),
    *(wrong_block(f"In the MLP: {m.message}", hint=m.hint, mlp=m.function) for m in MLP_MISTAKES),
]  # fmt: skip

# What can be told only once attention is at work.
MIXING_MISTAKES = [
    wrong_half("Attention gets its input without a norm.", "no norm", ["first"]),
    *(wrong_block(f"{these} come from the input without a norm, the {others} from the normed one.",
                  hint="Normalise once: `y = norm1(z)`, then `attention(y, y, y)`.", first=from_input(which))
      for which, these, others in (
        ((0, 1), "Queries and keys", "values"), ((1, 2), "Keys and values", "queries"),
        ((0, 2), "Queries and values", "keys"), ((0,), "The queries", "keys and values"),
        ((1,), "The keys", "queries and values"), ((2,), "The values", "queries and keys"))),
    *(Mistake(function, message, RESIDUAL) for function, message in (
        (lambda w, z: z + attended(w, z) + processed(w, z), "Attention and MLP stand side by side, both on the block's "
         "input: the MLP does not see what attention added."),
        (lambda w, z: z + processed(w, z + attended(w, z)), "The second sum starts again from the block's input: what "
         "attention added is lost."),
        (lambda w, z: z + processed(w, z) + attended(w, z + processed(w, z)), "The MLP comes first, then attention: "
         "swap them."))),
    *(wrong_block(f"In the attention: {m.message}", hint=m.hint, attend=m.function) for m in ATTENTION_MISTAKES),
]  # fmt: skip
