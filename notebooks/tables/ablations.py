"""Make ablations.csv, for lessons 02 and 06: the model and its recipe, one thing changed at a time.

Takes about 40 minutes on two cores.
"""

from dataclasses import replace
from functools import partial

from common import CONFIG, RECIPE, SEEDS, train, write_table
from vit_tutorial import Shapes, VisionTransformer
from vit_tutorial.positions import LearnedPosition
from vit_tutorial.training import evaluate

ROWS = {
    "as it is": (CONFIG, RECIPE),
    "no warm-up": (CONFIG, replace(RECIPE, warmup_epochs=0.0)),
    "no decay of the rate": (CONFIG, replace(RECIPE, schedule="constant")),
    "no weight decay": (CONFIG, replace(RECIPE, weight_decay=0.0)),
    "β₂ = 0.999": (CONFIG, replace(RECIPE, beta2=0.999)),
    "no positions": (replace(CONFIG, position="none"), RECIPE),
    "sin-cos positions": (replace(CONFIG, position="sincos"), RECIPE),
    "factorized positions": (replace(CONFIG, position="factorized"), RECIPE),
    "mean of the patches": (replace(CONFIG, pool="mean"), RECIPE),
    "one position for all": (CONFIG, RECIPE),
}


class OnePosition(LearnedPosition):
    """The mistake of lesson 02: `table[n]`, where `table[:n]` is meant."""

    def forward(self):
        return self.table[len(self.table) - 1]


def make(row: str) -> VisionTransformer:
    model = VisionTransformer(ROWS[row][0])
    if row == "one position for all":
        model.embeddings.position = OnePosition(model.config.grid, model.config.embed_dim)
    return model


def measure(row: str, seed: int) -> float:
    model = train(partial(make, row), ROWS[row][1], Shapes(28_000, 28), seed)
    return evaluate(model, Shapes(6400, 28, seed=1)).accuracy


if __name__ == "__main__":
    lines = ((row, seed, measure(row, seed)) for seed in SEEDS for row in ROWS)
    write_table("ablations", ["row", "seed", "accuracy"], lines)
