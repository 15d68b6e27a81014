"""Lesson 04: hint, solution, judge and known mistakes of each exercise."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import nn

from .comparing import Mistake, compare, random_tensor, same
from .exercise import exercise
from .lesson_03_attention import ATTENTION_MISTAKES
from .modules import LISTS, Layer, Trial, confirm, facts, find, paired, recognise_module
from .reading_weights import (
    EPS,
    NORM_ORDERS,
    BlockParts,
    BlockReading,
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
from .references import (
    BlockWeights,
    MlpWeights,
    attention,
    block,
    mixed,
    normed,
    reference_mlp,
    reference_norm,
    standardised,
)
from .running import Wrong


def outside(x, weight, bias, eps, *, correction):
    return (x - x.mean(-1, keepdim=True)) / (x.std(-1, correction=correction, keepdim=True) + eps) * weight + bias


def root_mean_square(x, weight, bias, eps):
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight + bias


def uncentred_variance(x, weight, bias, eps):
    return (x - x.mean(-1, keepdim=True)) / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight + bias


def fixed_eps(x, weight, bias, eps, *, value):
    return None if eps == value else reference_norm(x, weight, bias, value)


TOKEN = "Every token is normalised by itself, over its D numbers: `dim=-1`, with `keepdim=True`."


VARIANCE = (
    "The variance is the mean of the squared distances from the mean: `x.var(-1, correction=0)`. It divides by D."
)


INSIDE = "Divide by `torch.sqrt(variance + eps)`."


NORM_MISTAKES = [
    Mistake(partial(standardised, correction=1), "The variance divides by D - 1, not by D.", VARIANCE),
    Mistake(partial(outside, correction=0), "eps is added to the standard deviation, outside the root.", INSIDE),
    Mistake(partial(outside, correction=1), "Two things: the variance divides by D - 1, and eps is outside the root.",
            f"{VARIANCE} {INSIDE}"),
    Mistake(partial(standardised, power=1), "You divide by the variance, not by its root.", INSIDE),
    Mistake(uncentred_variance, "The variance is taken as the mean of the squares: the mean is not subtracted first.",
            VARIANCE),
    Mistake(partial(standardised, dim=1), "You normalise over the tokens, not over the D numbers of a token.", TOKEN),
    Mistake(partial(standardised, dim=0), "You normalise over the batch, not over the D numbers of a token.", TOKEN),
    Mistake(partial(standardised, dim=(0, 1)), "You normalise over batch and tokens: that is batch norm.", TOKEN),
    Mistake(partial(standardised, dim=(1, 2)), "You normalise over all numbers of an image.", TOKEN),
    Mistake(partial(standardised, dim=(0, 1, 2)), "You normalise over all numbers of the batch at once.", TOKEN),
    Mistake(partial(standardised, centre=False), "The mean is not subtracted.", "First `x - mean`, then divide."),
    Mistake(root_mean_square, "The mean is not subtracted: this is RMSNorm.", "First `x - mean`, then divide."),
    Mistake(lambda x, w, b, eps: standardised(x, w, 0, eps), "`bias` is not added.", "normalised * weight + bias"),
    Mistake(lambda x, w, b, eps: standardised(x, 1, b, eps), "`weight` is not used.", "normalised * weight + bias"),
    Mistake(lambda x, w, b, eps: standardised(x, 1, 0, eps), "`weight` and `bias` are not used.",
            "normalised * weight + bias"),
    Mistake(lambda x, w, b, eps: (standardised(x, 1, 0, eps) + b) * w, "`bias` is added before `weight` multiplies.",
            "normalised * weight + bias"),
    Mistake(lambda x, w, b, eps: reference_norm(x, w, b, eps**2), "eps is squared before it is added to the variance.",
            INSIDE),
    Mistake(partial(fixed_eps, value=0.0), "eps is not used: a token whose numbers are all equal gives nan.", INSIDE),
    *(Mistake(partial(fixed_eps, value=eps), f"eps is always {eps:g}, whatever the argument says.", INSIDE)
      for eps in (1e-5, 1e-6, 1e-8, 1e-12)),
]  # fmt: skip


ACTIVATIONS = [
    (F.relu, "The activation is ReLU, not GELU."),
    (partial(F.gelu, approximate="tanh"), "The activation is GELU's tanh approximation, not GELU itself."),
    (lambda x: x * torch.sigmoid(1.702 * x), "The activation is x·sigmoid(1.702x), a rough GELU, not GELU itself."),
    (F.silu, "The activation is SiLU, not GELU."),
    (torch.tanh, "The activation is tanh, not GELU."),
    (torch.sigmoid, "The activation is the sigmoid, not GELU."),
    (F.leaky_relu, "The activation is LeakyReLU, not GELU."),
    (F.elu, "The activation is ELU, not GELU."),
    (lambda x: x, "There is no activation between the two layers: together they are one linear map."),
]


GELU = "`nn.GELU()`, as it is, between the two linear layers."


MLP_MISTAKES = [
    *(Mistake(partial(reference_mlp, activation=function), message, GELU) for function, message in ACTIVATIONS),
    Mistake(lambda w, x: F.gelu(reference_mlp(w, x)), "There is a second activation, after the last layer.", GELU),
    Mistake(lambda w, x: F.gelu(reference_mlp(w, x, lambda y: y)), "The activation comes after the second layer.",
            GELU),
    Mistake(lambda w, x: reference_mlp(w, F.gelu(x)), "There is an activation before the first layer too.", GELU),
    Mistake(lambda w, x: reference_mlp(w, F.gelu(x), lambda y: y), "The activation comes before the first layer.",
            GELU),
    Mistake(lambda w, x: x + reference_mlp(w, x), "The input is added to the result: a residual connection.",
            "The residual is the encoder block's work (Eq. 3). The MLP returns only what the block adds."),
]  # fmt: skip


def post_norm(w, z, mlp=reference_mlp):
    z = normed(w.norm1, z + mixed(w, z))
    return normed(w.norm2, z + mlp(w.mlp, z))


def norm_after_branch(w, z):
    z = z + normed(w.norm1, mixed(w, z))
    return z + normed(w.norm2, reference_mlp(w.mlp, z))


def residual_from_normed(w, z, first=True, second=True):
    y = normed(w.norm1, z)
    z = (y if first else z) + mixed(w, y)
    y = normed(w.norm2, z)
    return (y if second else z) + reference_mlp(w.mlp, y)


def without_first_residual(w, z):
    z = mixed(w, normed(w.norm1, z))
    return z + reference_mlp(w.mlp, normed(w.norm2, z))


def without_second_residual(w, z):
    return reference_mlp(w.mlp, normed(w.norm2, z + mixed(w, normed(w.norm1, z))))


def unnormed_mlp(w, z):
    z = z + mixed(w, normed(w.norm1, z))
    return z + reference_mlp(w.mlp, z)


def inner_residual(w, z):
    y = normed(w.norm1, z)
    z = z + y + mixed(w, y)
    return z + reference_mlp(w.mlp, normed(w.norm2, z))


def unnormed_attention(w, z):
    z = z + mixed(w, z)
    return z + reference_mlp(w.mlp, normed(w.norm2, z))


def unnormed_sources(w, z, which):
    y = normed(w.norm1, z)
    sources = [z if i in which else y for i in range(3)]
    z = z + mixed(w, y, partial(attention, sources=sources))
    return z + reference_mlp(w.mlp, normed(w.norm2, z))


def parallel(w, z):
    return z + mixed(w, normed(w.norm1, z)) + reference_mlp(w.mlp, normed(w.norm2, z))


def restarted(w, z):
    return z + reference_mlp(w.mlp, normed(w.norm2, z + mixed(w, normed(w.norm1, z))))


def mlp_first(w, z):
    z = z + reference_mlp(w.mlp, normed(w.norm2, z))
    return z + mixed(w, normed(w.norm1, z))


def larger_eps(w, z):
    norms = (norm._replace(eps=1e-5) if norm.eps is None else norm for norm in (w.norm1, w.norm2))
    return block(BlockWeights(*norms, *w[2:]), z)


IDENTITY = "If attention and MLP give zero, the block must give back its input: z + 0, then z + 0. Yours does not."


RESIDUAL = "Two lines: `z = z + attention(norm1(z))`, then `z = z + mlp(norm2(z))`. The sum itself is never normalised."


# What can be told with attention silenced.
# (Without the first residual, the second one adds zero: a block that has neither is told of the first.)
STRUCTURE_MISTAKES = [
    Mistake(post_norm, f"The norm comes after the sum: post-norm, as in the first transformers. {IDENTITY}", RESIDUAL),
    Mistake(partial(post_norm, mlp=partial(reference_mlp, activation=F.relu)), "Two things: the norm comes after the "
            "sum (post-norm), and the activation is ReLU. Both are defaults of `nn.TransformerEncoderLayer`. "
            + IDENTITY,
            'With that layer: `norm_first=True, activation="gelu", batch_first=True, layer_norm_eps=1e-6`.'),
    Mistake(norm_after_branch, "The norm comes after each branch, not before it.", RESIDUAL),
    Mistake(residual_from_normed, f"Both residuals are taken from the normed input. {IDENTITY}", RESIDUAL),
    Mistake(partial(residual_from_normed, second=False), "The residual around attention is taken from the normed "
            "input. " + IDENTITY, RESIDUAL),
    Mistake(partial(residual_from_normed, first=False), "The residual around the MLP is taken from the normed "
            "input. " + IDENTITY, RESIDUAL),
    Mistake(without_first_residual, f"The residual around attention is missing. {IDENTITY}", RESIDUAL),
    Mistake(without_second_residual, f"The residual around the MLP is missing. {IDENTITY}", RESIDUAL),
    Mistake(unnormed_mlp, "The MLP gets its input without a norm.", RESIDUAL),
    Mistake(inner_residual, "Your attention adds its input to its result, and the block adds it again.", RESIDUAL),
    Mistake(lambda w, z: z + mixed(w, normed(w.norm1, z)), "The MLP is there, and `forward` does not use it.",
            RESIDUAL),
    Mistake(larger_eps, "The eps of your LayerNorm is 1e-5.", EPS),
    *(Mistake(partial(block, mlp=m.function), f"In the MLP: {m.message}", m.hint) for m in MLP_MISTAKES),
]  # fmt: skip


SOURCES = [
    ((0, 1), "Queries and keys", "values"),
    ((1, 2), "Keys and values", "queries"),
    ((0, 2), "Queries and values", "keys"),
    ((0,), "The queries", "keys and values"),
    ((1,), "The keys", "queries and values"),
    ((2,), "The values", "queries and keys"),
]


# What can be told only once attention is at work.
MIXING_MISTAKES = [
    Mistake(unnormed_attention, "Attention gets its input without a norm.", RESIDUAL),
    *(Mistake(partial(unnormed_sources, which=which), f"{some} come from the input without a norm, the {rest} from the "
              "normed one.", "Normalise once, and give the same result three times: `y = norm1(z)`, then "
              "`attention(y, y, y)`.") for which, some, rest in SOURCES),
    Mistake(parallel, "Attention and MLP stand side by side, both on the block's input: the MLP does not see what "
            "attention added.", RESIDUAL),
    Mistake(restarted, "The second sum starts again from the block's input: what attention added is lost.", RESIDUAL),
    Mistake(mlp_first, "The MLP comes first, then attention: the other way round.", RESIDUAL),
    *(Mistake(partial(block, attend=m.function), f"In the attention: {m.message}", m.hint) for m in ATTENTION_MISTAKES),
]  # fmt: skip


@exercise(
    hint="Mean and variance of each token over its D numbers (`dim=-1, keepdim=True, correction=0`); subtract the "
    "mean, divide by √(variance + eps); multiply by `weight`, add `bias`.",
    solution="""
