"""Sum up attention maps over the layers and over distance, and score a map against the mask of an object."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from ..config import Size, to_pair


def attention_rollout(maps: Sequence[Float[Tensor, "B h T T"]]) -> Float[Tensor, "B T T"]:
    """Return how much of each input token is in each output token, summed over paths: (B, T, T). Rows sum to 1.

    `maps` are the weights of all layers, first to last, as `record_attention` gives them. In each layer the
    heads are averaged and the identity is added, for the residual stream, with equal weight; the layers are
    multiplied. Values, MLPs and norms are left out, so it is a rule of thumb, not a measurement.
    Source: Abnar & Zuidema 2020 (arXiv 2005.00928), section 3; appendix D.8 of the paper.
    """
    require_recorded(maps)
    B, _, T, _ = maps[0].shape
    identity = torch.eye(T, dtype=maps[0].dtype, device=maps[0].device)
    rollout = identity.expand(B, T, T)
    for weights in maps:
        rollout = (weights.mean(dim=1) + identity) / 2 @ rollout
    return rollout


def mean_attention_distance(
    maps: Sequence[Float[Tensor, "B h T T"]], grid: tuple[int, int], patch_size: Size
) -> Float[Tensor, "L h"]:
    """Return how far each head looks, in pixels: the weighted distance between patch centres, (L, h).

    Averaged over images and patches. The class token, first, is left out on both sides, and what a patch takes from it
    is shared out over the patches; a patch that takes all from it has no distance, and does not count.
    Raises ValueError for maps that are not those of such a grid. Source: appendix D.7 and Figure 7 (right).
    """
    require_recorded(maps)
    (h, w), (P, Q) = grid, to_pair(patch_size)
    tokens = maps[0].shape[-1]
    if tokens != 1 + h * w:
        raise ValueError(f"maps of {tokens} tokens are not those of a {h}×{w} grid and a class token")
    rows, columns = torch.arange(h) * P, torch.arange(w) * Q
    centres = torch.cartesian_prod(rows, columns).float()  # (N, 2), row by row
    distances = torch.cdist(centres, centres).to(maps[0])  # (N, N)
    found = []
    for weights in maps:
        patches = weights[:, :, 1:, 1:]  # (B, h, N, N)
        far = (patches * distances).sum(dim=-1) / patches.sum(dim=-1)  # (B, h, N)
        found.append(far.nanmean(dim=(0, 2)))
    return torch.stack(found)


def require_recorded(maps: Sequence[Tensor | None]) -> None:
    """Raise ValueError unless there is a map for each layer."""
    if len(maps) == 0 or any(weights is None for weights in maps):
        raise ValueError("no weights yet: call the model inside `with record_attention(model) as maps:`")


def object_auc(maps: Float[Tensor, "B h w"], masks: Bool[Tensor, "B H W"]) -> Float[Tensor, " B"]:
    """Return how often a pixel of the object has more weight than one of the ground, over all pairs: (B,), in [0, 1].

    The area under the ROC curve: 0.5 for an even map. Pixels of one patch have one weight, and equal weights count
    half; so even the best map of patches stays below 1 if the outline cuts a patch. It is nan for a mask that is empty
    or full. Raises ValueError for masks that are not a whole number of the grid's patches.
    """
    (H, W), (h, w) = masks.shape[1:], maps.shape[1:]
    if H % h or W % w:
        raise ValueError(f"masks of {H}×{W} pixels are not a whole number of patches in a grid of {h}×{w}")
    inside = F.avg_pool2d(masks.float()[:, None], (H // h, W // w)).flatten(1)  # (B, N): the share of a patch it covers
    outside = 1 - inside
    first, second = maps.flatten(1)[:, :, None], maps.flatten(1)[:, None]  # (B, N, 1) and (B, 1, N)
    score = (first > second).to(inside) + (first == second).to(inside) / 2  # (B, N, N)
    wins = torch.einsum("bn,bnm,bm->b", inside, score, outside)
    return wins / (inside.sum(dim=1) * outside.sum(dim=1))
