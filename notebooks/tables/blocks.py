"""Make blocks.csv, for lesson 04: stacks of twelve blocks that lack one thing.

Takes about 10 minutes on two cores.
"""

from common import SEEDS, cell, write_table
from vit_tutorial.experiments import try_stack

KINDS = ("complete block", "no residual sums", "no norms", "post-norm")
STARTS = {"": 1.0, ", half the weights": 0.5}

if __name__ == "__main__":
    lines = (
        (kind + name, seed, cell(try_stack(kind, start, seed=seed)))
        for seed in SEEDS
        for kind in KINDS
        for name, start in STARTS.items()
    )
    write_table("blocks", ["variant", "seed", "losses"], lines)