def layer_norm(x, weight, bias, eps):
    mean = x.mean(dim=-1, keepdim=True)  # (B, T, 1)
    variance = x.var(dim=-1, correction=0, keepdim=True)  # (B, T, 1)
    return (x - mean) / torch.sqrt(variance + eps) * weight + bias
""",
)
def layer_norm(function):
    """`fn(x, weight, bias, eps)`: LayerNorm over the last axis, (B, T, D) → (B, T, D)."""
    flat, small = random_tensor(3, 4, 6), 0.05 * random_tensor(2, 3, 7) + 0.3
    flat[1, 2] = 2.0  # a token whose numbers are all equal: only eps keeps it finite
    flat[2, 1] *= 1e-3  # one in which a small eps shows
    trials = [
        (x, random_tensor(x.shape[-1]), random_tensor(x.shape[-1], seed=1), eps)
        for x, eps in ((flat, 1e-2), (small, 1e-4))
    ]
    compare(function, reference_norm, trials, "(B, T, D)", NORM_MISTAKES)


@exercise(
    hint="`nn.Linear(embed_dim, mlp_dim)`, `nn.GELU()`, `nn.Linear(mlp_dim, embed_dim)`, one after another.",
    solution="""
class MyMlp(nn.Module):
    def __init__(self, embed_dim, mlp_dim):
        super().__init__()
        self.expand = nn.Linear(embed_dim, mlp_dim)
        self.activation = nn.GELU()
        self.contract = nn.Linear(mlp_dim, embed_dim)

    def forward(self, tokens):
        return self.contract(self.activation(self.expand(tokens)))
