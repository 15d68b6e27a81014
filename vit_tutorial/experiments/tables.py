"""The stored tables that the notebooks read. Each is made by the script of its name in `notebooks/tables/`."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float
from safetensors.torch import load_file
from torch import Tensor

from ..errors import require_choice

RESULTS = Path(__file__).with_name("results")


class Course(NamedTuple):
    """A training run at 14 equal distances, measured on scenes without augmentation; the first axis is the seed."""

    epochs: Tensor
    training_loss: Tensor
    validation_loss: Tensor
    validation_accuracy: Tensor


def read_table(name: str, about: Sequence[str], columns: Sequence[str]) -> dict:
    """Return what a table holds in some columns, in a list over the seeds, by what its lines are `about`.

    Of several columns the texts, and the numbers of each line, are a tuple.
    """
    require_choice("table", name, sorted(path.stem for path in RESULTS.glob("*.csv")))
    found = defaultdict(list)
    with (RESULTS / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            numbers = {column: read_numbers(line[column]) for column in columns}
            found[itemgetter(*about)(line)].append(itemgetter(*columns)(numbers))
    return dict(found)


def read_numbers(cell: str) -> int | float | list[int | float]:
    """Return the number in a cell, or the numbers of a curve, with spaces between them."""
    numbers = [int(part) if part.isdigit() else float(part) for part in cell.split()]
    return numbers if len(numbers) > 1 else numbers[0]


def stack(runs: list[tuple]) -> Course:
    """Return all runs as one, with the run as the first axis of each curve."""
    return Course(*(torch.tensor(curves, dtype=torch.float32) for curves in zip(*runs, strict=True)))


def load_results(name: str) -> dict[str, list[float]]:
    """Return the accuracies in a table, from 0 to 1, one for each seed, by the row. Raises ValueError for no table."""
    return read_table(name, ["row"], ["accuracy"])


# (wrong answers, scenes) of each seed: by size, way of moving and trained part; by what was changed and at which size
load_size_runs = partial(read_table, "sizes", ["size", "way", "trained"], ["wrong", "scenes"])
load_causes = partial(read_table, "causes", ["what", "where"], ["wrong", "scenes"])
# (points, half of their 95 % interval) of each seed, by what was on trial and by the cover
load_trials = partial(read_table, "trials", ["what", "cover"], ["points", "half"])


def load_block_runs() -> dict[str, Float[Tensor, "S steps"]]:
    """Return the losses of each kind of block and start, at 150 steps: (3, 150)."""
    return {kind: torch.tensor(losses) for kind, losses in read_table("blocks", ["variant"], ["losses"]).items()}


def load_courses() -> dict[tuple[int, str], Course]:
    """Return the runs on few scenes, by their number and the augmentation: curves of shape (3, 14)."""
    table = read_table("scarce", ["scenes", "augmentation"], Course._fields)
    return {(int(scenes), way): stack(runs) for (scenes, way), runs in table.items()}


def load_mirror_runs() -> dict[str, Float[Tensor, "S T D"]]:
    """Return the position embeddings that were trained on photos in three ways, one for each seed."""
    runs = load_file(RESULTS / "mirror.safetensors")
    ways = ("half flipped", "as they are", "turned")
    return {way: torch.stack([runs[f"{way}, seed {seed}"] for seed in range(3)]) for way in ways}


def load_mask_scores() -> dict[str, Float[Tensor, "S X"]]:
    """Return intersections over union by what a linear layer looked at: S seeds, and 1, 2, 5, 10, 20, 50 drawings."""
    scores = read_table("masks", ["looks at"], ["intersection over union"])
    return {name: torch.tensor(found).view(-1, min(len(found), 6)) for name, found in scores.items()}
