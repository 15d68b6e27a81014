"""What each of two processes does that train together: it writes down what it saw.

They are started with the environment that `torchrun` gives its processes.
"""

import json
import os
from pathlib import Path

import torch

from vit_tutorial import train
from vit_tutorial.training import loop

from .toys import SMALL, float64

# Batches of 15 and 16 images, each cut in two.
COMMAND = f"{SMALL} --scenes 61 --epochs 1 --batch-size 16 --crop 2 --flip --randaugment --label-smoothing 0.1"


def command(out: Path) -> int:
    """The command, in float64: Adam makes a whole step of a gradient that is nothing but float32's rounding."""
    with float64():
        return train.main([*COMMAND.split(), "--out", str(out)])


def main(folder: Path, rank: int, port: int) -> int:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    seen = {"seeds": [], "written": []}
    seed, put = loop.seed_process, os.replace
    loop.seed_process = lambda number: seed(number) or seen["seeds"].append(torch.initial_seed())
    os.replace = lambda part, path: seen["written"].append(Path(path).name) or put(part, path)
    status = command(folder / "run")
    (folder / f"seen-{rank}.json").write_text(json.dumps(seen), encoding="utf-8")
    return status
