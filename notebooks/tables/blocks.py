"""Make blocks.csv, for lesson 04: twelve blocks that lack one thing, and the explosion on trial.

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


TRIALS = {
    "no norms, gradient kept at 1": NoExplosion,
    "complete block, gradient kept at 1": Control,
}

if __name__ == "__main__":
    STACKS |= TRIALS
    rows = {(kind, start): (kind, start) for kind in KINDS for start in STARTS}
    rows |= {(kind, 1.0): (kind, 1.0) for kind in TRIALS}
    rows |= {(f"{kind}, rate 0.0001", 1.0): (kind, 1.0, 1e-4) for kind in KINDS}
    lines = (
        (*name, seed, cell(try_stack(*row, seed=seed)))
        for seed in SEEDS
        for name, row in rows.items()
    )
    write_table("blocks", ["variant", "start", "seed", "losses"], lines)
