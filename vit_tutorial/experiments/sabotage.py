"""Copies of a published model with one secret mistake each, after which their pictures still look right."""

from __future__ import annotations

import random
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field

import torch
from torch import nn

from ..model import VisionTransformer
from ..pretrained import dinov2_tensors

BLOCKS = range(4, 11)  # of DINOv2-S: in earlier blocks, and in the last, some mistakes show in the components


def exchange_norms(model: VisionTransformer, where: str) -> None:
    block = model.get_submodule(where)
    block.norm1, block.norm2 = block.norm2, block.norm1


def exchange_q_and_k(model: VisionTransformer, where: str) -> None:
    for parameter in model.get_submodule(where).attention.qkv.parameters():
        q, k, v = parameter.chunk(3)
        parameter.copy_(torch.cat([k, q, v]))


def double_heads(model: VisionTransformer, where: str) -> None:
    model.get_submodule(where).attention.num_heads *= 2


def forget_layer_scale(model: VisionTransformer, where: str) -> None:
    gamma = dinov2_tensors()[f"{where.replace('encoder', 'blocks')}.ls1.gamma"]
    projection = model.get_submodule(where).attention.projection
    projection.weight /= gamma[:, None]
    projection.bias /= gamma


def use_relu(model: VisionTransformer, where: str) -> None:
    model.get_submodule(where).mlp.activation = nn.ReLU()


def exchange_red_and_blue(model: VisionTransformer, where: str) -> None:
    kernel = model.get_submodule(where).patches.projection.weight  # (D, 3, P, P)
    kernel.copy_(kernel.flip(1))


def move_positions(model: VisionTransformer, where: str) -> None:
    table = model.get_submodule(where).position.table  # (1+N, D), the class token's first
    table.copy_(torch.cat([table[:1], table[1:].roll(1, 0)]))


MISTAKES: dict[str, Callable[[VisionTransformer, str], None]] = {
    "norms exchanged": exchange_norms,
    "q and k exchanged": exchange_q_and_k,
    "12 heads instead of 6": double_heads,
    "γ of the attention forgotten": forget_layer_scale,
    "ReLU instead of GELU": use_relu,
    "red and blue exchanged": exchange_red_and_blue,
    "positions moved by one": move_positions,
}
IN_EMBEDDINGS = ("red and blue exchanged", "positions moved by one")


@torch.no_grad()
def sabotage(model: VisionTransformer, mistake: str, where: str) -> VisionTransformer:
    """Return a copy of DINOv2 with one of MISTAKES in the part `where`: "encoder.6", or "embeddings" for the last two.

    Raises KeyError for another mistake, AttributeError for a part in which it cannot be.
    """
    copy = deepcopy(model)
    MISTAKES[mistake](copy, where)
    return copy


@dataclass
class Suspect:
    """A copy of a model with one mistake. What it is, and where, is not shown until `reveal` is called."""

    model: VisionTransformer = field(repr=False)
    original: VisionTransformer = field(repr=False)
    mistake: str = field(repr=False)
    where: str = field(repr=False)

    def reveal(self) -> str:
        return f"{self.mistake}, in {self.where}"


def sabotaged(model: VisionTransformer, count: int = 3, seed: int | None = None) -> list[Suspect]:
    """Return copies of DINOv2, each with another mistake. They are new each time, unless there is a seed."""
    draw = random.Random(seed)
    mistakes = draw.sample(list(MISTAKES), count)
    places = ["embeddings" if mistake in IN_EMBEDDINGS else f"encoder.{draw.choice(BLOCKS)}" for mistake in mistakes]
    return [Suspect(sabotage(model, *found), model, *found) for found in zip(mistakes, places, strict=True)]
