"""Make quarters.csv, for lesson 02: a task that needs positions, with three kinds of them.

The drawings are those of lesson 06. The label is the quarter in which the object's centre lies.
Takes about 20 minutes on two cores.
"""

from dataclasses import replace
from functools import partial

from common import CONFIG, RECIPE, SEEDS, train, write_table
from vit_tutorial import VisionTransformer
from vit_tutorial.experiments import quarters
from vit_tutorial.training import evaluate


def measure(position: str, scenes: int, seed: int) -> float:
    config = replace(CONFIG, num_classes=4, position=position)
    model = train(partial(VisionTransformer, config), RECIPE, quarters(scenes), seed)
    return evaluate(model, quarters(6400, seed=1)).accuracy


if __name__ == "__main__":
    kinds = ("none", "learned", "sincos")
    rows = [(kind, scenes) for scenes in (8_000, 28_000) for kind in kinds]
    lines = ((f"{k}, {n}", seed, measure(k, n, seed)) for seed in SEEDS for k, n in rows)
    write_table("quarters", ["row", "seed", "accuracy"], lines)
