"""What each head of the shipped CIFAR-10 model is worth, as the table that notebook 07 reads.

    python -m vit_tutorial.experiments.head_table
    python -m vit_tutorial.experiments.head_table --data my_cifar10

Without `--data` the test images are those of `cifar10()`; with it, those of a folder of classes (`image_folder`).
"""

from __future__ import annotations

import argparse
import csv
import sys
from itertools import product
from pathlib import Path

import torch

from ..analysis import HeadCosts, head_costs
from ..data import cifar10, image_folder
from ..pretrained import load_checkpoint

TABLE = Path(__file__).with_name("results") / "heads.csv"


def save_head_costs(costs: HeadCosts, path: Path) -> None:
    """One line for each head."""
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["layer", "head", "images", "right", "lost", "gained"])
        for layer, head in product(*map(range, costs.lost.shape)):
            changed = int(costs.lost[layer, head]), int(costs.gained[layer, head])
            table.writerow([layer, head, costs.images, costs.right, *changed])


def load_head_costs(path: Path = TABLE) -> HeadCosts:
    """The kept table."""
    with path.open(encoding="utf-8", newline="") as file:
        lines = [{key: int(value) for key, value in line.items()} for line in csv.DictReader(file)]
    shape = (lines[-1]["layer"] + 1, -1)
    lost, gained = (torch.tensor([line[key] for line in lines]).reshape(shape) for key in ("lost", "gained"))
    return HeadCosts(lines[0]["images"], lines[0]["right"], lost, gained)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m vit_tutorial.experiments.head_table",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", help="a folder with one folder of test images for each class")
    parser.add_argument("--out", type=Path, default=TABLE, help="the table (default: the one in the package)")
    asked = parser.parse_args(arguments)
    images = image_folder(asked.data) if asked.data else cifar10(train=False)
    costs = head_costs(load_checkpoint("cifar10"), images)
    save_head_costs(costs, asked.out)
    print(f"{costs.right:,} of {costs.images:,} right; {asked.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
