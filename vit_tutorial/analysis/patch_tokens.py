"""What the token of each patch knows: where it looks, its principal components, and what they look like in a photo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from ..attention import attend
from ..inference import eval_mode
from ..model import VisionTransformer
from .recording import Heads, self_attentions, swapped

CLIPPED = 0.02  # of the patches at either end of a component get the same colour


class OneQuery(nn.Module):
    """Attend as the strategy that it wraps does, and keep the weights of one token, which take little memory."""

    def __init__(self, inner: nn.Module, token: int):
        super().__init__()
        self.inner, self.token, self.weights = inner, token, None

    def forward(self, q: Heads, k: Heads, v: Heads):
        _, self.weights = attend(q[:, :, self.token, None], k, v)  # (B, h, 1, T)
        return self.inner(q, k, v)


@torch.no_grad()
def attention_from(
    model: VisionTransformer,
    images: Float[Tensor, "B C H W"],
    blocks: Sequence[int],
    query: tuple[int, int] | None = None,
) -> Float[Tensor, "B blocks heads h w"]:
    """Return what one token takes from each patch, for all heads of some blocks: (B, blocks, heads, h, w).

    The token is that of the patch in row and column `query`, or the class token. What it takes from the class token is
    left out, so a map sums to at most 1. Only these rows of the weights are computed: at 1370 tokens, `record_attention`
    keeps half a gigabyte of them. In eval mode. Raises ValueError for a block or a patch that the model does not have.
    """
    layers, (h, w) = self_attentions(model), model.config.grid
    if not all(block in range(len(layers)) for block in blocks):
        raise ValueError(f"no blocks {list(blocks)}: the model has blocks 0 to {len(layers) - 1}")
    if query is not None and not (0 <= query[0] < h and 0 <= query[1] < w):
        raise ValueError(f"no patch in row {query[0]}, column {query[1]}: the grid has {h} rows and {w} columns")
    token = 0 if query is None else 1 + query[0] * w + query[1]
    asked = {block: OneQuery(layers[block].strategy, token) for block in blocks}
    with eval_mode(model), swapped({layers[block]: strategy for block, strategy in asked.items()}):
        model(images)
    weights = torch.stack([asked[block].weights for block in blocks], dim=1)  # (B, blocks, heads, 1, T)
    return weights[..., 0, 1:].unflatten(-1, (h, w))


@torch.no_grad()
def patch_tokens(model: VisionTransformer, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "stages B h w D"]:
    """Return each patch's token before the first block and after every block, as a map: (L+1, B, h, w, D).

    All are normalised by the model's last norm; the last ones are those of `forward_features`. In eval mode.
    With them, `F.cosine_similarity(tokens, tokens[row, column], dim=-1)` is a map of what resembles one patch.
    """
    with eval_mode(model):
        tokens = [model.embeddings(images)]
        for block in model.encoder:
            tokens.append(block(tokens[-1]))
        return torch.stack([model.norm(z)[:, 1:].unflatten(1, model.config.grid) for z in tokens])


class Components(NamedTuple):
    """Principal components of some tokens: their mean (D,), directions of length 1 (count, D), the most telling first.

    `low` and `high` (count,) are the values between which colours go from 0 to 1: all but 2 % at either end.
    """

    mean: Float[Tensor, " D"]
    directions: Float[Tensor, "count D"]
    low: Float[Tensor, " count"]
    high: Float[Tensor, " count"]

    def values(self, tokens: Float[Tensor, "*grid D"]) -> Float[Tensor, "*grid count"]:
        """Return how far each token lies along each direction, of this picture or of another: (…, D) → (…, count)."""
        return (tokens - self.mean) @ self.directions.T

    def colours(self, tokens: Float[Tensor, "*grid D"]) -> Float[Tensor, "*grid count"]:
        """Return the values as colours in [0, 1], red, green and blue for three components: (…, D) → (…, count)."""
        return ((self.values(tokens) - self.low) / (self.high - self.low)).clamp(0, 1)


def principal_components(
    tokens: Float[Tensor, "*grid D"], count: int = 3, where: Bool[Tensor, "*grid"] | None = None
) -> Components:
    """Find the directions in which tokens differ most: of all of them, or of those `where` a mask is true.

    A direction has no sign of its own: it is chosen so that the token furthest from the mean lies on the positive side.
    Raises ValueError for more components than there are. Source: Oquab et al. 2023 (arXiv 2304.07193), Figure 1.
    """
    chosen = (tokens.flatten(0, -2) if where is None else tokens[where]).detach()  # (N, D)
    if not 1 <= count <= min(chosen.shape):
        raise ValueError(f"{len(chosen)} tokens of {chosen.shape[1]} values have no {count} principal components")
    mean = chosen.mean(dim=0)
    directions = torch.linalg.svd(chosen - mean, full_matrices=False).Vh[:count]  # (count, D)
    values = (chosen - mean) @ directions.T  # (N, count)
    furthest = values.gather(0, values.abs().argmax(dim=0, keepdim=True))[0]  # (count,)
    directions, values = directions * furthest.sign()[:, None], values * furthest.sign()
    return Components(mean, directions, values.quantile(CLIPPED, dim=0), values.quantile(1 - CLIPPED, dim=0))
