"""Lesson 10: principal components of tokens."""

from __future__ import annotations

import torch

from .exercise import Exercise
from .probes import noise
from .running import close


def my_principal_components(tokens, count):
    centred = tokens - tokens.mean(dim=0)  # (N, D)
    _, _, Vt = torch.linalg.svd(centred, full_matrices=False)
    return centred @ Vt[:count].T  # (N, D) @ (D, count)


def same_sign(values, tokens, count):
    """Return the components with the largest value of each made positive: their signs are a matter of taste."""
    if not isinstance(values, torch.Tensor) or values.ndim != 2 or not values.numel():
        return values
    return values * values.gather(0, values.abs().argmax(dim=0, keepdim=True)).sign()


def stretched(N, D):
    """Return tokens that vary in each direction by another amount, around a mean that is not zero."""
    turned, _ = torch.linalg.qr(noise(D, D))
    return (noise(N, D) * torch.arange(D, 0, -1) @ turned + 5 * noise(D, seed=1)).double()


# fmt: off
def along_directions(got, expected, tokens, count):
    """Ask where the components come from: their signs, their mean, their order, their directions and their lengths."""
    centred = tokens - tokens.mean(0)
    U, S, Vt = torch.linalg.svd(centred, full_matrices=False)
    got, every = got.double(), (centred @ Vt.T).abs()
    yield not close(got, expected.abs()), (
        "Your result has no signs. They say on which side of the mean token a token lies.")
    yield not close(got.abs(), U[:, :count].abs()), (
        "These are the columns of U, all of length 1: multiplied by S they are the components.")
    for n, mine in enumerate(got.T):
        which = next((k for k, other in enumerate(every.T) if close(mine.abs(), other)), n)
        yield which == n, (
            f"Column {n} of your result is component {which}, by size: the largest comes first. (`eigh` has the "
            "smallest first.)")
        yield abs(mine.mean()) < 1e-4 * S[n], (
            f"The mean of your component {n} is {mine.mean():.3g}, and should be 0: subtract the mean token, over the "
            "N tokens, before anything else.")
        along = torch.linalg.lstsq(centred, mine[:, None]).solution[:, 0]
        straight, long = abs(along @ Vt[n] / along.norm()).item(), (mine.norm() / S[n]).item()
        yield straight < 0.999 or abs(long - 1) < 1e-3, (
            f"Your component {n} is {long:.3g} times as long as it should be (S is {S[n]:.3g}): `centred @ V` has S "
            "in it already.")
        yield close(mine.abs(), every[:, n]), (
            f"The direction of your component {n} has a cosine of {straight:.2f} with the right one: the directions "
            "are the first *rows* of V transposed, from centred tokens and nothing else.")
# fmt: on


principal_components = Exercise(
    my_principal_components,
    task="`fn(tokens, count)`: (N, D) → (N, count), how far each token lies along the directions of most variation.",
    trials=[(stretched(12, 5), 3), (stretched(30, 7), 2), (stretched(9, 4), 1)],
    probes=along_directions,
    hint="Three steps: subtract the mean token; `torch.linalg.svd(…, full_matrices=False)` returns U, S and V "
    "transposed; multiply the centred tokens by the first `count` rows of the last, transposed.",
    shape="(N, count)",
    sizes=lambda tokens, count: {"N": tokens.shape[0], "D": tokens.shape[1], "count": count},
    view=same_sign,
    gradients=False,
    imports="import torch",
)
