"""How well a map over the patches finds an object whose mask is known."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor


def share_on_object(maps: Float[Tensor, "B h w"], masks: Bool[Tensor, "B H W"]) -> Float[Tensor, " B"]:
    """The object's share of a map's weight, as a multiple of its share of the image: 1 for a map that is even. (B,)

    `maps` are not negative; a patch spreads its weight evenly over its pixels.
    Raises ValueError for a mask that is empty or does not fit the grid.
    """
    cover = coverage(masks, maps)
    on_object = (maps * cover).sum(dim=(1, 2)) / maps.sum(dim=(1, 2))
    return on_object / cover.mean(dim=(1, 2))


def object_auc(maps: Float[Tensor, "B h w"], masks: Bool[Tensor, "B H W"]) -> Float[Tensor, " B"]:
    """How often a pixel of the object has more weight than one of the ground, all pairs compared: (B,), in [0, 1].

    The area under the ROC curve: 0.5 for a map that knows nothing. Pixels of one patch have one weight, and
    equal weights count half; so even the best map of patches stays below 1 where the outline cuts a patch.
    Raises ValueError for a mask that is empty, full or does not fit the grid.
    """
    inside = coverage(masks, maps).flatten(1)  # (B, N)
    if (full := masks.flatten(1).all(dim=1)).any():
        raise ValueError(f"mask {full.int().argmax().item()} is full: no ground to compare the object with")
    outside = 1 - inside
    weights = maps.flatten(1)
    more = (weights[:, :, None] > weights[:, None]).to(inside)  # (B, N, N)
    equal = (weights[:, :, None] == weights[:, None]).to(inside)
    wins = torch.einsum("bn,bnm,bm->b", inside, more + equal / 2, outside)
    return wins / (inside.sum(dim=1) * outside.sum(dim=1))


def coverage(masks: Bool[Tensor, "B H W"], maps: Float[Tensor, "B h w"]) -> Float[Tensor, "B h w"]:
    """The share of each patch that the object covers: (B, h, w)."""
    if maps.ndim != 3 or masks.ndim != 3 or len(maps) != len(masks) or masks.dtype != torch.bool:
        shapes = f"{tuple(maps.shape)} and {tuple(masks.shape)} of {masks.dtype}"
        raise ValueError(f"maps (B, h, w) need as many masks (B, H, W) of torch.bool, got {shapes}")
    if not (maps >= 0).all():
        raise ValueError("maps have weights from 0 up, these hold a negative one, or nan")
    (H, W), (h, w) = masks.shape[1:], maps.shape[1:]
    if H % h or W % w:
        raise ValueError(f"masks of {H}×{W} pixels are not a whole number of patches in a grid of {h}×{w}")
    if not masks.flatten(1).any(dim=1).all():
        raise ValueError(f"mask {masks.flatten(1).any(dim=1).int().argmin().item()} is empty: no object to find")
    return F.avg_pool2d(masks.float()[:, None], (H // h, W // w))[:, 0]
