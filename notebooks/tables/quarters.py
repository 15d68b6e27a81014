"""Make quarters.csv, for lesson 02: a task that needs positions, with several kinds of them.

The drawings are those of lesson 06. The label is the quarter in which the object's centre lies.
Takes about half an hour on two cores.
"""

from dataclasses import replace
from functools import partial

from common import CONFIG, RECIPE, SEEDS, train, write_table
from torch import nn
from vit_tutorial import VisionTransformer
from vit_tutorial.experiments import quarters
from vit_tutorial.training import evaluate


def make(kind: str) -> VisionTransformer:
    """Build a model; "learned large" starts at the size of sin-cos, "sincos small" at 0.02."""
    model = VisionTransformer(replace(CONFIG, num_classes=4, position=kind.split()[0]))
    table = model.embeddings.position.table.data
    if kind == "learned large":
        nn.init.normal_(table, std=0.5**0.5)
    if kind == "sincos small":
        table *= 0.02 / 0.5**0.5
    return model


def measure(kind: str, scenes: int, seed: int) -> float:
    """Train on the drawings, each shown twice, or seven times for "learned long"."""
    recipe = replace(RECIPE, epochs=7) if kind == "learned long" else RECIPE
    model = train(partial(make, kind), recipe, quarters(scenes), seed)
    return evaluate(model, quarters(6400, seed=1)).accuracy


if __name__ == "__main__":
    kinds = ("none", "learned", "learned large", "sincos")
    rows = [(kind, scenes) for scenes in (8_000, 28_000) for kind in kinds]
    rows += [("sincos small", 8_000), ("learned long", 8_000)]
    lines = ((f"{k}, {n}", seed, measure(k, n, seed)) for seed in SEEDS for k, n in rows)
    write_table("quarters", ["row", "seed", "accuracy"], lines)
