"""Make the tables that the notebooks read.

    python -m vit_tutorial.experiments ablations     what the parts of model and recipe are worth
    python -m vit_tutorial.experiments images        a ViT and a CNN, by the number of training images
    python -m vit_tutorial.experiments rates         the learning rate
    python -m vit_tutorial.experiments scarce        few images: overfitting, and what augmentation does about it
    python -m vit_tutorial.experiments stem          patches of pixels, or of a small CNN's feature map
    python -m vit_tutorial.experiments sizes         at another size: which positions, and what to train there
    python -m vit_tutorial.experiments suspects      at another size: is it the ground or the object?
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
from collections.abc import Callable, Iterable, Mapping
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
    parser.add_argument("name", choices=[*EXPERIMENTS, *TABLES, "heads", "mirror"])
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
        elif asked.name == "mirror":
            complete_mirror(path, image_folder(asked.data, 32) if asked.data else cifar10())
        else:
            complete(path, *(TABLES.get(asked.name) or table_of_rows(asked.name)))
    except (ValueError, OSError) as error:
        parser.error(str(error))
    return 0


# Of each table: its columns, its cases, and a function of a case and a seed that gives the rest of the lines.
Table = tuple[Mapping[str, type], list[tuple], Callable[..., Iterable[Iterable]]]
TABLES: dict[str, Table] = {
    "blocks": (
        BLOCK_COLUMNS,
        list(product(VARIANTS)),
        lambda variant, seed: [map(to_text, measure_block(variant, seed))],
    ),
    "scarce": (
        COURSE_COLUMNS,
        list(product(SCENES, AUGMENTATIONS)),
        lambda scenes, augmentation, seed: [map(to_text, measure_course(scenes, augmentation, seed))],
    ),
    "sizes": (
        SIZE_COLUMNS,
        list(product(SIZES)),
        lambda size, seed: [(*about, *found) for about, found in measure_size(size, seed).items()],
    ),
    "suspects": (
        SUSPECT_COLUMNS,
        [("learned",), ("none",)],
        lambda positions, seed: [
            (*about, right, 1600) for about, right in measure_suspects(positions, seed, 1600).items()
        ],
    ),
}


def table_of_rows(name: str) -> Table:
    """Return a table of `EXPERIMENTS`: the accuracy of each row with each seed."""
    rows = EXPERIMENTS[name]
    return RUN_COLUMNS, list(product(rows)), lambda row, seed: [[run(rows[row], seed, [print_progress]).accuracy]]


def complete(path: Path, columns: Mapping[str, type], cases: list[tuple], measure: Callable) -> None:
    """Add the runs that a table lacks. Raises ValueError for a file that is no such table."""
    if not path.exists():
        append_lines(path, [columns])
    about = 1 + list(columns).index("seed")
    done = dict.fromkeys(line[:about] for line in read_lines(path, columns))
    if other := [case for *case, _ in done if tuple(case) not in cases]:
        raise ValueError(f"{path} is no table of this experiment, which has no {', '.join(map(str, other[0]))}")
    print(f"{len(done)} of {len(SEEDS) * len(cases)} runs are in {path}", flush=True)
    for seed, case in product(SEEDS, cases):
        if (*case, seed) not in done:
            print(*case, f"seed {seed}", sep=", ", flush=True)
            append_lines(path, [(*case, seed, *line) for line in measure(*case, seed)])


def complete_mirror(path: Path, photos: ImageSet) -> None:
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
