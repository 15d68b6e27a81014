"""Make the tables that the notebooks read.

    python -m vit_tutorial.experiments ablations     what the parts of model and recipe are worth
    python -m vit_tutorial.experiments images        a ViT and a CNN, by the number of training images
    python -m vit_tutorial.experiments rates         the learning rate
    python -m vit_tutorial.experiments scarce        few images: overfitting, and what augmentation does about it
    python -m vit_tutorial.experiments stem          patches of pixels, or of a small CNN's feature map
    python -m vit_tutorial.experiments sizes         at another size: which positions, and what to train there
    python -m vit_tutorial.experiments suspects      at another size: is it the ground, the object or the positions?
    python -m vit_tutorial.experiments examples      the shipped model on classes that it has not seen
    python -m vit_tutorial.experiments probe         the same with a linear probe, fitted to convergence
    python -m vit_tutorial.experiments heads         what each head of the shipped CIFAR-10 model is worth
    python -m vit_tutorial.experiments blocks        the encoder block, and blocks that lack one thing
    python -m vit_tutorial.experiments mirror        positions learned from photos as they are, flipped, and turned

Most train and test on Shapes, with three seeds each, and add a line after each run: interrupted, the same command
continues after the last one. The tables in the package are complete; `--out my_table.csv` makes your own.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from itertools import product
from pathlib import Path

from ..analysis import head_costs
from ..data import ImageSet, cifar10, image_folder
from ..pretrained import load_checkpoint
from ..saving import read, write
from ..training import print_progress
from .blocks import VARIANTS, measure_block
from .mirror import MAPS, WAYS, train_positions
from .rows import EXPERIMENTS, run
from .scarce import AUGMENTATIONS, SCENES, measure_course
from .sizes import SIZES, measure_size
from .suspects import measure_suspects
from .tables import (
    BLOCK_COLUMNS,
    COURSE_COLUMNS,
    RESULTS,
    RUN_COLUMNS,
    SEEDS,
    SIZE_COLUMNS,
    SUSPECT_COLUMNS,
    append_lines,
    read_lines,
    read_runs,
    save_head_costs,
    to_text,
)


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m vit_tutorial.experiments",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("name", choices=[*EXPERIMENTS, "scarce", "sizes", "suspects", "heads", "blocks", "mirror"])
    parser.add_argument("--out", type=Path, help="the table (default: the one in the package)")
    parser.add_argument("--data", help="heads, mirror: a folder of images, one folder per class (default: CIFAR-10)")
    asked = parser.parse_args(arguments)
    if asked.data and asked.name not in ("heads", "mirror"):
        parser.error("--data is for heads and mirror: the other tables are made with Shapes")
    path = asked.out or (MAPS if asked.name == "mirror" else RESULTS / f"{asked.name}.csv")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        if asked.name == "heads":
            images = image_folder(asked.data, 32) if asked.data else cifar10(train=False)
            save_head_costs(costs := head_costs(load_checkpoint("cifar10"), images), path)
            print(f"{costs.right:,} of {costs.images:,} right; {path}")
        elif asked.name == "blocks":
            run_blocks(path)
        elif asked.name == "scarce":
            run_scarce(path)
        elif asked.name == "sizes":
            run_sizes(path)
        elif asked.name == "suspects":
            run_suspects(path)
        elif asked.name == "mirror":
            run_mirror(path, image_folder(asked.data, 32) if asked.data else cifar10())
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


def run_blocks(path: Path) -> None:
    """Add the variants of the block that a table lacks."""
    done = begin(path, BLOCK_COLUMNS)
    for seed, variant in product(SEEDS, VARIANTS):
        if (variant, seed) not in done:
            print(f"{variant}, seed {seed}", flush=True)
            append_lines(path, [(variant, seed, *map(to_text, measure_block(variant, seed)))])


def run_scarce(path: Path) -> None:
    """Add the runs on few scenes that a table lacks."""
    done = begin(path, COURSE_COLUMNS)
    for seed, scenes, augmentation in product(SEEDS, SCENES, AUGMENTATIONS):
        if (scenes, augmentation, seed) not in done:
            print(f"{scenes} scenes, {augmentation}, seed {seed}", flush=True)
            course = measure_course(scenes, augmentation, seed)
            append_lines(path, [(scenes, augmentation, seed, *map(to_text, course))])


def run_sizes(path: Path) -> None:
    """Add the sizes that a table lacks, each with all its runs of one seed."""
    done = begin(path, SIZE_COLUMNS)
    for seed, size in product(SEEDS, SIZES):
        if (size, seed) not in done:
            print(f"{size}, seed {seed}", flush=True)
            runs = measure_size(size, seed)
            append_lines(path, [(size, seed, *about, *run) for about, run in runs.items()])


def run_suspects(path: Path) -> None:
    """Add the models that a table lacks, each with all its changes."""
    done = begin(path, SUSPECT_COLUMNS)
    for seed, positions in product(SEEDS, ("learned", "none")):
        if (positions, seed) not in done:
            print(f"positions: {positions}, seed {seed}", flush=True)
            counts = measure_suspects(positions, seed, scenes=1600)
            append_lines(path, [(positions, seed, *about, right, 1600) for about, right in counts.items()])


def begin(path: Path, columns: Mapping[str, type]) -> set[tuple]:
    """Create the table if there is none; return what its lines are about: all up to the seed."""
    if not path.exists():
        append_lines(path, [columns])
    about = 1 + list(columns).index("seed")
    return {line[:about] for line in read_lines(path, columns)}


def run_mirror(path: Path, photos: ImageSet) -> None:
    """Add the trained positions that a file lacks."""
    tables = read(path)[0] if path.exists() else {}
    for seed, way in product(SEEDS, WAYS):
        if (name := f"{way}, seed {seed}") not in tables:
            print(name, flush=True)
            tables[name] = train_positions(way, seed, photos)
            write(path, tables, {})


if __name__ == "__main__":
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # older terminals on Windows have no "×"
    sys.exit(main())
