"""Make broken.csv, for lesson 09: DINOv2, broken in one block, sorts drawings by eight examples.

Takes about 3 minutes on two cores.
"""

from copy import deepcopy

import torch
from common import write_table
from torch import Tensor
from vit_tutorial import Shapes, change_resolution, load_checkpoint
from vit_tutorial.data.outlines import OUTLINES
from vit_tutorial.experiments import sabotage

FOUR = {name: OUTLINES[name] for name in ("cross", "heart", "ring", "star")}
SETS, UNSEEN = range(10), 1000  # seeds
FORGOTTEN = "γ of the attention forgotten"


def two_each(seed: int) -> tuple[Tensor, Tensor]:
    """Return two drawings of each outline and their labels, as lesson 09 takes them."""
    drawn = Shapes(40, 84, seed, FOUR)
    chosen = torch.cat([(drawn.labels == c).nonzero()[:2, 0] for c in range(4)])
    return drawn.pixels[chosen], drawn.labels[chosen]


def share_right(features: Tensor, examples: Tensor, labels: Tensor, wanted: Tensor) -> float:
    """Return the share of features that are nearest to the mean of the wanted class's examples."""
    means = torch.stack([examples[labels == c].mean(dim=0) for c in range(4)])
    return (torch.cdist(features, means).argmin(dim=1) == wanted).float().mean().item()


@torch.no_grad()
def lines():
    model = change_resolution(load_checkpoint("dinov2-s14"), 84)
    unseen, sets = Shapes(100, 84, UNSEEN, FOUR), [two_each(seed) for seed in SETS]
    z = model.embeddings(model.card.normalise(torch.cat([unseen.pixels, *(p for p, _ in sets)])))
    for block, right in enumerate(model.encoder):
        for mistake in (FORGOTTEN, "no attention"):
            if mistake == "no attention":
                broken = deepcopy(model)
                torch.nn.init.zeros_(broken.encoder[block].attention.projection.weight)
                torch.nn.init.zeros_(broken.encoder[block].attention.projection.bias)
            else:
                broken = sabotage(model, mistake, f"encoder.{block}")
            features, *of_sets = broken.norm(broken.encoder[block:](z))[:, 0].split(
                [100] + 10 * [8]
            )
            for seed, examples, (_, labels) in zip(SETS, of_sets, sets, strict=True):
                found = share_right(features, examples, labels, unseen.labels)
                yield mistake, block, seed, round(found, 2)
        z = right(z)


if __name__ == "__main__":
    write_table("broken", ["mistake", "block", "seed", "accuracy"], lines())
