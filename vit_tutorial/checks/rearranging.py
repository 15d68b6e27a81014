"""Images cut into patches and joined again, the numbers of a patch in any order.

Axes are named as in notebook 01: a height of h·P pixels, a width of w·P. `Q` is the second P, the columns of a patch.
"""

from __future__ import annotations

from einops import rearrange
from torch import Tensor

OURS = "C P Q"
ORDERS = {
    "C P Q": "(channel, row, column)",
    "P Q C": "(row, column, channel)",
    "C Q P": "(channel, column, row)",
    "Q P C": "(column, row, channel)",
    "P C Q": "(row, channel, column)",
    "Q C P": "(column, channel, row)",
}


def regroup(numbers: Tensor, read: str, write: str, **sizes: int) -> Tensor:
    """Read the numbers, in the order in which they lie in memory, as axes `read`, and write them as axes `write`."""
    return rearrange(numbers.reshape(-1), f"({read}) -> {write}", **sizes)


def image_sizes(images: Tensor, P: int) -> dict[str, int]:
    B, C, H, W = images.shape
    return {"B": B, "C": C, "h": H // P, "w": W // P, "P": P, "Q": P}


def patch_sizes(patches: Tensor, P: int, image_size: tuple[int, int]) -> dict[str, int]:
    (B, _, length), (H, W) = patches.shape, image_size
    return {"B": B, "C": length // (P * P), "h": H // P, "w": W // P, "P": P, "Q": P}


def cut(images: Tensor, patch_size: int, order: str = OURS) -> Tensor:
    """(B, C, H, W) -> (B, N, C·P·P), the numbers of a patch in this order."""
    return regroup(images, "B C h P w Q", f"B (h w) ({order})", **image_sizes(images, patch_size))


def join(patches: Tensor, patch_size: int, image_size: tuple[int, int], order: str = OURS) -> Tensor:
    """(B, N, C·P·P) -> (B, C, H, W)."""
    return regroup(patches, f"B h w {order}", "B C (h P) (w Q)", **patch_sizes(patches, patch_size, image_size))
