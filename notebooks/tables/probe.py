"""Make probe.csv, for lesson 08: a linear probe on the examples of examples.csv.

Takes about a minute on two cores.
"""

import torch
import torch.nn.functional as F
from common import SEEDS, write_table
from torch import Tensor, nn
from vit_tutorial import ImageSet, Shapes, load_checkpoint
from vit_tutorial.data.outlines import MORE_OUTLINES
from vit_tutorial.experiments.short_trainings import OWN_SCENES

EXAMPLES = (25, 100, 400, 1600, 6400)
# Of 0.001 to 100 the best or nearly the best, for 25 as for 1,600 examples of other seeds.
PENALTY = 1.0


@torch.no_grad()
def features_of(images: ImageSet) -> Tensor:
    """Return what the shipped model's head reads, (N, D)."""
    model = load_checkpoint("shapes")
    parts = [model.features(model.card.normalise(part)) for part in images.pixels.split(100)]
    return torch.cat(parts).double()


def fit_head(features: Tensor, labels: Tensor) -> nn.Linear:
    """Fit a linear layer with L-BFGS until the loss no longer falls.

    The loss is the sum of all cross-entropies, plus half of PENALTY times the sum of the squared
    weights without the biases: logistic regression, with C = 1 / PENALTY in scikit-learn's words.
    """
    head = nn.Linear(features.shape[1], len(MORE_OUTLINES), dtype=torch.float64)
    optimizer = torch.optim.LBFGS(
        head.parameters(),
        max_iter=3000,
        history_size=20,
        line_search_fn="strong_wolfe",
        tolerance_grad=1e-6,
        tolerance_change=0,
    )

    def loss() -> Tensor:
        optimizer.zero_grad()
        squares = PENALTY / 2 * head.weight.square().sum()
        value = (F.cross_entropy(head(features), labels, reduction="sum") + squares) / len(labels)
        value.backward()
        return value

    optimizer.step(loss)
    return head


def measure(examples: int, seed: int) -> float:
    images = Shapes(examples, 28, OWN_SCENES + seed, MORE_OUTLINES)
    test = Shapes(3200, 28, seed=1, outlines=MORE_OUTLINES)
    head = fit_head(features_of(images), images.labels)
    right = head(features_of(test)).argmax(dim=1) == test.labels
    return right.sum().item() / len(test)


if __name__ == "__main__":
    lines = (
        (f"{examples:,} examples", seed, measure(examples, seed))
        for seed in SEEDS
        for examples in EXAMPLES
    )
    write_table("probe", ["row", "seed", "accuracy"], lines)
