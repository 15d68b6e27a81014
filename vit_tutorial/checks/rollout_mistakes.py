"""Attention rollout with its steps replaceable, and the wrong steps, each with what it looks like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce

import torch
from torch import Tensor

from .comparing import Mistake


def eye(A: Tensor) -> Tensor:
    return torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)


def with_identity(A: Tensor) -> Tensor:
    return (A + eye(A)) / 2


def over_row(A: Tensor) -> Tensor:
    return A / A.sum(dim=-1, keepdim=True)


def product(layers: Sequence[Tensor]) -> Tensor:
    return reduce(lambda before, A: A @ before, layers)


def heads_mean(A: Tensor) -> Tensor:
    return A.mean(dim=1)


def through_layers(
    maps: Sequence[Tensor],
    heads: Callable[[Tensor], Tensor] = heads_mean,
    mix: Callable[[Tensor], Tensor] = with_identity,
    pick: Callable[[list], list] = lambda layers: layers,
    together: Callable[[Sequence[Tensor]], Tensor] = product,
    finish: Callable[[Tensor], Tensor] = lambda R: R,
) -> Tensor:
    """L times (B, h, T, T) → (B, T, T), its steps replaceable."""
    return finish(together(pick([mix(heads(A)) for A in maps])))


def wrong(message: str, hint: str | None = None, **steps) -> Mistake:
    return Mistake(partial(through_layers, **steps), message, hint)


def wrong_heads(message: str, heads: Callable[[Tensor], Tensor]) -> list[Mistake]:
    """With the identity, the rows then divided by their sums or not; without it."""
    ways = (with_identity, lambda A: over_row(A + eye(A)), lambda A: A + eye(A), lambda A: A)
    return [wrong(message, HEADS, heads=heads, mix=mix) for mix in ways]


def stacked(dim: int) -> Callable[[Sequence[Tensor]], Tensor]:
    def together(layers: Sequence[Tensor]) -> Tensor:
        return torch.stack([product(layers[: i + 1]) for i in range(len(layers))], dim=dim)

    return together


RESIDUAL = "The residual stream carries each token on: `(A + torch.eye(T)) / 2` in each layer, A the mean of the heads."
ORDER = "Each layer works on what the layers before it gave: `rollout = A @ rollout`, from the first layer to the last."
HEADS = "The heads of a layer are averaged: `maps[i].mean(dim=1)`, (B, h, T, T) → (B, T, T)."
SHAPE = "(B, T, T): a matrix for each image, which says for each output token how much of each input token is in it."

ROLLOUT_MISTAKES = [
    wrong("The identity is missing: nothing of a token goes past attention, as if there were no residual stream.",
          RESIDUAL, mix=lambda A: A),
    wrong("The layers are multiplied in the opposite order: the first layer must act first, from the right.", ORDER,
          together=lambda layers: product(layers[::-1])),
    wrong("The identity is missing, and the layers are multiplied in the opposite order.", RESIDUAL, mix=lambda A: A,
          together=lambda layers: product(layers[::-1])),
    wrong("The identity is added, and nothing divided: the rows sum to 2 after one layer, to 2^L after L.", RESIDUAL,
          mix=lambda A: A + eye(A)),
    wrong("Your rows sum to 2^L, and the layers are multiplied in the opposite order.", RESIDUAL,
          mix=lambda A: A + eye(A), together=lambda layers: product(layers[::-1])),
    wrong("The columns sum to 1 in each layer, not the rows.", RESIDUAL,
          mix=lambda A: (A + eye(A)) / (A + eye(A)).sum(dim=-2, keepdim=True)),
    wrong("The identity is divided by 2, attention is not: the rows sum to 1.5 after one layer.", RESIDUAL,
          mix=lambda A: A + eye(A) / 2),
    wrong("Attention is divided by 2, the identity is not: the rows sum to 1.5 after one layer.", RESIDUAL,
          mix=lambda A: A / 2 + eye(A)),
    wrong("Ones are added everywhere, not the identity: that has ones on its diagonal only, `torch.eye(T)`.", RESIDUAL,
          mix=lambda A: (A + torch.ones_like(A)) / 2),
    wrong("Each layer's matrix is in your product with its rows and columns exchanged.", "Row i of A says how much "
          "token i takes from each token: `(A + torch.eye(T)) / 2` with A not transposed, and `rollout = A @ rollout`.",
          mix=lambda A: with_identity(A.mT)),
    *wrong_heads("Of the heads, the largest weight is taken, not the mean.", lambda A: A.amax(dim=1)),
    *wrong_heads("Of the heads, the smallest weight is taken, not the mean.", lambda A: A.amin(dim=1)),
    *wrong_heads("The heads are added up, not averaged.", lambda A: A.sum(dim=1)),
    *wrong_heads("Only the first head is used.", lambda A: A[:, 0]),
    *wrong_heads("Only the last head is used.", lambda A: A[:, -1]),
    wrong("The heads are still there, (B, h, T, T): each layer's must be averaged before the product.", HEADS,
          heads=lambda A: A),
    wrong("The heads are multiplied one by one, and averaged at the end: in the model they meet in every layer.", HEADS,
          heads=lambda A: A, finish=heads_mean),
    *(wrong("Only the last layer is in your result.", ORDER, mix=mix, pick=lambda layers: layers[-1:])
      for mix in (with_identity, lambda A: A, lambda A: A + eye(A))),
    *(wrong("Only the first layer is in your result: does `return` stand in the loop?", ORDER, mix=mix,
            pick=lambda layers: layers[:1]) for mix in (with_identity, lambda A: A, lambda A: A + eye(A))),
    wrong("The first layer is missing in your product.", ORDER, pick=lambda layers: layers[1:]),
    wrong("The last layer is missing in your product.", ORDER, pick=lambda layers: layers[:-1]),
    *(wrong("The layers are multiplied number by number, with `*`: paths through other tokens are lost.", ORDER,
            mix=mix, together=partial(reduce, torch.mul))
      for mix in (with_identity, lambda A: A, lambda A: A + eye(A))),
    *(wrong("The layers are averaged. They follow one another: their matrices are multiplied.", ORDER, mix=mix,
            together=lambda layers: sum(layers) / len(layers)) for mix in (with_identity, lambda A: A)),
    *(wrong("The layers are added up. They follow one another: their matrices are multiplied.", ORDER, mix=mix,
            together=sum) for mix in (with_identity, lambda A: A, lambda A: A + eye(A))),
    Mistake(lambda maps: product([heads_mean(maps[0]), *(with_identity(heads_mean(A)) for A in maps[1:])]),
            "The identity is missing in the first layer: there is a residual stream around that one, too.", RESIDUAL),
    Mistake(lambda maps: with_identity(product([heads_mean(A) for A in maps])), "The identity is added once, at the "
            "end. There is a residual stream around every layer.", RESIDUAL),
    wrong("Your result is transposed: its columns sum to 1, not its rows.", SHAPE, finish=lambda R: R.mT),
    wrong("The images are mixed: their mean is taken, and one matrix is left.", HEADS, finish=lambda R: R.mean(dim=0)),
    wrong("You average over the images, `dim=0`, and the heads are still there.", HEADS, heads=lambda A: A.mean(dim=0)),
    wrong("Images and heads are all averaged: one matrix is left, and every image needs one.", HEADS,
          heads=lambda A: A.mean(dim=(0, 1))),
    wrong("Only the first image is left.", SHAPE, finish=lambda R: R[0]),
    wrong("This is the class token's row only. The whole matrix is asked for.", SHAPE, finish=lambda R: R[:, 0]),
    wrong("This is the class token's row only, without itself. The whole matrix is asked for.", SHAPE,
          finish=lambda R: R[:, 0, 1:]),
    wrong("The class token is left out: all T tokens are asked for.", SHAPE, finish=lambda R: R[:, 1:, 1:]),
    *(wrong("There is a result for each layer. The last one is the rollout: it has all layers in it.", SHAPE,
            together=stacked(dim)) for dim in (0, 1)),
]  # fmt: skip
