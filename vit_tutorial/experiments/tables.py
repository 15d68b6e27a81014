"""The stored tables that the notebooks read. Each is made by the script of its name in `notebooks/tables/`."""

import csv
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from ..errors import require_choice

RESULTS = Path(__file__).with_name("results")


class Course(NamedTuple):
    """A training run, measured on scenes without augmentation 14 times: (3, 14), a row for each seed."""

    epochs: Tensor
    training_loss: Tensor
    validation_loss: Tensor
    validation_accuracy: Tensor


def read_table(name: str, about: Sequence[str], columns: Sequence[str]) -> dict[tuple[str, ...], list[tuple]]:
    """Return {the cells in the columns `about`: [the numbers in `columns`, for each seed]}."""
    require_choice("table", name, sorted(path.stem for path in RESULTS.glob("*.csv")))
    found = defaultdict(list)
    with (RESULTS / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            key = tuple(line[column] for column in about)
            found[key].append(tuple(read_numbers(line[column]) for column in columns))
    return dict(found)


def read_numbers(cell: str) -> int | float | list[int | float]:
    """Return the number in a cell, or the numbers of a curve, with spaces between them."""
    numbers = [int(part) if part.isdigit() else float(part) for part in cell.split()]
    return numbers if len(numbers) > 1 else numbers[0]


def load_results(name: str, *about: str, value: str = "accuracy") -> dict:
    """Return {row: [a value for each seed]} of a table, or {cells: values} for the cells in the columns `about`.

    Accuracies go from 0 to 1. Raises ValueError for a table that is not there.
    """
    table = read_table(name, about or ["row"], [value])
    values = {key: [number for (number,) in runs] for key, runs in table.items()}
    return values if about else {row: found for (row,), found in values.items()}


def load_block_runs() -> dict[tuple[str, float], Float[Tensor, "S steps"]]:
    """Return the loss at 150 steps by the kind of block and the start, as ("no norms", 0.5): three seeds, (3, 150)."""
    losses = load_results("blocks", "variant", "start", value="losses")
    return {(kind, float(start)): torch.tensor(runs) for (kind, start), runs in losses.items()}


def load_courses() -> dict[tuple[int, str], Course]:
    """Return the runs on few scenes, by the number of scenes and the augmentation."""
    table = read_table("scarce", ["scenes", "augmentation"], Course._fields)
    return {
        (int(scenes), way): Course(*(torch.tensor(curves, dtype=torch.float32) for curves in zip(*runs, strict=True)))
        for (scenes, way), runs in table.items()
    }
