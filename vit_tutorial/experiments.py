"""Comparisons on Shapes over three seeds, kept as the tables that the notebooks read.

    python -m vit_tutorial.experiments ablations
    python -m vit_tutorial.experiments images

A table gets a line after each run. Interrupted, the same command goes on after the last one.
"""

from __future__ import annotations

import argparse
import csv
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from .convnet import small_cnn
from .data import Shapes
from .model import VisionTransformer
from .train import PRESETS
from .training import Score, evaluate, fit, print_progress
from .training.progress import Watch
from .validation import check_choice

RESULTS = Path(__file__).with_name("results")
SEEDS = (0, 1, 2)
TEST_SCENES = 6400
IMAGES_SHOWN = 64_000  # in every run, however many different ones there are: the same work for all
WARMUP = 0.05  # of the run


@dataclass(frozen=True)
class Setting:
    """One row of a table: what it changes of `python -m vit_tutorial.train --dataset shapes`."""

    scenes: int = 32_000
    cnn: bool = False
    config: Mapping[str, object] = field(default_factory=dict)
    recipe: Mapping[str, object] = field(default_factory=dict)


EXPERIMENTS = {
    "ablations": {
        "as it is": Setting(),
        "no warm-up": Setting(recipe={"warmup_epochs": 0.0}),
        "no decay of the rate": Setting(recipe={"schedule": "constant"}),
        "no weight decay": Setting(recipe={"weight_decay": 0.0}),
        "no positions": Setting(config={"position": "none"}),
        "sin-cos positions": Setting(config={"position": "sincos"}),
        "factorized positions": Setting(config={"position": "factorized"}),
        "mean of the patches": Setting(config={"pool": "mean"}),
    },
    "images": {
        f"{name}, {scenes:,} images": Setting(scenes, cnn=name == "CNN", recipe=recipe)
        for name, recipe in (("ViT", {}), ("CNN", {"learning_rate": 3e-3}))
        for scenes in (100, 500, 2000, 8000, 32_000)
    },
}


def run(setting: Setting, seed: int, watch: Iterable[Watch] = ()) -> Score:
    """Train one row with one seed and test it. The images are the same for every seed; weights and order are not."""
    preset, epochs = PRESETS["shapes"], IMAGES_SHOWN // setting.scenes
    recipe = replace(preset.recipe, epochs=epochs, warmup_epochs=WARMUP * epochs, seed=seed)
    recipe = replace(recipe, **setting.recipe)
    config = replace(preset.config, **setting.config)
    images = Shapes(setting.scenes, config.image_size, seed=0)
    torch.manual_seed(seed)
    model = small_cnn(config.num_classes) if setting.cnn else VisionTransformer(config)
    fit(model, images, recipe, watch=watch)
    return evaluate(model, Shapes(TEST_SCENES, config.image_size, seed=1))


def load_results(name: str) -> dict[str, list[float]]:
    """The accuracies of an experiment, from 0 to 1: for each row, one for each seed."""
    check_choice("experiment", name, EXPERIMENTS)
    found: dict[str, list[float]] = {row: [] for row in EXPERIMENTS[name]}
    for line in read_lines(RESULTS / f"{name}.csv"):
        found[line["row"]].append(float(line["accuracy"]))
    return found


def read_lines(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m vit_tutorial.experiments",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=EXPERIMENTS)
    parser.add_argument("--out", type=Path, help="the table (default: the one in the package)")
    asked = parser.parse_args(arguments)
    path = asked.out or RESULTS / f"{asked.name}.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        path.write_text("row,seed,accuracy\n", encoding="utf-8")
    done = {(line["row"], int(line["seed"])) for line in read_lines(path)}
    for seed in SEEDS:
        for row, setting in EXPERIMENTS[asked.name].items():
            if (row, seed) not in done:
                print(f"{row}, seed {seed}", flush=True)
                score = run(setting, seed, watch=[print_progress])
                with path.open("a", encoding="utf-8", newline="") as file:
                    csv.writer(file, lineterminator="\n").writerow([row, seed, score.accuracy])
                print(f"{score.accuracy:.1%}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
