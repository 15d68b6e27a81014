"""Sum up attention maps over the layers, and score a map against the mask of an object."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def attention_rollout(maps: Sequence[Float[Tensor, "B h T T"]]) -> Float[Tensor, "B T T"]:
    """Return how much of each input token is in each output token, summed over paths: (B, T, T). Rows sum to 1.

    `maps` are those of `record_attention`. In each layer the heads are averaged and the identity is added, for the
    residual stream, with equal weight; the layers are multiplied. Values, MLPs and norms are left out.
    Raises ValueError where there are no weights, or rows that do not sum to 1.
    Source: Abnar & Zuidema 2020 (arXiv 2005.00928), section 3; appendix D.8 of the paper.
    """
    if not maps or any(weights is None for weights in maps):
        ours = "call the model inside `with record_attention(model) as maps:`"
        raise ValueError(f'no weights yet: {ours}; transformers returns them with attn_implementation="eager" alone')
    rollout = identity = torch.eye(maps[0].shape[-1]).to(maps[0])
    for weights in maps:
        sums = weights.sum(dim=-1)
        if not (sums - 1).abs().max() < 0.01:  # nan is not less
            found = f"these sum to {sums.min():.3g} to {sums.max():.3g}"
            raise ValueError(f"the rows of attention weights sum to 1, {found}: are they scores, before the softmax?")
        rollout = (weights.mean(dim=1) + identity) / 2 @ rollout
    return rollout


def attention_distance(maps: Float[Tensor, "B h T T"], grid: tuple[int, int]) -> Float[Tensor, " h"]:
    """Return how far the patches look with each head, weighted by attention, in patches: (h,).

    `maps` are those of one layer, the patches of a `grid` last in them. Source: section 4.5 and Figure 7, right.
    """
    rows, columns = (torch.arange(side, dtype=maps.dtype, device=maps.device) for side in grid)
    places = torch.cartesian_prod(rows, columns)  # (N, 2)
    weights = maps[:, :, -len(places) :, -len(places) :]
    return (weights * torch.cdist(places, places)).sum(dim=(0, 2, 3)) / weights.sum(dim=(0, 2, 3))


def object_auc(maps: Float[Tensor, "B h w"], masks: Bool[Tensor, "B H W"]) -> Float[Tensor, " B"]:
    """Return how often a pixel of the object has more weight than one of the ground, over all pairs: (B,), in [0, 1].

    The area under the ROC curve: 0.5 for an even map. Pixels of one patch have one weight, and equal weights count
    half; so even the best map of patches stays below 1 if the outline cuts a patch. It is nan for a mask that is empty
    or full. Raises ValueError for maps that hold nan, and unless there is a mask for each, true on the object.
    """
    (n, h, w), (count, H, W) = maps.shape, masks.shape
    if n != count or H % h or W % w or not ((masks == 0) | (masks == 1)).all():
        found = f"got {tuple(masks.shape)}, {masks.dtype} up to {masks.max():g}, for maps {tuple(maps.shape)}"
        raise ValueError(f"each map has a mask of a multiple of its size, true on the object (`masks > 127`), {found}")
    if maps.isnan().any():
        raise ValueError("maps hold nan, which is neither more nor less than another weight")
    inside = masks.float().unflatten(2, (w, -1)).unflatten(1, (h, -1)).mean(dim=(2, 4)).flatten(1)  # (B, N): the shares
    outside = 1 - inside
    first, second = maps.flatten(1)[:, :, None], maps.flatten(1)[:, None]  # (B, N, 1) and (B, 1, N)
    score = (1 + (first - second).sign()) / 2  # (B, N, N): 1, or 0.5 if they are equal, or 0
    wins = torch.einsum("bn,bnm,bm->b", inside, score.to(inside), outside)
    return wins / (inside.sum(dim=1) * outside.sum(dim=1))
