"""Make rates.csv, for lesson 06: the learning rate.

Takes about 30 minutes on two cores.
"""

from dataclasses import replace
from functools import partial

from common import CONFIG, RECIPE, SEEDS, train, write_table
from vit_tutorial import Shapes, VisionTransformer
from vit_tutorial.training import evaluate

RATES = (2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2)


def measure(rate: float, seed: int) -> float:
    """Return the accuracy on validation scenes (seed 3), since a rate is chosen by it."""
    recipe = replace(RECIPE, learning_rate=rate)
    model = train(partial(VisionTransformer, CONFIG), recipe, Shapes(28_000, 28), seed)
    return evaluate(model, Shapes(3200, 28, seed=3)).accuracy


if __name__ == "__main__":
    lines = ((f"{rate:g}", seed, measure(rate, seed)) for seed in SEEDS for rate in RATES)
    write_table("rates", ["row", "seed", "accuracy"], lines)
