"""Make masks.csv, for lesson 10: masks that a linear layer paints, learned from a few drawings.

Takes about 20 minutes on two cores and 2 GB of memory.
"""

from collections.abc import Callable, Iterator

import torch
from common import SEEDS, write_table
from torch import Tensor
from torch.nn.functional import avg_pool2d, interpolate
from vit_tutorial import Shapes, VisionTransformer, change_resolution, load_checkpoint

SIZE, GRID = 448, 32
LEARN, TEST = 50, 200
COUNTS = (1, 2, 5, 10, 20, 50)


@torch.no_grad()
def tokens_of(model: VisionTransformer, scenes: Shapes) -> Tensor:
    """Return all scenes' patch tokens after the last norm: (scenes, N, D), half precision."""
    batches = map(model.card.normalise, scenes.pixels.split(5))
    return torch.cat([model.forward_features(pixels)[:, 1:].half() for pixels in batches])


def features(scenes: Shapes, seed: int) -> Iterator[tuple[str, Tensor]]:
    """Yield what a linear layer may look at, by name: (scenes, N, values)."""
    dino = change_resolution(load_checkpoint("dinov2-s14"), SIZE)
    if seed == SEEDS[0]:  # only the weights of the untrained model are drawn anew
        yield "DINOv2", tokens_of(dino, scenes)
    torch.manual_seed(seed)
    untrained = VisionTransformer(dino.config)
    untrained.card = dino.card
    yield "untrained", tokens_of(untrained, scenes)
    colour = avg_pool2d(scenes.pixels.float() / 255, 14).flatten(2).mT  # (scenes, N, 3)
    brightness = colour.mean(dim=2, keepdim=True)
    yield "one number: brightness", brightness - brightness.mean(dim=1, keepdim=True)


def fit(tokens: Tensor, inside: Tensor) -> Callable[[Tensor], Tensor]:
    """Return the linear function of a token that is near 1 inside and near -1 outside.

    Ridge regression; its penalty is a hundredth of the values' mean variance.
    """
    z, y = tokens.flatten(0, 1).double(), 2.0 * inside.flatten().double() - 1  # (n·N, D), (n·N,)
    mean, z = z.mean(dim=0), z - z.mean(dim=0)
    variance = z.square().mean(dim=0).mean()
    w = torch.linalg.solve(
        z.T @ z / len(z) + 0.01 * variance * torch.eye(z.shape[1]), z.T @ y / len(z)
    )
    return lambda tokens: (tokens.double() - mean) @ w + y.mean()


def overlap(scores: Tensor, masks: Tensor) -> float:
    """Return the mean intersection over union where scores (scenes, N), made smooth, exceed 0."""
    maps = scores.float().unflatten(1, (1, GRID, GRID))
    painted = interpolate(maps, masks.shape[1:], mode="bilinear")[:, 0] > 0
    both, either = (painted & masks).sum(dim=(1, 2)), (painted | masks).sum(dim=(1, 2))
    return (both / either).mean().item()


def lines() -> Iterator[tuple]:
    scenes = Shapes(LEARN + TEST, SIZE, seed=11)
    shares = avg_pool2d(scenes.masks[:, None].float(), 14).flatten(1)  # of each patch's pixels
    inside = shares > 0.5
    masks = scenes.masks[LEARN:]
    y, x = torch.meshgrid(torch.linspace(-1, 1, GRID), torch.linspace(-1, 1, GRID), indexing="ij")
    blots = [
        (radius - torch.hypot(y, x)).flatten().expand(TEST, -1)
        for radius in torch.linspace(0.3, 1, 15)
    ]
    yield "best disc in the centre", 0, 0, max(overlap(blot, masks) for blot in blots)
    yield "the true patches", 0, 0, overlap(shares[LEARN:] - 0.5, masks)
    for seed in SEEDS:
        for name, tokens in features(scenes, seed):
            for draw in SEEDS if name == "DINOv2" else (seed,):
                order = torch.randperm(LEARN, generator=torch.Generator().manual_seed(draw))
                for count in COUNTS:
                    score = fit(tokens[order[:count]], inside[order[:count]])
                    yield name, count, draw, overlap(score(tokens[LEARN:]), masks)


if __name__ == "__main__":
    columns = ["looks at", "scenes", "seed", "intersection over union"]
    write_table("masks", columns, ((*what, f"{share:.4f}") for *what, share in lines()))
