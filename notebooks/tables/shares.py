"""Make shares.csv, for lesson 08: right answers if the outline's patches count for more, or less.

Takes about 15 minutes on two cores.
"""

import torch
from common import SEEDS, trained_at_home, write_table
from torch import Tensor
from vit_tutorial import ImageSet, Shapes, VisionTransformer, change_resolution
from vit_tutorial.experiments import answers, kinds_of_patches

COUNT = 1000
SHARES = (5, 10, 15, 20, 25, 30, 35, 40, 50, 60, 70)  # of all patches, in %; "" is as it is


def in_old_order(position: Tensor, old_grid, new_grid, prefix: int) -> Tensor:
    """Take the old positions as they come, and start again with the first when they run out."""
    order = torch.arange(new_grid[0] * new_grid[1]) % (len(position) - prefix)
    return torch.cat([position[:prefix], position[prefix:][order]])


def at_random(position: Tensor, old_grid, new_grid, prefix: int) -> Tensor:
    """Take random positions, as large as the old ones on average."""
    generator = torch.Generator().manual_seed(0)
    new = torch.randn(new_grid[0] * new_grid[1], position.shape[1], generator=generator)
    return torch.cat([position[:prefix], position[prefix:].std() * new])


def zero(position: Tensor, old_grid, new_grid, prefix: int) -> Tensor:
    """Take no positions for patches."""
    new = position.new_zeros(new_grid[0] * new_grid[1], position.shape[1])
    return torch.cat([position[:prefix], new])


CARELESS = {"in old order": in_old_order, "at random": at_random, "zero": zero}


def right_by_share(model: VisionTransformer, scenes: ImageSet, which: Tensor):
    """Yield the share that the patches `which`, (B, N), have of all, and what is right then."""
    odds = which.float().mean() / (1 - which.float().mean())
    for share in ("", *SHARES):
        times = torch.where(which, share / (100 - share) / odds, 1.0) if share else None
        right = answers(model, scenes.pixels, times) == scenes.labels
        yield share, round(right.float().mean().item(), 4)


def right_as_at_home(model: VisionTransformer, scenes: ImageSet):
    """Yield a kind of patches, and what is right if it has the share that it has at home."""
    home, here = kinds_of_patches(Shapes(COUNT, 28, seed=1)), kinds_of_patches(scenes)
    for number, kind in enumerate(("ground", "outline", "inside")):
        odds = [
            share / (1 - share) for share in ((k == number).float().mean() for k in (home, here))
        ]
        times = torch.where(here == number, odds[0] / odds[1], 1.0)
        yield kind, (answers(model, scenes.pixels, times) == scenes.labels).float().mean().item()
    shares = [torch.bincount(k.flatten()) / k.numel() for k in (home, here)]
    right = answers(model, scenes.pixels, (shares[0] / shares[1])[here]) == scenes.labels
    yield "all three", right.float().mean().item()
    (_, *home_two), (_, *here_two) = (share.tolist() for share in shares)  # outline and inside
    scale = sum(here_two) / sum(home_two)  # together they keep their share
    times = torch.tensor([1.0, *(scale * a / b for a, b in zip(home_two, here_two, strict=True))])
    right = answers(model, scenes.pixels, times[here]) == scenes.labels
    yield "outline : inside", right.float().mean().item()


def lines():
    """Yield the lines: at four sizes; with other positions, too; and for other patches at 44×44."""
    for seed in SEEDS:
        home = trained_at_home("learned", seed)
        for size in (28, 20, 44, 56):
            scenes, model = Shapes(COUNT, size, seed=1), change_resolution(home, size)
            outline = kinds_of_patches(scenes) == 1
            for found in right_by_share(model, scenes, outline):
                yield f"{size}×{size}", "interpolated", "outline", seed, *found
            if size == 56:
                continue
            for way, resize in CARELESS.items():
                moved = change_resolution(home, size, resize=resize)
                for found in right_by_share(moved, scenes, outline):
                    yield f"{size}×{size}", way, "outline", seed, *found
            if size != 44:
                continue
            for kind, right in right_as_at_home(model, scenes):
                yield "44×44", "interpolated", kind, seed, "as at home", round(right, 4)
            generator = torch.Generator().manual_seed(seed)
            order = torch.rand(outline.shape, generator=generator).argsort(dim=1)
            others = order.argsort(dim=1) < outline.sum(dim=1, keepdim=True)  # as many, anywhere
            for found in right_by_share(model, scenes, others):
                yield "44×44", "interpolated", "as many, anywhere", seed, *found


if __name__ == "__main__":
    columns = ["size", "positions", "patches", "seed", "share", "accuracy"]
    write_table("shares", columns, lines())
