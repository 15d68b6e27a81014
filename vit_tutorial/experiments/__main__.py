"""Make the tables that the notebooks read.

    python -m vit_tutorial.experiments ablations     what the parts of model and recipe are worth
    python -m vit_tutorial.experiments images        a ViT and a CNN, by the number of training images
    python -m vit_tutorial.experiments stem          patches of pixels, or of a small CNN's feature map
    python -m vit_tutorial.experiments resolution    the shipped model at another size
    python -m vit_tutorial.experiments examples      the shipped model on classes that it has not seen
    python -m vit_tutorial.experiments heads         what each head of the shipped CIFAR-10 model is worth

The first five train and test on Shapes, with three seeds each, and add a line after each run: interrupted, the same
command continues after the last one. The tables in the package are complete; `--out my_table.csv` makes your own.
"""

from __future__ import annotations

import argparse
import sys
from itertools import product
from pathlib import Path

from ..analysis import head_costs
from ..data import cifar10, image_folder
from ..pretrained import load_checkpoint
from ..training import print_progress
from .rows import EXPERIMENTS, run
from .tables import RESULTS, RUN_COLUMNS, SEEDS, append_lines, read_runs, save_head_costs


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m vit_tutorial.experiments",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=[*EXPERIMENTS, "heads"])
    parser.add_argument("--out", type=Path, help="the table (default: the one in the package)")
    parser.add_argument("--data", help="heads: a folder of test images, one folder per class (default: CIFAR-10)")
    asked = parser.parse_args(arguments)
    if asked.data and asked.name != "heads":
        parser.error("--data is for heads: the other tables are made with Shapes")
    path = asked.out or RESULTS / f"{asked.name}.csv"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if asked.name == "heads":
            images = image_folder(asked.data) if asked.data else cifar10(train=False)
            save_head_costs(costs := head_costs(load_checkpoint("cifar10"), images), path)
            print(f"{costs.right:,} of {costs.images:,} right; {path}")
        else:
            run_all(asked.name, path)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    return 0


def run_all(name: str, path: Path) -> None:
    """Add the runs that a table lacks."""
    if not path.exists():
        append_lines(path, [RUN_COLUMNS])
    done = read_runs(path, name)
    print(f"{len(done)} of {len(SEEDS) * len(EXPERIMENTS[name])} runs are in {path}", flush=True)
    for seed, (row, setting) in product(SEEDS, EXPERIMENTS[name].items()):
        if (row, seed) not in done:
            print(f"{row}, seed {seed}", flush=True)
            score = run(setting, seed, watch=[print_progress])
            append_lines(path, [(row, seed, score.accuracy)])
            print(f"{score.accuracy:.1%}", flush=True)


if __name__ == "__main__":
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # older terminals on Windows have no "×"
    sys.exit(main())
