"""Make blocks.csv, for lesson 04: twelve blocks that lack one thing, or one norm of two.

Takes about 25 minutes on two cores.
"""

from __future__ import annotations

from common import SEEDS, cell, write_table
from torch import Tensor, nn
from vit_tutorial.attention import attend, split_heads
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


class NormForSome(EncoderBlock):
    """Norm what the queries and keys are made of, or the values, and nothing else."""

    chosen = ()

    def forward(self, z: Tensor) -> Tensor:
        plain, normed = (self.attention.qkv(x).chunk(3, dim=-1) for x in (z, self.norm1(z)))
        qkv = (normed[i] if i in self.chosen else plain[i] for i in range(3))
        mixed, _ = attend(*(split_heads(part, self.attention.num_heads) for part in qkv))
        z = z + self.attention.projection(mixed.transpose(1, 2).flatten(2))
        return z + self.mlp(z)


class NormForQueriesAndKeys(NormForSome):
    chosen = (0, 1)


class NormForValues(NormForSome):
    chosen = (2,)


ONE_NORM = {"norm before attention only": NormBeforeAttention}
ONE_NORM |= {"norm before the MLP only": NormBeforeMlp}
ONE_NORM |= {"for queries and keys only": NormForQueriesAndKeys, "for values only": NormForValues}

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
