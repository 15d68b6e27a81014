"""Lesson 07: attention followed through all layers."""

import torch

from .exercise import Exercise
from .probes import as_sum, noise
from .running import close


def my_rollout(maps):
    B, _, T, _ = maps[0].shape
    result = torch.eye(T).expand(B, T, T)
    for weights in maps:
        A = weights.mean(dim=1)  # (B, T, T), the mean of the heads
        A = (A + torch.eye(T)) / 2  # the residual stream; rows sum to 1
        result = A @ result  # the later layer from the left
    return result


def probe_rollout(got, expected, maps):
    A = [weights.mean(1) for weights in maps]
    known = {"I": torch.eye(A[0].shape[-1]).expand_as(A[0])}
    if len(A) == 1:
        known |= {f"head {n}": head for n, head in enumerate(maps[0].unbind(1))} | {"(head 0)ᵀ": maps[0][:, 0].mT}
    if len(A) == 1 < maps[0].shape[1]:
        known["the heads' maximum"] = maps[0].amax(1)
    if len(A) == 2:
        known |= {"A₁": A[0], "A₂": A[1], "A₂A₁": A[1] @ A[0], "A₁A₂": A[0] @ A[1]}
        known["the mean of each head's own product"] = (maps[1] @ maps[0]).mean(1)
    mine = as_sum(got.to(A[0]), known)
    yield len(A) <= 2 and mine != "something else", f"Your result is {mine}. It must be {as_sum(expected, known)}."
    row = got[0, 0].sum()
    yield not close(row, 1), f"Row 0 of your result sums to {row:.3g}. In every layer it must be 1."


SIZES = [(1, 2, 1, 5), (1, 2, 3, 5), (2, 3, 2, 7), (4, 2, 3, 5), (3, 1, 4, 3)]  # layers, images, heads, tokens

rollout = Exercise(
    my_rollout,
    task="`fn(maps)`, L times (B, heads, T, T), the first layer first → (B, T, T): attention followed through layers.",
    trials=[([noise(B, h, T, T, seed=seed).softmax(-1) for seed in range(L)],) for L, B, h, T in SIZES],
    probes=probe_rollout,
    clue="In each layer: the heads' mean; its mean with I, the residual stream; the later layer from the left.",
    shape="(B, T, T)",
    sizes=lambda maps: {"L": len(maps), **dict(zip("BhT", maps[0].shape, strict=False))},
)
