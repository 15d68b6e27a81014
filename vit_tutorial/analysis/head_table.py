"""Mask every head of the shipped CIFAR-10 model and keep the table that notebook 07 reads.

    python -m vit_tutorial.analysis.head_table
    python -m vit_tutorial.analysis.head_table --data my_cifar10

Without `--data` the test images are those of `cifar10()`; with it, those of a folder of classes (`image_folder`).
"""

from __future__ import annotations

import argparse
import sys

from ..data import cifar10, image_folder
from ..pretrained import load_checkpoint
from .heads import head_costs, save_head_costs


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m vit_tutorial.analysis.head_table",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", help="a folder with one folder of test images for each class")
    asked = parser.parse_args(arguments)
    images = image_folder(asked.data) if asked.data else cifar10(train=False)
    costs = head_costs(load_checkpoint("cifar10"), images)
    print(f"{costs.right:,} of {costs.images:,} right; {save_head_costs(costs, 'cifar10')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