""",
    takes="class",
)
def mlp(cls):
    """`cls(embed_dim, mlp_dim)`, an nn.Module: two linear layers and a GELU, (B, T, D) → (B, T, D)."""
    D, M = 14, 33
    first, count = mlp_trial(cls, 2, 5, D, M), 2 * D * M + M + D
    orders = mlp_orders(first)
    order = find(first, reference_mlp, orders, read_mlp_trial)
    if order is None:
        recognise_module(first, MLP_MISTAKES, orders, read_mlp_trial)
        raise Wrong(
            "The shape is right, the values are not those of the MLP, and none of the usual mistakes explains them.\n"
            + facts(first, count)
            + ("" if same(first.run(first.x[:, :1]), first.out[:, :1]) else MIXED),
            "Three steps, one after another: linear to mlp_dim, `nn.GELU()`, linear back to embed_dim. Nothing else.",
        )
    confirm(first, lambda: mlp_trial(cls, 3, 4, 9, 20), reference_mlp, order, read_mlp_trial, count)


MIXED = " But a token's result depends on the other tokens: an MLP works on each token alone."


def mlp_trial(cls: type, B: int, T: int, D: int, M: int) -> Trial:
    """A trial with the parts of an MLP: two layers, mlp_dim numbers between them, no norm."""
    sizes = f"embed_dim {D} and mlp_dim {M}, for {B} images of {T} tokens"
    trial = Trial(cls, (D, M), random_tensor(B, T, D), (B, T, D), "(B, T, D)", sizes)
    if trial.parts.norms:
        raise Wrong("There is a LayerNorm inside your MLP.", "The norm is the encoder block's work (Eq. 3).")
    if len(found := mlp_layers(trial)) != 2:
        are = "is" if len(found) == 1 else "are"
        raise Wrong(f"An MLP has two linear layers; among your parameters there {are} {len(found)}.", LISTS)
    for order in mlp_orders(trial):
        check_hidden(len(read_mlp_trial(trial, order).expand), M, D)
    return trial


def mlp_orders(trial: Trial) -> list[tuple[int, int]]:
    """Which of the two layers may come first."""
    return [order for order in ((0, 1), (1, 0)) if read_mlp_trial(trial, order)]


def mlp_layers(trial: Trial) -> list[Layer]:
    return [*trial.parts.layers, *paired(trial.parts.loose, max(trial.args))]


def read_mlp_trial(trial: Trial, order: tuple[int, int]) -> MlpWeights | None:
    first, second = (mlp_layers(trial)[i] for i in order)
    return read_mlp(first, second, trial.args[0])


@exercise(
    hint="Two lines. `z = z + attention(norm1(z))`, then `z = z + mlp(norm2(z))`. Both norms are "
    "`nn.LayerNorm(embed_dim, eps=1e-6)`.",
    solution="""
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
""",
    takes="class",
)
def encoder_block(cls):
    """`cls(embed_dim, num_heads, mlp_dim)`, an nn.Module: Eqs. 2 and 3, (B, T, D) → (B, T, D)."""
    D, heads, M = 20, 5, 33
    first, count = block_trial(cls, 2, 7, D, heads, M), 4 * (D * D + D) + 2 * D * M + M + D + 4 * D
    parts = block_parts(first)
    # First with zeros in attention: only the norms' order is open, and the sums around it show.
    orders = [BlockReading(order) for order in NORM_ORDERS]
    with first.silenced(silent_parameters(parts)):
        order = find(first, block, orders, read_block_trial)
        if order is None:
            recognise_module(first, STRUCTURE_MISTAKES, orders, read_block_trial)
    if order is None:
        with first.silenced([*silent_parameters(parts), *mlp_parameters(parts)]):
            identity = "" if first.agrees(first.x) else f" {IDENTITY}"
        raise unrecognised_block(first, count, "Already with zeros in all weights of attention", identity)
    # Then with attention at work: only the layout of its weights is open.
    seconds = [other.norms for other in orders if other.norms[1] == order.norms[1]]
    ways = list(layouts(parts.attention, D, heads))
    readings = [BlockReading(norms, layout) for norms in seconds for layout in ways]
    reading = find(first, block, readings, read_block_trial)
    if reading is None:
        usual = [BlockReading(order.norms, layout) for layout in usual_layouts(ways)]
        recognise_module(first, MIXING_MISTAKES, usual, read_block_trial)
        raise unrecognised_block(
            first, count, "With zeros in all weights of attention the block is right; with attention"
        )
    complain_about_block(read_block_trial(first, reading))
    check_dropout(first)
    confirm(first, lambda: block_trial(cls, 3, 5, 12, 2, 17), block, reading, read_block_trial, count, MIXING_MISTAKES)


def block_trial(cls: type, B: int, T: int, D: int, heads: int, M: int) -> Trial:
    sizes = f"embed_dim {D}, num_heads {heads} and mlp_dim {M}, for {B} images of {T} tokens"
    small = 0.05 * random_tensor(B, T, D)  # so that eps shows
    trial = Trial(cls, (D, heads, M), small, (B, T, D), "(B, T, D)", sizes)
    check_block_parts(block_parts(trial), 1, M, D)
    return trial


def block_parts(trial: Trial) -> BlockParts:
    D, heads, _ = trial.args
    return sort_layers([*trial.parts.layers, *paired(trial.parts.loose, 3 * D)], trial.parts.norms, D, heads)


def read_block_trial(trial: Trial, reading: BlockReading) -> BlockWeights | None:
    D, heads, _ = trial.args
    return read_block(block_parts(trial), reading, D, heads)


def check_dropout(trial: Trial) -> None:
    """Raise Wrong if what one dropout returns goes straight into another."""
    dropped, twice = [], []

    def note(module, inputs, output):
        twice.extend(x for x in inputs if any(x is y for y in dropped))
        dropped.append(output)

    active = [m for m in trial.module.modules() if isinstance(m, nn.Dropout) and m.p > 0]
    handles = [m.register_forward_hook(note) for m in active]
    trial.module.train()
    trial.run()
    trial.module.eval()
    for handle in handles:
        handle.remove()
    if twice:
        raise Wrong(
            "In training the same numbers are dropped twice: one dropout stands right behind another.",
            "One dropout after each linear layer is enough: in the block, or inside attention and MLP, not both.",
        )


def unrecognised_block(trial: Trial, count: int, when: str, identity: str = "") -> Wrong:
    found = len(trial.parts.norms)
    norms = "" if found == 2 else f" It has {found} LayerNorm{'s'[: found != 1]}; two are needed."
    if any(isinstance(part, nn.modules.batchnorm._BatchNorm) for part in trial.module.modules()):
        norms = (
            " Its norm is a BatchNorm, which normalises over the batch; a LayerNorm is needed, over each token's own D."
        )
    return Wrong(
        f"The shape is right. {when} the values are not those of Eqs. 2 and 3, and none of the usual mistakes explains "
        f"them.{identity}\n{facts(trial, count)}{norms}",
        f"{RESIDUAL} Put the package's `SelfAttention` or `Mlp` in place of your own: does it pass then?",
    )
