"""Attention in which some patches weigh more than others, to ask what breaks a model at another size."""

from collections.abc import Callable

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from ..analysis.recording import attending, attention_layers
from ..data import ImageSet
from ..inference import BATCH, logits_of
from ..model import VisionTransformer


def kinds_of_patches(images: ImageSet) -> Int64[Tensor, "B N"]:
    """Return what each patch of 4×4 pixels of `Shapes` shows: ground only (0), the outline (1) or the inside (2)."""
    masks = images.masks.unflatten(1, (-1, 4)).unflatten(3, (-1, 4))  # (B, h, 4, w, 4)
    some, all_of_it = masks.any(dim=4).any(dim=2), masks.all(dim=4).all(dim=2)
    return (some.long() + all_of_it.long()).flatten(1)


def weighted_attention(
    q: Float[Tensor, "B h T d"], k: Float[Tensor, "B h T d"], v: Float[Tensor, "B h T d"], times: Float[Tensor, "B T"]
) -> Float[Tensor, "B h T d"]:
    """Attend as if token j of picture i were there times[i, j] times: w · exp(score) = exp(score + log w)."""
    return scaled_dot_product_attention(q, k, v, attn_mask=times.log()[:, None, None])


def answers(
    model: VisionTransformer,
    pixels: Float[Tensor, "B C H W"] | UInt8[Tensor, "B C H W"],
    times: Float[Tensor, "B N"] | None = None,
    attend: Callable = weighted_attention,
) -> Int64[Tensor, " B"]:
    """Return what a model answers if, in attention, patch j of picture i is there times[i, j] times: classes (B,).

    The class token is there once. The pixels are those that `logits_of` takes.
    """
    attention_layers(model)  # refuses what has none
    asked = (len(pixels), model.config.num_patches)
    if times is None:
        times = torch.ones(asked)
    if times.shape != asked:
        raise ValueError(f"times has a number for each patch of each picture, {asked}, got {tuple(times.shape)}")
    logits = []
    for some, weights in zip(pixels.split(BATCH), times.split(BATCH), strict=True):
        of_tokens = pad(weights, (1, 0), value=1.0)  # (B, 1+N)
        with attending(model, lambda layer, q, k, v, times=of_tokens: attend(q, k, v, times)):
            logits.append(logits_of(model, some))
    return torch.cat(logits).argmax(dim=1)
