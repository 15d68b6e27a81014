"""Make quarters.csv, for lesson 02: a task that needs positions, and tables of all sizes.

The drawings are those of lesson 06. The label is the quarter in which the object's centre lies.
Takes about half an hour on one core.
"""

from functools import partial

from common import RECIPE, SEEDS, train, write_table
from vit_tutorial.analysis import position_similarity
from vit_tutorial.experiments import model_with_positions, quarters
from vit_tutorial.training import evaluate

SIZES = (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7)
KINDS = ("grid", "random", "learned")


def measure(kind: str, size: float, seed: int) -> tuple[float, float, float]:
    """Train on 8,000 drawings, each shown twice.

    Return the accuracy, and of the table afterwards its size and the mean cosine of neighbours.
    """
    model = train(partial(model_with_positions, kind, size), RECIPE, quarters(8_000), seed)
    patches = model.positions()[1:].detach()
    ends = (patches - patches.mean(dim=0)).square().mean().sqrt().item()
    alike = position_similarity(model)  # (h, w, h, w)
    beside = [alike[i, j, i, j + 1].item() for i in range(7) for j in range(6)]
    accuracy = evaluate(model, quarters(6400, seed=1)).accuracy
    return accuracy, round(ends, 4), round(sum(beside) / len(beside), 4)


if __name__ == "__main__":
    rows = [(kind, size) for size in SIZES for kind in KINDS]
    lines = (
        (kind, size, seed, *measure(kind, size, seed)) for seed in SEEDS for kind, size in rows
    )
    columns = ["positions", "size", "seed", "accuracy", "size after", "neighbours"]
    write_table("quarters", columns, lines)
