"""Make blocks.csv, for lesson 04: stacks of twelve blocks that lack one thing, from three starts.

Takes about 15 minutes on two cores.
"""

from common import SEEDS, cell, write_table
from vit_tutorial.experiments.blocks import STACKS, try_stack
from vit_tutorial.experiments.tables import BlockRun

STARTS = {"": {}, ", half the weights": {"start": 0.5}, ", std 0.02": {"std": 0.02}}

if __name__ == "__main__":
    lines = (
        (kind + name, seed, *map(cell, try_stack(kind, seed=seed, **start)))
        for seed in SEEDS
        for kind in STACKS
        for name, start in STARTS.items()
    )
    write_table("blocks", ["variant", "seed", *BlockRun._fields], lines)
