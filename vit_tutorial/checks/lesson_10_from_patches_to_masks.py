"""Lesson 10: principal components of tokens."""

import torch

from .exercise import Exercise
from .probes import as_sum, noise


def my_principal_components(tokens, count):
    centred = tokens - tokens.mean(dim=0)  # (N, D)
    _, _, Vt = torch.linalg.svd(centred, full_matrices=False)
    return centred @ Vt[:count].T  # (N, D) @ (D, count)


def stretched(N, D):
    """Return tokens that vary in each direction by another amount, around a mean that is not zero."""
    turned, _ = torch.linalg.qr(noise(D, D))
    return (noise(N, D) * torch.arange(D, 0, -1) @ turned + 5 * noise(D, seed=1)).double()


def along_directions(got, expected, tokens, count):
    components = my_principal_components(tokens, tokens.shape[1]).T
    known = {"1": torch.ones(len(tokens))} | {f"component {n}": each for n, each in enumerate(components)}
    for n in range(count):
        mine, right = as_sum(got[:, n], known), as_sum(expected[:, n], known)
        yield mine == right, f"Column {n} of your result is {mine}, and must be {right}, without the mean token."


principal_components = Exercise(
    my_principal_components,
    task="`fn(tokens, count)`: (N, D) → (N, count), how far each token lies along the directions of most variation.",
    trials=[(stretched(12, 5), 3), (stretched(30, 7), 2), (stretched(9, 4), 1)],
    probes=along_directions,
    clue="Three steps: subtract the mean token; `torch.linalg.svd(…, full_matrices=False)` returns U, S and V "
    "transposed; multiply the centred tokens by the first `count` rows of the last, transposed.",
    shape="(N, count)",
    sizes=lambda tokens, count: {"N": tokens.shape[0], "D": tokens.shape[1], "count": count},
    view=lambda values, *given: values * (values**3).sum(dim=0).sign(),  # either sign is right
    gradients=False,
    imports="import torch",
)
