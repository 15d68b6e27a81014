"""Comparisons on Shapes over three seeds, kept as the tables that the notebooks read.

    python -m vit_tutorial.experiments ablations     what the parts of model and recipe are worth
    python -m vit_tutorial.experiments images        a ViT and a CNN, by the number of training images
    python -m vit_tutorial.experiments stem          patches of pixels, or of a small CNN's feature map
    python -m vit_tutorial.experiments resolution    the shipped model at another size
    python -m vit_tutorial.experiments examples      the shipped model on classes that it has not seen

A table gets a line after each run. Interrupted, the same command goes on after the last one. The tables in the
package are whole: `--out my_table.csv` makes one of your own.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch

from ..errors import require_choice
from ..train import print_on_any_terminal
from ..training import Score, print_progress
from ..training.progress import Watch
from .adapted import MOVING, NewSize, NewTask
from .from_scratch import FROM_SCRATCH, Setting

RESULTS = Path(__file__).with_name("results")
SEEDS = (0, 1, 2)
HEAD = ["row", "seed", "accuracy"]


Row = Setting | NewSize | NewTask
EXPERIMENTS: dict[str, Mapping[str, Row]] = {**FROM_SCRATCH, **MOVING}


def run(row: Row, seed: int, watch: Iterable[Watch] = ()) -> Score:
    """Train one row with one seed and test it. The global random generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        return row.run(seed, watch)


def load_results(name: str) -> dict[str, list[float]]:
    """The accuracies of an experiment, from 0 to 1: for each row, one for each seed."""
    require_choice("experiment", name, EXPERIMENTS)
    found: dict[str, list[float]] = {row: [] for row in EXPERIMENTS[name]}
    for (row, _), accuracy in read_table(RESULTS / f"{name}.csv", name).items():
        found[row].append(accuracy)
    return found


def read_table(path: Path, name: str) -> dict[tuple[str, int], float]:
    """Accuracies by row and seed. Raises ValueError for a file that is no whole table of this experiment."""
    try:
        text = path.read_text(encoding="utf-8")
        head, *lines = csv.reader(text.splitlines())
        found = {(row, int(seed)): float(accuracy) for row, seed, accuracy in lines}
    except ValueError as error:
        raise ValueError(f"{path} is no table of {name!r}: {error}") from None
    if other := [row for row, _ in found if row not in EXPERIMENTS[name]]:
        raise ValueError(f"{path} is no table of {name!r}, which has no row {other[0]!r}")
    if head != HEAD or not text.endswith("\n"):
        raise ValueError(f"{path} is no whole table of {name!r}: its first or its last line is cut off")
    return found


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    print_on_any_terminal()
    parser = argparse.ArgumentParser(
        prog="python -m vit_tutorial.experiments",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=EXPERIMENTS)
    parser.add_argument("--out", type=Path, help="the table (default: the one in the package)")
    asked = parser.parse_args(arguments)
    path = asked.out or RESULTS / f"{asked.name}.csv"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text(",".join(HEAD) + "\n", encoding="utf-8")
        done = read_table(path, asked.name)
    except (ValueError, OSError) as error:
        parser.error(str(error))
    print(f"{len(done)} of {len(SEEDS) * len(EXPERIMENTS[asked.name])} runs are in {path}", flush=True)
    for seed in SEEDS:
        for row, setting in EXPERIMENTS[asked.name].items():
            if (row, seed) not in done:
                print(f"{row}, seed {seed}", flush=True)
                score = run(setting, seed, watch=[print_progress])
                with path.open("a", encoding="utf-8", newline="") as file:
                    csv.writer(file, lineterminator="\n").writerow([row, seed, score.accuracy])
                print(f"{score.accuracy:.1%}", flush=True)
    return 0
