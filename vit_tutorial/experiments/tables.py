"""The stored tables that the notebooks read: CSV files, of which each line is one run, or one attention head."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import torch

from ..analysis import HeadCosts
from ..errors import require_choice
from .rows import EXPERIMENTS

SEEDS = (0, 1, 2)
RESULTS = Path(__file__).with_name("results")
RUN_COLUMNS = ("row", "seed", "accuracy")
HEAD_COLUMNS = ("layer", "head", "images", "right", "lost", "gained")


def load_results(name: str) -> dict[str, list[float]]:
    """Return the accuracies of an experiment, from 0 to 1: for each row a list, with one accuracy per seed."""
    require_choice("experiment", name, EXPERIMENTS)
    found: dict[str, list[float]] = {row: [] for row in EXPERIMENTS[name]}
    for (row, _), accuracy in read_runs(RESULTS / f"{name}.csv", name).items():
        found[row].append(accuracy)
    return found


def read_runs(path: Path, name: str) -> dict[tuple[str, int], float]:
    """Return accuracies by row and seed. Raises ValueError for a file that is no whole table of this experiment."""
    found = {(row, int(seed)): float(accuracy) for row, seed, accuracy in read_lines(path, RUN_COLUMNS)}
    if other := [row for row, _ in found if row not in EXPERIMENTS[name]]:
        raise ValueError(f"{path} is no table of {name!r}, which has no row {other[0]!r}")
    return found


def load_head_costs(path: Path = RESULTS / "heads.csv") -> HeadCosts:
    """Read what masking each head of the shipped CIFAR-10 model costs."""
    lines = torch.tensor([list(map(int, line)) for line in read_lines(path, HEAD_COLUMNS)])
    layers, _, (images, *_), (right, *_), lost, gained = lines.T
    grid = (len(layers.unique()), -1)
    return HeadCosts(images.item(), right.item(), lost.reshape(grid), gained.reshape(grid))


def read_lines(path: Path, columns: Sequence[str]) -> list[list[str]]:
    """Return the lines of a table without its header. Raises ValueError unless all are whole and have these columns."""
    text = path.read_text(encoding="utf-8", errors="replace")
    header, *lines = list(csv.reader(text.splitlines())) or [[]]
    if header != list(columns) or not text.endswith("\n") or any(len(line) != len(columns) for line in lines):
        raise ValueError(f"{path} is no whole table of {', '.join(columns)}")
    return lines


def append_lines(path: Path, *lines: Sequence[object]) -> None:
    """Add lines to a table; create it if there is none."""
    with path.open("a", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)
