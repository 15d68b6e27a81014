"""The whole model as a function of its weights, with its steps replaceable, and the wrong steps seen in public."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from ..patchify import patchify
from .comparing import Mistake
from .embedding_mistakes import NO_CLASS_POSITION
from .encoder_mistakes import MIXING_MISTAKES, STRUCTURE_MISTAKES, BlockWeights, block, normed
from .modules import Norm


class ModelWeights(NamedTuple):
    patch: Tensor  # (D, C·P·P)
    patch_bias: Tensor | None
    class_token: Tensor  # (1, D)
    position: Tensor  # (T, D)
    blocks: list[BlockWeights]
    norm: Norm
    head: Tensor  # (K, D)
    head_bias: Tensor | None
    patch_size: int
    pool: str


def patch_tokens(w: ModelWeights, images: Tensor) -> Tensor:
    return F.linear(patchify(images, w.patch_size), w.patch, w.patch_bias)


def embedded(w: ModelWeights, images: Tensor) -> Tensor:
    patches = patch_tokens(w, images)
    return torch.cat([w.class_token.expand(len(images), 1, -1), patches], dim=1) + w.position


def positions_on_patches(w, images):
    return embedded(w._replace(position=w.position * (torch.arange(len(w.position)) > 0)[:, None]), images)


def positions_on_class_token(w, images):
    return embedded(w._replace(position=w.position * (torch.arange(len(w.position)) == 0)[:, None]), images)


def without_class_token(w, images):
    return embedded(w._replace(class_token=torch.zeros_like(w.class_token)), images)


def class_token_last(w, images):
    patches = patch_tokens(w, images)
    return torch.cat([patches, w.class_token.expand(len(images), 1, -1)], dim=1) + w.position


def column_by_column(w, images):
    patches = patch_tokens(w, images).unflatten(1, (images.shape[2] // w.patch_size, -1))  # (B, h, w, D)
    patches = patches.transpose(1, 2).flatten(1, 2)
    return torch.cat([w.class_token.expand(len(images), 1, -1), patches], dim=1) + w.position


def pooled(w: ModelWeights, z: Tensor) -> Tensor:
    return z[:, 0] if w.pool == "cls" else z[:, 1:].mean(dim=1)


def model(
    w: ModelWeights,
    images: Tensor,
    embed: Callable = embedded,
    block: Callable = block,
    pool: Callable = pooled,
    end: Callable = normed,
) -> Tensor:
    z = embed(w, images)  # Eq. 1
    for weights in w.blocks:
        z = block(weights, z)  # Eqs. 2-3
    return F.linear(pool(w, end(w.norm, z)), w.head, w.head_bias)  # Eq. 4


def norm_after_pool(w, images):
    return model(w, images, pool=lambda w, z: normed(w.norm, pooled(w, z)), end=lambda norm, z: z)


def wrong(message: str, hint: str | None = None, **steps) -> Mistake:
    return Mistake(partial(model, **steps), message, hint)


EQ1 = (
    "Eq. 1: the class token in front of the patches, then `+ position` on all 1+N tokens. `Embeddings(config)` does it."
)
EQ4 = 'Eq. 4: `y = pool(norm(z))`, then the head. With pool="cls" that is token 0, the class token.'
POOL = '`config.pool` decides: token 0 for "cls", the mean of tokens 1 to N for "mean".'

HEAD_MISTAKES = [
    wrong("The final LayerNorm is there, and `forward` does not use it.", EQ4, end=lambda norm, z: z),
    wrong("The head reads the last token, a patch, not the class token.", EQ4, pool=lambda w, z: z[:, -1]),
    wrong("The head reads token 1, the first patch, not the class token.", EQ4, pool=lambda w, z: z[:, 1]),
    wrong("The head reads the class token, whatever `config.pool` says.", EQ4, pool=lambda w, z: z[:, 0]),
    wrong("The head reads the mean of all tokens, the class token among them.",
          POOL, pool=lambda w, z: z.mean(1)),
    wrong("The head reads the mean of the patches, whatever `config.pool` says.", POOL,
          pool=lambda w, z: z[:, 1:].mean(1)),
    Mistake(norm_after_pool, "The final norm comes after the mean: norm first, then the mean of the patches.", EQ4),
    wrong("The head reads the sum of the patches, not their mean.", POOL, pool=lambda w, z: z[:, 1:].sum(1)),
    wrong("The head reads the largest of the patches' numbers, not their mean.", POOL,
          pool=lambda w, z: z[:, 1:].amax(1)),
    *(wrong(f"There is a {name} between the final norm and the head: the head is one linear layer.", EQ4,
            pool=lambda w, z, function=function: function(pooled(w, z)))
      for name, function in (("ReLU", F.relu), ("GELU", F.gelu), ("tanh", torch.tanh))),
]  # fmt: skip

EMBEDDING_MISTAKES = [
    wrong(NO_CLASS_POSITION, EQ1, embed=positions_on_patches),
    wrong("Only the class token gets its position, the patches none.", EQ1, embed=positions_on_class_token),
    wrong("The class token's own vector is not used: a zero stands in its place.", EQ1, embed=without_class_token),
    wrong("The class token stands last, and the head reads the first token, a patch.", EQ1, embed=class_token_last),
    wrong("The class token stands last, not first.", EQ1, embed=class_token_last, pool=lambda w, z: z[:, -1]),
    wrong("The patches stand column by column, not row by row.", EQ1, embed=column_by_column),
]  # fmt: skip


def first_only(w, images):
    return model(w._replace(blocks=w.blocks[:1]), images)


def first_again(w, images):
    return model(w._replace(blocks=w.blocks[:1] * len(w.blocks)), images)


def last_first(w, images):
    return model(w._replace(blocks=w.blocks[::-1]), images)


def none_of_them(w, images):
    return model(w._replace(blocks=[]), images)


def normed_first(w, images):
    return model(w, images, embed=lambda w, x: normed(w.norm, embedded(w, x)), end=lambda norm, z: z)


def normed_between(w, images):
    return model(w, images, block=lambda weights, z: block(weights, normed(w.norm, z)))


LOOP = "`for block in self.blocks: z = block(z)`: each block gets what the one before it returned."
DEPTH_MISTAKES = [
    Mistake(none_of_them, "The encoder's result is not used: the head sees the embeddings.", LOOP),
    Mistake(first_only, "Only the first block's result reaches the head.", LOOP),
    Mistake(lambda w, x: model(w._replace(blocks=w.blocks[-1:]), x), "Each block gets the embeddings, not the block "
            "before it: only the last one counts.", LOOP),
    Mistake(first_again, "The first block is applied again and again, the others never.", LOOP),
    Mistake(last_first, "The blocks come in the opposite order.", LOOP),
    Mistake(normed_first, "The final norm comes before the blocks: it stands after the last one.", EQ4),
    Mistake(normed_between, "The final norm is also before each block: a block has its own norms.", EQ4),
    wrong("A block's input is added to its result once more: the block adds it already, in Eqs. 2 and 3.", LOOP,
          block=lambda w, z: z + block(w, z)),
]  # fmt: skip


def in_blocks(mistakes: list[Mistake]) -> list[Mistake]:
    return [Mistake(partial(model, block=m.function), f"Inside the blocks. {m.message}", m.hint) for m in mistakes]


# What can be told with attention silenced, and what only once it is at work.
SILENT_MISTAKES = [*HEAD_MISTAKES, *EMBEDDING_MISTAKES, *DEPTH_MISTAKES, *in_blocks(STRUCTURE_MISTAKES)]
LOUD_MISTAKES = [*EMBEDDING_MISTAKES, *in_blocks(MIXING_MISTAKES)]
