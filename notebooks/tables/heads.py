"""Make heads.csv, for lesson 07: what each head of the shipped CIFAR-10 model is worth.

Downloads CIFAR-10 (170 MB), then takes about 10 minutes on two cores.
"""

from itertools import product

from common import write_table
from vit_tutorial import cifar10, load_checkpoint
from vit_tutorial.analysis import HeadCosts, head_costs


def lines_of(costs: HeadCosts) -> list[tuple]:
    """Return a line for each head."""
    return [
        (*head, costs.images, costs.right, costs.lost[head].item(), costs.gained[head].item())
        for head in product(*map(range, costs.lost.shape))
    ]


if __name__ == "__main__":
    costs = head_costs(load_checkpoint("cifar10"), cifar10(train=False, download=True))
    write_table("heads", ["layer", "head", "images", "right", "lost", "gained"], lines_of(costs))
