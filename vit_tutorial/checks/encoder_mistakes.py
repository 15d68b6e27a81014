"""The MLP and the encoder block as plain functions, right ones and those seen in public."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from .attention_mistakes import MISTAKES as ATTENTION_MISTAKES
from .attention_mistakes import attention
from .comparing import Mistake
from .layouts import Weights
from .modules import Norm

PAPER_EPS = 1e-6

# The MLP: two matrices with their biases


class MlpWeights(NamedTuple):
    expand: Tensor  # (M, D)
    expand_bias: Tensor | None
    contract: Tensor  # (D, M)
    contract_bias: Tensor | None


def mlp(w: MlpWeights, x: Tensor, activation: Callable = F.gelu) -> Tensor:
    return F.linear(activation(F.linear(x, w.expand, w.expand_bias)), w.contract, w.contract_bias)


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
    *(Mistake(partial(mlp, activation=function), message, GELU) for function, message in ACTIVATIONS),
    Mistake(lambda w, x: F.gelu(mlp(w, x)), "There is a second activation, after the last layer.", GELU),
    Mistake(lambda w, x: F.gelu(mlp(w, x, lambda y: y)), "The activation comes after the second layer.", GELU),
    Mistake(lambda w, x: mlp(w, F.gelu(x)), "There is an activation before the first layer too.", GELU),
    Mistake(lambda w, x: mlp(w, F.gelu(x), lambda y: y), "The activation comes before the first layer.", GELU),
    Mistake(lambda w, x: x + mlp(w, x), "The input is added to the result: a residual connection.",
            "The residual is the encoder block's work (Eq. 3). The MLP returns only what the block adds."),
]  # fmt: skip

# The block: z + attention(norm1(z)), then z + mlp(norm2(z))


class BlockWeights(NamedTuple):
    """`attention` is None while the reader's attention is silenced: it adds zero."""

    norm1: Norm
    norm2: Norm
    mlp: MlpWeights
    attention: Weights | None


def normed(norm: Norm, z: Tensor) -> Tensor:
    return F.layer_norm(z, z.shape[-1:], norm.weight, norm.bias, PAPER_EPS if norm.eps is None else norm.eps)


def mixed(w: BlockWeights, z: Tensor, attend: Callable = attention) -> Tensor:
    return torch.zeros_like(z) if w.attention is None else attend(w.attention, z)


def block(w: BlockWeights, z: Tensor, attend: Callable = attention, mlp: Callable = mlp) -> Tensor:
    z = z + mixed(w, normed(w.norm1, z), attend)  # Eq. 2
    return z + mlp(w.mlp, normed(w.norm2, z))  # Eq. 3


def post_norm(w, z, mlp=mlp):
    z = normed(w.norm1, z + mixed(w, z))
    return normed(w.norm2, z + mlp(w.mlp, z))


def norm_after_branch(w, z):
    z = z + normed(w.norm1, mixed(w, z))
    return z + normed(w.norm2, mlp(w.mlp, z))


def residual_from_normed(w, z, first=True, second=True):
    y = normed(w.norm1, z)
    z = (y if first else z) + mixed(w, y)
    y = normed(w.norm2, z)
    return (y if second else z) + mlp(w.mlp, y)


def without_first_residual(w, z):
    z = mixed(w, normed(w.norm1, z))
    return z + mlp(w.mlp, normed(w.norm2, z))


def without_second_residual(w, z):
    return mlp(w.mlp, normed(w.norm2, z + mixed(w, normed(w.norm1, z))))


def unnormed_mlp(w, z):
    z = z + mixed(w, normed(w.norm1, z))
    return z + mlp(w.mlp, z)


def inner_residual(w, z):
    y = normed(w.norm1, z)
    z = z + y + mixed(w, y)
    return z + mlp(w.mlp, normed(w.norm2, z))


def unnormed_attention(w, z):
    z = z + mixed(w, z)
    return z + mlp(w.mlp, normed(w.norm2, z))


def unnormed_sources(w, z, which):
    y = normed(w.norm1, z)
    sources = [z if i in which else y for i in range(3)]
    z = z + mixed(w, y, partial(attention, sources=sources))
    return z + mlp(w.mlp, normed(w.norm2, z))


def parallel(w, z):
    return z + mixed(w, normed(w.norm1, z)) + mlp(w.mlp, normed(w.norm2, z))


def restarted(w, z):
    return z + mlp(w.mlp, normed(w.norm2, z + mixed(w, normed(w.norm1, z))))


def mlp_first(w, z):
    z = z + mlp(w.mlp, normed(w.norm2, z))
    return z + mixed(w, normed(w.norm1, z))


def larger_eps(w, z):
    norms = (norm._replace(eps=1e-5) if norm.eps is None else norm for norm in (w.norm1, w.norm2))
    return block(BlockWeights(*norms, *w[2:]), z)


IDENTITY = "If attention and MLP give zero, the block must give back its input: z + 0, then z + 0. Yours does not."
RESIDUAL = "Two lines: `z = z + attention(norm1(z))`, then `z = z + mlp(norm2(z))`. The sum itself is never normalised."
EPS = "The paper's code has eps = 1e-6: `nn.LayerNorm(embed_dim, eps=1e-6)`."

# What can be told with attention silenced.
# (Without the first residual, the second one adds zero: a block that has neither is told of the first.)
STRUCTURE_MISTAKES = [
    Mistake(post_norm, f"The norm comes after the sum: post-norm, as in the first transformers. {IDENTITY}", RESIDUAL),
    Mistake(partial(post_norm, mlp=partial(mlp, activation=F.relu)), "Two things: the norm comes after the sum "
            "(post-norm), and the activation is ReLU. Both are defaults of `nn.TransformerEncoderLayer`. " + IDENTITY,
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
