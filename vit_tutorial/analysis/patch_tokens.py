"""What the token of each patch knows: where it looks, what it is after each block, and its principal components."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..attention import attend
from ..inference import eval_mode
from ..model import VisionTransformer
from .forward_pass import stages
from .recording import Heads, self_attentions, swapped


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
    left out, so a map sums to at most 1. Only these rows of the weights are kept (of 1370 tokens, `record_attention`
    keeps half a gigabyte). In eval mode. Raises ValueError for a patch or a block that the model does not have.
    """
    layers, (h, w) = self_attentions(model), model.config.grid
    if query is not None and not (0 <= query[0] < h and 0 <= query[1] < w):
        raise ValueError(f"no patch in row {query[0]}, column {query[1]}: the grid has {h} rows and {w} columns")
    if missing := set(blocks).difference(range(len(layers))):
        raise ValueError(f"no block {min(missing)}: the model has blocks 0 to {len(layers) - 1}")
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
        return torch.stack([model.norm(z)[:, 1:].unflatten(1, model.config.grid) for z in stages(model, images)])


def principal_components(tokens: Float[Tensor, "*grid D"], count: int = 3) -> Float[Tensor, "*grid count"]:
    """Return how far each token lies along the directions in which tokens differ most, in [0, 1]: (…, D) → (…, count).

    Three of them are a colour, red, green and blue. 0 and 1 are reached by 2 % of the tokens. A direction has no sign
    of its own: it is chosen so that the token furthest from the mean is on the side of 1.
    Raises ValueError for more components than there are. Source: Oquab et al. 2023 (arXiv 2304.07193), Figure 1.
    """
    flat = tokens.flatten(0, -2)  # (N, D)
    if not 1 <= count <= min(flat.shape):
        raise ValueError(f"{len(flat)} tokens of {flat.shape[1]} values have no {count} principal components")
    centred = flat - flat.mean(dim=0)
    directions = torch.linalg.svd(centred, full_matrices=False).Vh[:count]  # (count, D)
    values = centred @ directions.T  # (N, count)
    values = values * values.gather(0, values.abs().argmax(dim=0, keepdim=True)).sign()
    low, high = values.quantile(values.new_tensor([0.02, 0.98]), dim=0)
    scaled = (values - low) / (high - low).clamp(min=1e-12)  # tokens that are all alike have no components
    return scaled.clamp(0, 1).view(*tokens.shape[:-1], count)
