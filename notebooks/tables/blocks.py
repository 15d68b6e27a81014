"""Make blocks.csv, for lesson 04: twelve blocks that lack one thing, and two suspects on trial.

Takes about 25 minutes on two cores.
"""

from __future__ import annotations

import torch
from common import SEEDS, cell, write_table
from torch import Tensor
from vit_tutorial.encoder import EncoderBlock
from vit_tutorial.experiments import try_stack
from vit_tutorial.experiments.blocks import STACKS, NoNorms

KINDS = ("complete block", "no residual sums", "no norms", "post-norm")
STARTS = (1.0, 0.85, 0.7, 0.5)


class SameLength(torch.autograd.Function):
    """Return what is given. On the way back, the gradient of the batch gets a length of 1."""

    @staticmethod
    def forward(ctx, z: Tensor) -> Tensor:
        return z.clone()

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        return gradient / gradient.norm().clamp_min(1e-9)  # a head of zeros sends none


class NoExplosion(NoNorms):
    def forward(self, z: Tensor) -> Tensor:
        return SameLength.apply(super().forward(z))


class Control(EncoderBlock):
    def forward(self, z: Tensor) -> Tensor:
        return SameLength.apply(super().forward(z))


class SameQueries(EncoderBlock):
    """Never train the queries and the keys: no gradient reaches them."""

    def __init__(self, embed_dim: int, num_heads: int, mlp_dim: int):
        super().__init__(embed_dim, num_heads, mlp_dim)
        for parameter in self.attention.qkv.parameters():
            of_values = (torch.arange(len(parameter)) >= 2 * embed_dim).float()
            of_values = of_values.view(-1, *[1] * (parameter.ndim - 1))
            parameter.register_hook(of_values.mul)


TRIALS = {
    "no norms, gradient kept at 1": NoExplosion,
    "complete block, gradient kept at 1": Control,
}
TRIALS["complete block, q and k untrained"] = SameQueries

if __name__ == "__main__":
    STACKS |= TRIALS
    rows = [(kind, start) for kind in KINDS for start in STARTS] + [(kind, 1.0) for kind in TRIALS]
    lines = (
        (kind, start, seed, cell(try_stack(kind, start, seed=seed)))
        for seed in SEEDS
        for kind, start in rows
    )
    write_table("blocks", ["variant", "start", "seed", "losses"], lines)
