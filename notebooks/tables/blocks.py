"""Make blocks.csv, for lesson 04: twelve blocks that lack one thing, or one norm of two.

Takes about 25 minutes on two cores.
"""

from __future__ import annotations

from common import SEEDS, cell, write_table
from torch import nn
from vit_tutorial.encoder import EncoderBlock
from vit_tutorial.experiments import try_stack
from vit_tutorial.experiments.blocks import STACKS

KINDS = ("complete block", "no residual sums", "no norms", "post-norm")
STARTS = (1.0, 0.85, 0.7, 0.5)


class NormBeforeAttention(EncoderBlock):
    def __init__(self, embed_dim: int, num_heads: int, mlp_dim: int):
        super().__init__(embed_dim, num_heads, mlp_dim)
        self.norm2 = nn.Identity()


class NormBeforeMlp(EncoderBlock):
    def __init__(self, embed_dim: int, num_heads: int, mlp_dim: int):
        super().__init__(embed_dim, num_heads, mlp_dim)
        self.norm1 = nn.Identity()


ONE_NORM = {"norm before attention only": NormBeforeAttention}
ONE_NORM |= {"norm before the MLP only": NormBeforeMlp}

if __name__ == "__main__":
    STACKS |= ONE_NORM
    rows = {(kind, start): (kind, start) for kind in KINDS for start in STARTS}
    rows |= {(kind, 1.0): (kind, 1.0) for kind in ONE_NORM}
    rows |= {(f"{kind}, rate 0.0001", 1.0): (kind, 1.0, 1e-4) for kind in KINDS}
    lines = (
        (*name, seed, cell(try_stack(*row, seed=seed)))
        for seed in SEEDS
        for name, row in rows.items()
    )
    write_table("blocks", ["variant", "start", "seed", "losses"], lines)
