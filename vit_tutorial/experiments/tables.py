"""The stored tables that the notebooks read: CSV files, of which each line is one run, or one attention head."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path

import torch
from torch import Tensor

from ..analysis import HeadCosts
from ..errors import require_choice
from .blocks import BlockRun
from .rows import EXPERIMENTS
from .scarce import Course
from .sizes import SizeRun

SEEDS = (0, 1, 2)
RESULTS = Path(__file__).with_name("results")
RUN_COLUMNS = {"row": str, "seed": int, "accuracy": float}
HEAD_COLUMNS = dict.fromkeys(("layer", "head", "images", "right", "lost", "gained"), int)


def load_results(name: str) -> dict[str, list[float]]:
    """Return the accuracies of an experiment, from 0 to 1: for each row a list, with one accuracy per seed."""
    require_choice("experiment", name, EXPERIMENTS)
    lines = read_lines(RESULTS / f"{name}.csv", RUN_COLUMNS)
    return {row: [accuracy for found, _, accuracy in lines if found == row] for row in EXPERIMENTS[name]}


def numbers(text: str) -> list[float]:
    return [float(value) for value in text.split()]


def to_text(values: Tensor) -> str:
    return " ".join(f"{value:.4g}" for value in values.tolist())


BLOCK_COLUMNS = {"variant": str, "seed": int, **dict.fromkeys(BlockRun._fields, numbers)}


def load_block_runs(path: Path = RESULTS / "blocks.csv") -> dict[str, BlockRun]:
    """Return what was measured of each variant of the block, as `BlockRun`s with a row for each seed: (S, ...)."""
    found: dict[str, list[list]] = {}
    for variant, _, *run in read_lines(path, BLOCK_COLUMNS):
        found.setdefault(variant, []).append(run)
    return {variant: BlockRun(*map(torch.tensor, zip(*runs, strict=True))) for variant, runs in found.items()}


COURSE_COLUMNS = {"scenes": int, "augmentation": str, "seed": int, **dict.fromkeys(Course._fields, numbers)}


def load_courses(path: Path = RESULTS / "scarce.csv") -> dict[tuple[int, str], Course]:
    """Return the runs on few scenes by their number and augmentation, with a row for each seed: (S, 14)."""
    found: dict[tuple[int, str], list[list]] = {}
    for scenes, augmentation, _, *run in read_lines(path, COURSE_COLUMNS):
        found.setdefault((scenes, augmentation), []).append(run)
    return {key: Course(*map(torch.tensor, zip(*runs, strict=True))) for key, runs in found.items()}


SIZE_COLUMNS = {"size": str, "seed": int, "way": str, "trained": str, **dict.fromkeys(SizeRun._fields, int)}


def load_size_runs(path: Path = RESULTS / "sizes.csv") -> dict[tuple[str, str, str], list[SizeRun]]:
    """Return the runs at other sizes by size, way and what was trained there: for each a list, with one per seed."""
    found: dict[tuple[str, str, str], list[SizeRun]] = {}
    for size, _, way, trained, *counts in read_lines(path, SIZE_COLUMNS):
        found.setdefault((size, way, trained), []).append(SizeRun(*counts))
    return found


SUSPECT_COLUMNS = {
    "positions": str,
    "seed": int,
    "size": str,
    "object": float,
    "change": str,
    "right": int,
    "scenes": int,
}


def load_suspects(path: Path = RESULTS / "suspects.csv") -> dict[tuple[str, str, float, str], list[float]]:
    """Return lists of accuracies, one per seed, by the model's positions, the size, the object and what was changed."""
    found: dict[tuple[str, str, float, str], list[float]] = {}
    for positions, _, size, scale, change, right, scenes in read_lines(path, SUSPECT_COLUMNS):
        found.setdefault((positions, size, scale, change), []).append(right / scenes)
    return found


def load_head_costs(path: Path = RESULTS / "heads.csv") -> HeadCosts:
    """Read what masking each head costs; the stored table is that of the shipped CIFAR-10 model."""
    layers, _, images, right, lost, gained = torch.tensor(read_lines(path, HEAD_COLUMNS)).T
    grid = (len(layers.unique()), -1)
    return HeadCosts(images[0].item(), right[0].item(), lost.reshape(grid), gained.reshape(grid))


def save_head_costs(costs: HeadCosts, path: Path) -> None:
    """Write a line for each head."""
    heads = product(*map(range, costs.lost.shape))
    lines = [(*head, costs.images, costs.right, costs.lost[head].item(), costs.gained[head].item()) for head in heads]
    path.unlink(missing_ok=True)
    append_lines(path, [HEAD_COLUMNS, *lines])


def read_lines(path: Path, columns: Mapping[str, type]) -> list[tuple]:
    """Return the lines of a table after its header. Raises ValueError unless all are whole and of these types."""
    try:
        text = path.read_text(encoding="utf-8")
        header, *lines = csv.reader(text.splitlines())
        if header != list(columns) or not text.endswith("\n"):
            raise ValueError("its first or its last line is cut off")
        return [tuple(kind(value) for kind, value in zip(columns.values(), line, strict=True)) for line in lines]
    except ValueError as error:
        raise ValueError(f"{path} is no table of {', '.join(columns)}: {error}") from None


def append_lines(path: Path, lines: Iterable[Iterable[object]]) -> None:
    """Add lines to a table; create it if there is none."""
    with path.open("a", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)
