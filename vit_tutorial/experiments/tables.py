"""The stored tables that the notebooks read. Each is made by the script of its name in `notebooks/tables/`."""

from __future__ import annotations

import csv
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float
from safetensors.torch import load_file
from torch import Tensor

RESULTS = Path(__file__).with_name("results")


class BlockRun(NamedTuple):
    """Twelve blocks of one kind, at the start and in training; the first axis of a stored run is the seed.

    `lengths` (13,): root mean square over a token's values, mean over the tokens of 64 images, before and after each
    block. `apart` (13,): how far tokens are from the mean token of their image, as a share of their length.
    Both are measured at the start. `losses` (150,): cross-entropy of each step's 64 images, new in every step.
    """

    lengths: Tensor
    apart: Tensor
    losses: Tensor


class Course(NamedTuple):
    """A training run at 14 equal distances; the first axis of a stored run is the seed.

    Losses and accuracy are of scenes as they are, without augmentation.
    """

    epochs: Tensor
    training_loss: Tensor
    validation_loss: Tensor
    validation_accuracy: Tensor


def load_results(name: str) -> dict[str, list[float]]:
    """Return for each row of a table with a column "accuracy" its accuracies, from 0 to 1, one for each seed."""
    return read_table(name, "row", value=lambda line: float(line["accuracy"]))


def load_block_runs() -> dict[str, BlockRun]:
    """Return the runs of each kind of block: (3, 13) lengths and apart, and (3, 150) losses."""
    return {kind: stack_runs(BlockRun, lines) for kind, lines in read_table("blocks", "variant").items()}


def load_courses() -> dict[tuple[int, str], Course]:
    """Return the runs on few scenes, by their number and the augmentation: curves of shape (3, 14)."""
    table = read_table("scarce", "scenes", "augmentation")
    return {(int(scenes), way): stack_runs(Course, lines) for (scenes, way), lines in table.items()}


def load_size_runs() -> dict[tuple[str, str, str], list[tuple[int, int]]]:
    """Return (wrong answers, scenes), one for each seed, by size, way of moving and the part that was trained there."""
    return read_table("sizes", "size", "way", "trained", value=count_wrong)


def load_causes() -> dict[tuple[str, str], list[tuple[int, int]]]:
    """Return (wrong answers, scenes), one for each seed, by what was changed and at which size."""
    return read_table("causes", "what", "where", value=count_wrong)


def load_trials() -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Return (points, half of their 95 % interval), one for each seed, by what was on trial and by the cover."""
    return read_table("trials", "what", "cover", value=lambda line: (float(line["points"]), float(line["half"])))


def load_mirror_runs() -> dict[str, Float[Tensor, "S T D"]]:
    """Return the position embeddings that were trained on photos in three ways, one for each seed."""
    runs = load_file(RESULTS / "mirror.safetensors")  # "as they are, seed 0" and so on
    ways = ("half flipped", "as they are", "turned")
    return {way: torch.stack([runs[f"{way}, seed {seed}"] for seed in range(3)]) for way in ways}


def load_mask_scores() -> dict[str, Float[Tensor, "S X"]]:
    """Return intersections over union by what a linear layer looked at: for S seeds and 1, 2, 5, 10, 20, 50 drawings.

    What learned from no drawing has one value.
    """
    table = read_table("masks", "looks at", value=lambda line: float(line["intersection over union"]))
    return {name: torch.tensor(scores).view(-1, min(len(scores), 6)) for name, scores in table.items()}


def read_table(name: str, *about: str, value: Callable[[dict[str, str]], object] = dict) -> dict[object, list]:
    """Return the value of each line of a stored table, those of all seeds together, by its column or columns `about`.

    Without `value` it is the line itself, {column: text}.
    """
    found = {}
    with (RESULTS / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            found.setdefault(itemgetter(*about)(line), []).append(value(line))
    return found


def count_wrong(line: dict[str, str]) -> tuple[int, int]:
    return int(line["scenes"]) - int(line["right"]), int(line["scenes"])


def stack_runs(kind: type, lines: list[dict[str, str]]) -> tuple:
    """Return the runs of all seeds as one of this kind. A cell holds a curve, numbers with spaces between them."""
    curves = {name: [[float(value) for value in line[name].split()] for line in lines] for name in kind._fields}
    return kind(**{name: torch.tensor(curve) for name, curve in curves.items()})
