"""Score how well a map over the patches finds an object whose mask is known."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor


def share_on_object(maps: Float[Tensor, "B h w"], masks: Bool[Tensor, "B H W"]) -> Float[Tensor, " B"]:
    """Return the object's share of a map's weight over its share of the image: (B,), 1 for an even map.

    `maps` are not negative; a patch spreads its weight evenly over its pixels.
    Raises ValueError for a mask that is empty or does not fit the grid.
    """
    cover = coverage(masks, maps)
    on_object = (maps * cover).sum(dim=(1, 2)) / maps.sum(dim=(1, 2))
    return on_object / cover.mean(dim=(1, 2))


def object_auc(maps: Float[Tensor, "B h w"], masks: Bool[Tensor, "B H W"]) -> Float[Tensor, " B"]:
    """Return how often a pixel of the object has more weight than one of the ground, over all pairs: (B,), in [0, 1].

    The area under the ROC curve: 0.5 for an even map. Pixels of one patch have one weight, and equal weights count
    half; so even the best map of patches stays below 1 if the outline cuts a patch.
    Raises ValueError for a mask that is empty, full or does not fit the grid.
    """
    inside = coverage(masks, maps).flatten(1)  # (B, N)
    outside = 1 - inside
    if (full := masks.flatten(1).all(dim=1)).any():
        raise ValueError(f"mask {full.int().argmax().item()} is full: no ground to compare the object with")
    first, second = maps.flatten(1)[:, :, None], maps.flatten(1)[:, None]  # (B, N, 1) and (B, 1, N)
    score = (first > second).to(inside) + (first == second).to(inside) / 2  # (B, N, N)
    wins = torch.einsum("bn,bnm,bm->b", inside, score, outside)
    return wins / (inside.sum(dim=1) * outside.sum(dim=1))


def coverage(masks: Bool[Tensor, "B H W"], maps: Float[Tensor, "B h w"]) -> Float[Tensor, "B h w"]:
    """Return the share of each patch that the object covers: (B, h, w). Raises ValueError if they do not fit."""
    if maps.ndim != 3 or masks.ndim != 3 or len(maps) != len(masks) or masks.dtype != torch.bool:
        shapes = f"{tuple(maps.shape)} and {tuple(masks.shape)} of {masks.dtype}"
        raise ValueError(f"maps (B, h, w) need as many masks (B, H, W) of torch.bool, got {shapes}")
    if not (maps >= 0).all():
        raise ValueError("maps have weights from 0 up, these hold a negative one, or nan")
    (H, W), (h, w) = masks.shape[1:], maps.shape[1:]
    if H % h or W % w:
        raise ValueError(f"masks of {H}×{W} pixels are not a whole number of patches in a grid of {h}×{w}")
    if not (found := masks.flatten(1).any(dim=1)).all():
        raise ValueError(f"mask {found.int().argmin().item()} is empty: no object to find")
    return F.avg_pool2d(masks.float()[:, None], (H // h, W // w))[:, 0]
