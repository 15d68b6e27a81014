"""Eq. 1 with a reader's weights, as the paper has it and as people get it wrong."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from .comparing import Mistake
from .embedding_weights import Weights
from .rearranging import cut


def eq1(w: Weights, images: Tensor) -> Tensor:
    """z₀ = [x_class; x₁E; …; x_N E] + E_pos."""
    return tokens(w, images) + w.position


def tokens(w: Weights, images: Tensor, patches: Tensor | None = None) -> Tensor:
    """The class token and the projected patches, without positions: (B, 1+N, D)."""
    patches = project(w, images) if patches is None else patches
    return torch.cat([w.class_token.expand(len(images), 1, -1), patches], dim=1)


def project(w: Weights, images: Tensor) -> Tensor:
    return cut(images, w.sizes.patch_size, w.order) @ w.matrix.T + w.bias


def last(w: Weights, images: Tensor) -> Tensor:
    return tokens(w, images).roll(-1, dims=1)


def patches_only(w: Weights, images: Tensor, position: Tensor) -> Tensor:
    return tokens(w, images, project(w, images) + position)


def scrambled(w: Weights, images: Tensor) -> Tensor:
    """The convolution's (B, D, h, w) cut into N rows of D without bringing D to the end."""
    return project(w, images).transpose(1, 2).reshape(len(images), -1, w.sizes.embed_dim)


def columns_first(w: Weights, images: Tensor) -> Tensor:
    side = w.sizes.image_size // w.sizes.patch_size
    return project(w, images).unflatten(1, (side, side)).transpose(1, 2).flatten(1, 2)


def image_rows(w: Weights, images: Tensor) -> Tensor:
    return images.reshape(len(images), -1, w.sizes.patch_dim) @ w.matrix.T + w.bias


def activated(activation: Callable) -> Callable:
    return lambda w, images: tokens(w, images, activation(project(w, images))) + w.position


NO_CLASS_POSITION = "The class token gets no position: Eq. 1 adds one to every token, once the class token is in front."
ONE_POSITION = "All tokens get the same position vector: added to each of them, it tells no place from another."
LAST = "Your class token comes last. The paper puts it first, and the head reads token 0."

MISTAKES = [
    Mistake(tokens, "The positions are never added: there is a parameter for them, and `forward` does not use it."),
    Mistake(lambda w, x: patches_only(w, x, w.position[1:]), NO_CLASS_POSITION),
    Mistake(lambda w, x: patches_only(w, x, w.position[:-1]), NO_CLASS_POSITION),
    Mistake(lambda w, x: tokens(w, x) + w.position[:1], ONE_POSITION, "Do not index the positions: all 1+N are added."),
    Mistake(lambda w, x: last(w, x) + w.position, LAST, "`torch.cat` keeps the order of its list."),
    Mistake(lambda w, x: eq1(w, x).roll(-1, dims=1), LAST, "`torch.cat` keeps the order of its list."),
    Mistake(last, f"{LAST} And the positions are never added."),
    Mistake(
        lambda w, x: tokens(w._replace(class_token=0 * w.class_token), x) + w.position,
        "The class token is not used: token 0 is its position alone.",
    ),
    Mistake(
        lambda w, x: tokens(w, x, project(w, x) + w.class_token) + w.position,
        "The class token is added to every patch as well. It is a token of its own, in front.",
    ),
    Mistake(lambda w, x: tokens(w, x) * w.position, "The positions are multiplied with the tokens. Eq. 1 adds them."),
    Mistake(lambda w, x: tokens(w, x) - w.position, "The positions are subtracted. Eq. 1 adds them."),
    Mistake(lambda w, x: tokens(w, x) + 2 * w.position, "The positions are added twice."),
    Mistake(lambda w, x: tokens(w, x) + w.position.flip(0), "The positions are added back to front."),
    Mistake(
        lambda w, x: tokens(w, x, scrambled(w, x)) + w.position,
        "Your patch tokens mix numbers of different patches: the convolution gives (B, D, h, w), and `reshape` to "
        "(B, N, D) does not exchange axes.",
        "`.flatten(2).transpose(1, 2)`: first (B, D, N), then (B, N, D).",
    ),
    Mistake(
        lambda w, x: tokens(w, x, columns_first(w, x)) + w.position,
        "Your patches run down the columns of the grid. They run row by row.",
        "After the convolution `.flatten(2)` counts row by row; an exchange of h and w before it does not.",
    ),
    Mistake(
        lambda w, x: tokens(w, x, image_rows(w, x)) + w.position,
        "Your patches are image rows: `reshape` alone does not cut an image into patches.",
        "Use your `patchify` of notebook 01, or a convolution with stride P.",
    ),
    Mistake(activated(F.gelu), "There is a GELU after the projection. Eq. 1 is linear: it has no activation."),
    Mistake(activated(F.relu), "There is a ReLU after the projection. Eq. 1 is linear: it has no activation."),
    Mistake(
        lambda w, x: tokens(w, x) * w.sizes.embed_dim**0.5 + w.position,
        "The tokens are multiplied by √D, as in the transformer for text. Eq. 1 does not.",
    ),
    Mistake(
        lambda w, x: tokens(w, x, project(w, x) * w.sizes.embed_dim**0.5) + w.position,
        "The patch tokens are multiplied by √D, as in the transformer for text. Eq. 1 does not.",
    ),
    Mistake(
        lambda w, x: F.layer_norm(eq1(w, x), w.class_token.shape),
        "The tokens are normalised. Eq. 1 has no norm: the first one is in the encoder.",
    ),
]
