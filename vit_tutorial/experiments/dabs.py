"""Scenes with a little paint far from the object, to ask what a model looks at."""

from collections.abc import Sequence

from jaxtyping import Int, UInt8
from torch import Tensor
from torch.nn.functional import max_pool2d

from ..data import ImageSet

P = 4  # pixels: the side of a patch


def with_dabs(
    images: ImageSet, which: Sequence[int] | Int[Tensor, " n"], count: int, side: int = P, shift: int = 0
) -> UInt8[Tensor, "n 3 H W"]:
    """Return some of the scenes with paint in `count` patches of 4×4 pixels, those farthest from the object first.

    The middle of each, side×side pixels, gets the median colour of the object; no painted patch touches the object.
    `shift` moves the paint by so many pixels to the right and down.
    """
    painted = images.pixels[which].clone()
    edge = (P - side) // 2 + shift  # from the corner of a patch to that of its paint
    for scene, mask in zip(painted, images.masks[which], strict=True):
        paint = scene[:, mask].float().median(dim=1).values.byte()
        free = (max_pool2d(mask[None].float(), P)[0] == 0).nonzero()  # patches without a piece of the object: (n, 2)
        centre = mask.nonzero().float().mean(dim=0)
        distances = (P * free + (P - 1) / 2 - centre).norm(dim=1)
        for row, column in free[distances.argsort(descending=True, stable=True)][:count].tolist():
            top, left = P * row + edge, P * column + edge
            scene[:, top : top + side, left : left + side] = paint[:, None, None]
    return painted
