"""Make causes.csv, for lesson 08: what could break a model at 44×44, mended or broken alone.

Takes about 10 minutes on two cores.
"""

import math

import torch
from common import SEEDS, trained_at_home, write_table
from torch import Tensor
from torch.nn.functional import avg_pool2d, interpolate, pad
from torchvision.transforms.functional import gaussian_blur
from vit_tutorial import ImageSet, Shapes, change_resolution
from vit_tutorial.experiments import answers, kinds_of_patches

KINDS = ("ground", "outline", "inside")
COUNT = 1600
# Softmax shares 1 among 50 tokens at home and among 122 at 44×44. For one of them to stand out as
# clearly, scores have to grow with the logarithm of how many there are.
SHARPER = math.log(122) / math.log(50)


def with_edges_of(size: int, side: int) -> Tensor:
    """Draw the scenes at a size, with edges as wide as a pixel is at another: (N, 3, size, size).

    Drawn at 308×308 (11·28 and 7·44), averaged over a pixel of `side`, read where centres are.
    """
    width, step = 308 // side, 308 // size
    drawn = []
    for part in Shapes(COUNT, 308, seed=1).pixels.split(100):
        pixels = pad(part / 255, [width // 2] * 4, mode="replicate")
        drawn.append(avg_pool2d(pixels, width, stride=1)[..., step // 2 :: step, step // 2 :: step])
    return torch.cat(drawn)


def resized(pixels: Tensor, side: int) -> Tensor:
    return interpolate(pixels, size=side, mode="bilinear", antialias=True)


def weights_as_in(images: ImageSet, others: ImageSet, kind: int) -> Tensor:
    """Weigh one kind of patches so that its share of all is that of the other scenes."""
    here, there = ((kinds_of_patches(each) == kind).float().mean() for each in (images, others))
    odds = (there / (1 - there)) / (here / (1 - here))
    return torch.where(kinds_of_patches(images) == kind, odds, 1.0)


def composed_as_in(images: ImageSet, others: ImageSet) -> dict[str, Tensor | float]:
    """Weigh all tokens, the class token too, so that the shares are those of the other scenes."""
    kinds = [kinds_of_patches(each) for each in (images, others)]
    counts = [
        torch.stack([(each == kind).sum() for kind in range(3)]) / len(each) for each in kinds
    ]  # in a picture
    shares = [count / (1 + count.sum()) for count in counts]
    class_token = (1 + counts[0].sum().item()) / (1 + counts[1].sum().item())
    return {"times": (shares[1] / shares[0])[kinds[0]], "class_token": class_token}


def measure(seed: int):
    """Yield (what, where, answers) for a model of this seed."""
    home = trained_at_home("learned", seed)
    away = change_resolution(home, 44)
    at_home, at_44 = Shapes(COUNT, 28, seed=1), Shapes(COUNT, 44, seed=1)
    small, large = (each.pixels / 255 for each in (at_home, at_44))
    yield "nothing", "44×44", answers(away, large)
    yield "nothing", "28×28", answers(home, small)
    for number, kind in enumerate(KINDS):
        yield kind, "44×44", answers(away, large, weights_as_in(at_44, at_home, number))
        yield kind, "28×28", answers(home, small, weights_as_in(at_home, at_44, number))
    yield "sharp edges", "44×44", answers(away, with_edges_of(44, 28))
    yield "sharp edges", "28×28", answers(home, with_edges_of(28, 44))
    there, here = composed_as_in(at_44, at_home), composed_as_in(at_home, at_44)
    yield "all shares", "44×44", answers(away, large, **there)
    yield "all shares", "28×28", answers(home, small, **here)
    yield "all shares and edges", "44×44", answers(away, with_edges_of(44, 28), **there)
    yield "all shares and edges", "28×28", answers(home, with_edges_of(28, 44), **here)
    yield "flat attention", "44×44", answers(away, large, scale=SHARPER)
    yield "flat attention", "28×28", answers(home, small, scale=1 / SHARPER)
    yield "blurred by a pixel", "44×44", answers(away, gaussian_blur(large, 7, 1.0))
    yield "picture size", "44×44", answers(home, resized(large, 28))
    yield "picture size", "28×28", answers(away, resized(small, 44))


def lines():
    for seed in SEEDS:
        labels = Shapes(COUNT, 28, seed=1).labels
        for what, where, said in measure(seed):
            yield what, where, seed, COUNT, (said != labels).sum().item()


if __name__ == "__main__":
    write_table("causes", ["what", "where", "seed", "scenes", "wrong"], lines())
