"""LayerNorm as a function `(x, weight, bias, eps)`, and the wrong ones seen in public."""

from __future__ import annotations

from functools import partial

import torch.nn.functional as F
from torch import Tensor

from .comparing import Mistake


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float) -> Tensor:
    return F.layer_norm(x, x.shape[-1:], weight, bias, eps)


def standardised(x, weight, bias, eps, *, dim=-1, correction=0, centre=True, power=0.5):
    centred = x - x.mean(dim, keepdim=True)
    variance = x.var(dim, correction=correction, keepdim=True)
    return (centred if centre else x) / (variance + eps) ** power * weight + bias


def outside(x, weight, bias, eps, *, correction):
    return (x - x.mean(-1, keepdim=True)) / (x.std(-1, correction=correction, keepdim=True) + eps) * weight + bias


def root_mean_square(x, weight, bias, eps):
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight + bias


def uncentred_variance(x, weight, bias, eps):
    return (x - x.mean(-1, keepdim=True)) / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight + bias


def fixed_eps(x, weight, bias, eps, *, value):
    return None if eps == value else layer_norm(x, weight, bias, value)


TOKEN = "Every token is normalised by itself, over its D numbers: `dim=-1`, with `keepdim=True`."
VARIANCE = (
    "The variance is the mean of the squared distances from the mean: `x.var(-1, correction=0)`. It divides by D."
)
INSIDE = "Divide by `torch.sqrt(variance + eps)`."

NORM_MISTAKES = [
    Mistake(partial(standardised, correction=1), "The variance divides by D - 1, not by D.", VARIANCE),
    Mistake(partial(outside, correction=0), "eps is added to the standard deviation, outside the root.", INSIDE),
    Mistake(partial(outside, correction=1), "Two things: the variance divides by D - 1, and eps is outside the root.",
            f"{VARIANCE} {INSIDE}"),
    Mistake(partial(standardised, power=1), "You divide by the variance, not by its root.", INSIDE),
    Mistake(uncentred_variance, "The variance is taken as the mean of the squares: the mean is not subtracted first.",
            VARIANCE),
    Mistake(partial(standardised, dim=1), "You normalise over the tokens, not over the D numbers of a token.", TOKEN),
    Mistake(partial(standardised, dim=0), "You normalise over the batch, not over the D numbers of a token.", TOKEN),
    Mistake(partial(standardised, dim=(0, 1)), "You normalise over batch and tokens: that is batch norm.", TOKEN),
    Mistake(partial(standardised, dim=(1, 2)), "You normalise over all numbers of an image.", TOKEN),
    Mistake(partial(standardised, dim=(0, 1, 2)), "You normalise over all numbers of the batch at once.", TOKEN),
    Mistake(partial(standardised, centre=False), "The mean is not subtracted.", "First `x - mean`, then divide."),
    Mistake(root_mean_square, "The mean is not subtracted: this is RMSNorm.", "First `x - mean`, then divide."),
    Mistake(lambda x, w, b, eps: standardised(x, w, 0, eps), "`bias` is not added.", "normalised * weight + bias"),
    Mistake(lambda x, w, b, eps: standardised(x, 1, b, eps), "`weight` is not used.", "normalised * weight + bias"),
    Mistake(lambda x, w, b, eps: standardised(x, 1, 0, eps), "`weight` and `bias` are not used.",
            "normalised * weight + bias"),
    Mistake(lambda x, w, b, eps: (standardised(x, 1, 0, eps) + b) * w, "`bias` is added before `weight` multiplies.",
            "normalised * weight + bias"),
    Mistake(lambda x, w, b, eps: layer_norm(x, w, b, eps**2), "eps is squared before it is added to the variance.",
            INSIDE),
    Mistake(partial(fixed_eps, value=0.0), "eps is not used: a token whose numbers are all equal gives nan.", INSIDE),
    *(Mistake(partial(fixed_eps, value=eps), f"eps is always {eps:g}, whatever the argument says.", INSIDE)
      for eps in (1e-5, 1e-6, 1e-8, 1e-12)),
]  # fmt: skip
