"""Attention in which some patches weigh more than others, to ask what breaks a model at another size."""

from __future__ import annotations

from collections.abc import Callable

import torch
from jaxtyping import Float, Int64, UInt8
from torch import Tensor, nn
from torch.nn.functional import pad, scaled_dot_product_attention

from ..analysis.recording import self_attentions, swapped
from ..data import ImageSet
from ..inference import BATCH, logits_of
from ..model import VisionTransformer


def kinds_of_patches(images: ImageSet) -> Int64[Tensor, "B N"]:
    """Return for each patch of 4×4 pixels whether it shows ground only (0), the outline (1) or the inside (2).

    Raises ValueError for images without masks.
    """
    if images.masks is None:
        raise ValueError("these images have no masks, which say where the object is: those of `Shapes` have some")
    masks = images.masks.unflatten(1, (-1, 4)).unflatten(3, (-1, 4))  # (B, h, 4, w, 4)
    some, all_of_it = masks.any(dim=4).any(dim=2), masks.all(dim=4).all(dim=2)
    return (some.long() + all_of_it.long()).flatten(1)


def weighted_attention(
    q: Float[Tensor, "B h T d"], k: Float[Tensor, "B h T d"], v: Float[Tensor, "B h T d"], times: Float[Tensor, "B T"]
) -> Float[Tensor, "B h T d"]:
    """Attend as if token j of picture i were there times[i, j] times: w · exp(score) = exp(score + log w)."""
    return scaled_dot_product_attention(q, k, v, attn_mask=times.log()[:, None, None])


class Weighted(nn.Module):
    """The `attention` of a layer, by the function `attend`, with all scores multiplied by `scale`."""

    def __init__(self, attend: Callable, times: Float[Tensor, "B T"], scale: float):
        super().__init__()
        self.attend, self.times, self.scale = attend, times, scale

    def forward(self, q, k, v):
        return self.attend(self.scale * q, k, v, self.times), None


def answers(
    model: VisionTransformer,
    pixels: Float[Tensor, "B C H W"] | UInt8[Tensor, "B C H W"],
    times: Float[Tensor, "B N"] | None = None,
    scale: float = 1.0,
    attend: Callable = weighted_attention,
    class_token: float = 1.0,
) -> Int64[Tensor, " B"]:
    """Return what a model answers if, in attention, patch j of picture i is there times[i, j] times: classes (B,).

    The class token is there `class_token` times. `scale` multiplies the scores of attention. `attend(q, k, v, times)`
    computes it. Pixels are those of `logits_of`, and errors too.
    """
    layers, logits = self_attentions(model), []
    times = torch.ones(len(pixels), model.config.num_patches) if times is None else times
    for some, weights in zip(pixels.split(BATCH), times.split(BATCH), strict=True):
        weighted = Weighted(attend, pad(weights, (1, 0), value=class_token), scale)
        with swapped(dict.fromkeys(layers, weighted)):
            logits.append(logits_of(model, some))
    return torch.cat(logits).argmax(dim=1)
