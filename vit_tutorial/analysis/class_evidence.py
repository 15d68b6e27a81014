"""Ask a model which class it sees before its last block, and which patches speak for a class."""

from collections.abc import Sequence
from itertools import product

import torch
from jaxtyping import Float, Int
from torch import Tensor

from ..config import to_pair
from ..errors import require_vit
from ..inference import eval_mode
from ..model import VisionTransformer
from .forward_pass import stages
from .recording import record_attention


@torch.no_grad()
def readout(model: VisionTransformer, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "stages B K"]:
    """Return the logits that the model would give if it ended before the first block, or after any: (L+1, B, K).

    In eval mode. Source: nostalgebraist 2020, "interpreting GPT: the logit lens".
    """
    with eval_mode(model):
        return torch.stack([model.forward_head(model.norm(z)) for z in stages(model, images)])


@torch.no_grad()
def occlusion(model: VisionTransformer, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B K h w"]:
    """Return by how much each logit falls when a patch is covered with zeros: (B, K, h, w). In eval mode.

    In normalised images, zero is the mean colour of the training set. It takes a forward pass for every patch.
    Source: Zeiler & Fergus 2013 (arXiv 1311.2901), section 4.2.
    """
    require_vit(model)
    (h, w), (P, Q) = model.config.grid, to_pair(model.config.patch_size)
    with eval_mode(model):
        logits, falls = model(images), []
        for row, column in product(range(h), range(w)):
            covered = images.clone()
            covered[:, :, P * row : P * row + P, Q * column : Q * column + Q] = 0
            falls.append(logits - model(covered))
    return torch.stack(falls, dim=-1).unflatten(-1, (h, w))


@torch.no_grad()
def class_attention(
    model: VisionTransformer, images: Float[Tensor, "B C H W"], classes: Int[Tensor, " B"] | Sequence[int]
) -> Float[Tensor, "B h w"]:
    """Return how much the answer takes from each patch along paths that raise the logit of a class: (B, h, w), ≥ 0.

    Like `attention_rollout`, but each weight is first multiplied by the gradient of the class's logit with respect to
    it, and negative products become 0. The map is the class token's row, or the mean of the patches' rows in a model
    that pools them. A classifier of zeros gives maps of zeros. In eval mode; gradients of parameters are neither needed
    nor changed. Raises IndexError for a class that the model lacks.
    Source: Chefer et al. 2021 (arXiv 2103.15679), Eqs. 5 and 6.
    """
    require_vit(model)
    with eval_mode(model), record_attention(model) as maps, torch.enable_grad():
        z = model.embeddings(images).detach().requires_grad_()  # so that the weights are asked, and not the parameters
        logits = model.forward_head(model.norm(model.encoder(z)))  # (B, K)
        chosen, (B, K) = torch.as_tensor(classes), logits.shape
        if model.config.num_classes == 0 or chosen.shape != (B,) or not 0 <= chosen.min() <= chosen.max() < K:
            asked = f"one class for each of {B} images, of the model's {model.config.num_classes}"
            raise IndexError(f"{asked}, counted from 0, is asked; got {chosen.tolist()}")
        gradients = torch.autograd.grad(logits[range(B), chosen].sum(), maps)
    relevance = identity = torch.eye(z.shape[1]).to(z)  # row i says what token i has taken from each token of the input
    for weights, gradient in zip(maps, gradients, strict=True):
        relevance = relevance + (weights * gradient).clamp(min=0).mean(dim=1) @ relevance  # (B, T, T)
    return model.pool(relevance - identity)[:, 1:].unflatten(1, model.config.grid)
