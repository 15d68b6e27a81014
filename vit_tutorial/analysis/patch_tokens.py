"""Patch by patch: what the class token takes from it, its token after each block, how alike its position is."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..attention import attend
from ..errors import require_vit
from ..inference import eval_mode
from ..model import VisionTransformer
from .forward_pass import stages
from .recording import attending, attention_layers


@torch.no_grad()
def attention_from(
    model: VisionTransformer, images: Float[Tensor, "B C H W"], blocks: Sequence[int]
) -> Float[Tensor, "B blocks heads h w"]:
    """Return what the class token takes from each patch, for all heads of some blocks: (B, blocks, heads, h, w).

    What it takes from itself is left out. Unlike `record_attention` it computes no T×T maps, which are large for a
    large image. In eval mode. Raises IndexError for a block that the model does not have.
    """
    L = len(attention_layers(model))
    try:
        blocks = [range(L)[block] for block in blocks]  # -1 is the last
    except (IndexError, TypeError):
        raise IndexError(f"blocks are a list of numbers, 0 to {L - 1} or -1 to -{L}, got {blocks!r:.40}") from None
    found = {}

    def keep(block: int, q: Tensor, k: Tensor, v: Tensor) -> None:
        if block in blocks:
            _, found[block] = attend(q[:, :, :1], k, v)  # (B, h, 1, T)

    with eval_mode(model), attending(model, keep):
        model(images)
    weights = torch.stack([found[block] for block in blocks], dim=1)  # (B, blocks, heads, 1, T)
    return weights[..., 0, 1:].unflatten(-1, model.config.grid)


@torch.no_grad()
def patch_tokens(model: VisionTransformer, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "stages B h w D"]:
    """Return each patch's token before the first block and after every block, as a map: (L+1, B, h, w, D).

    All are normalised by the model's last norm; the last ones are those of `forward_features`. In eval mode.
    """
    with eval_mode(model):
        return torch.stack([model.norm(z)[:, 1:].unflatten(1, model.config.grid) for z in stages(model, images)])


def principal_components(
    tokens: Float[Tensor, "*grid D"], count: int = 3, like: Float[Tensor, "*other D"] | None = None
) -> Float[Tensor, "*grid count"]:
    """Return how far each token lies along the directions in which tokens differ most, in [0, 1]: (…, D) → (…, count).

    Each end is reached by 2 % of the tokens; the token furthest from the mean is on the side of 1. Mean, directions and
    ends are those of the tokens `like`, if they are given: then two models' colours mean the same.
    Source: Oquab et al. 2023 (arXiv 2304.07193), Figure 1.
    """
    flat = (tokens if like is None else like).flatten(0, -2)  # (N, D)
    mean = flat.mean(dim=0)
    directions = torch.linalg.svd(flat - mean, full_matrices=False).Vh[:count]  # (count, D)
    values = (flat - mean) @ directions.T  # (N, count)
    signs = values.gather(0, values.abs().argmax(dim=0, keepdim=True)).sign()  # (1, count)
    low, high = (signs * values).quantile(values.new_tensor([0.02, 0.98]), dim=0)
    scaled = (signs * ((tokens - mean) @ directions.T) - low) / (high - low).clamp(min=1e-12)  # if all are alike: zeros
    return scaled.clamp(0, 1)


@torch.no_grad()
def position_similarity(
    model: VisionTransformer, positions: Float[Tensor, "T D"] | None = None
) -> Float[Tensor, "h w h w"]:
    """Return the cosine similarity of every two patches' position embeddings: (h, w, h, w).

    `[i, j]` is the map of the patch in row i and column j. `positions` is another table of the same grid, such as that
    of an earlier epoch. Source: Figure 7 (centre).
    """
    require_vit(model)
    h, w = model.config.grid
    table = model.positions() if positions is None else positions
    unit = nn.functional.normalize(table[1:], dim=-1)  # (N, D)
    return (unit @ unit.T).reshape(h, w, h, w)


def likeness(similarity: Float[Tensor, "h w h w"]) -> tuple[float, float]:
    """Return the mean similarity of patches that touch, and of mirror images in a row with a column between them."""
    row, column, other_row, other_column = torch.meshgrid(*map(torch.arange, similarity.shape), indexing="ij")
    down, across = (row - other_row).abs(), (column - other_column).abs()
    near = torch.maximum(down, across) == 1
    mirror = (down == 0) & (across >= 2) & (column + other_column == similarity.shape[1] - 1)
    return similarity[near].mean().item(), similarity[mirror].mean().item()
