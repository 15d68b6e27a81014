"""Make quarters.csv, for lesson 02: a task that needs positions, with several kinds of them.

The drawings are those of lesson 06. The label is the quarter in which the object's centre lies.
Takes about half an hour on two cores.
"""

from dataclasses import replace
from functools import partial

from common import CONFIG, RECIPE, SEEDS, train, write_table
from vit_tutorial import VisionTransformer
from vit_tutorial.experiments import quarters
from vit_tutorial.training import evaluate

# How far rows start from their mean. It is 0.27 for sin-cos positions, and 0.02 for learned ones.
STARTS = {"learned, from 0.3": 0.27, "learned, from 0.7": 0.7, "sincos, 0.02": 0.02}


def make(kind: str) -> VisionTransformer:
    """Build a model; "learned, from 0.3" starts with positions as far apart as sin-cos ones."""
    model = VisionTransformer(replace(CONFIG, num_classes=4, position=kind.split(", ")[0]))
    if kind in STARTS:
        table = model.embeddings.position.table.data
        table *= STARTS[kind] / (table - table.mean(dim=0)).square().mean().sqrt()
    return model


def measure(kind: str, scenes: int, seed: int) -> float:
    """Train on the drawings, each shown twice, or as often as the kind says."""
    recipe = replace(RECIPE, epochs=7) if kind == "learned, 7 times" else RECIPE
    model = train(partial(make, kind), recipe, quarters(scenes), seed)
    return evaluate(model, quarters(6400, seed=1)).accuracy


if __name__ == "__main__":
    kinds = ("none", "learned", "sincos")
    rows = [(kind, scenes) for scenes in (8_000, 28_000) for kind in kinds]
    rows += [(kind, 8_000) for kind in (*STARTS, "learned, 7 times")]
    lines = ((f"{k}; {n}", seed, measure(k, n, seed)) for seed in SEEDS for k, n in rows)
    write_table("quarters", ["row", "seed", "accuracy"], lines)
