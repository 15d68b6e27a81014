"""Make blocks.csv, for lesson 04: stacks of twelve blocks that lack one thing.

Takes about 15 minutes on two cores.
"""

from common import SEEDS, cell, write_table
from vit_tutorial.experiments.blocks import STACKS, try_stack
from vit_tutorial.experiments.tables import BlockRun

STARTS = {"": {}, ", half the weights": {"start": 0.5}, ", std 0.02": {"std": 0.02}}

RUNS = {kind + name: (kind, start) for kind in STACKS for name, start in STARTS.items()}
RUNS["complete block, four times the weights"] = "complete block", {"start": 4.0}
RUNS["post-norm, rate 0.0002"] = "post-norm", {"rate": 2e-4}
RUNS["no residual sums, rate 0.0003"] = "no residual sums", {"rate": 3e-4}

if __name__ == "__main__":
    lines = (
        (name, seed, *map(cell, try_stack(kind, seed=seed, **more)))
        for seed in SEEDS
        for name, (kind, more) in RUNS.items()
    )
    write_table("blocks", ["variant", "seed", *BlockRun._fields], lines)
