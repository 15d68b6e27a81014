"""Sum up attention maps: over the layers, and over distance."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
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
    Source: appendix D.7 and Figure 7 (right).
    """
    require_recorded(maps)
    if (T := maps[0].shape[-1]) != 1 + grid[0] * grid[1]:
        raise ValueError(f"maps of {T} tokens are not those of a {grid[0]}×{grid[1]} grid and a class token")
    rows, columns = (torch.arange(count) * side for count, side in zip(grid, to_pair(patch_size), strict=True))
    centres = torch.cartesian_prod(rows, columns).float()  # (N, 2), row by row
    distances = torch.cdist(centres, centres).to(maps[0])  # (N, N)
    found = []
    for weights in maps:
        patches = weights[:, :, 1:, 1:]  # (B, h, N, N)
        far = (patches * distances).sum(dim=-1) / patches.sum(dim=-1)  # (B, h, N)
        found.append(far.nanmean(dim=(0, 2)))
    return torch.stack(found)


def require_recorded(maps: Sequence[Tensor | None]) -> None:
    """Raise ValueError unless there is a map for each layer, all of one shape except for the number of heads."""
    shapes = {None if m is None else tuple(m.shape[:1] + m.shape[2:]) for m in maps}
    if len(shapes) != 1 or None in shapes:
        raise ValueError(
            "maps are the weights of all layers, (B, h, T, T), from one forward pass inside `with record_attention("
            f"model) as maps:`, got {[None if m is None else tuple(m.shape) for m in maps]}"
        )
