"""Lesson 10: principal components of tokens, and the direction that a few of them point out."""

import torch

from .exercise import Exercise
from .probes import as_sum, noise
from .running import close


def my_principal_components(tokens, count):
    centred = tokens - tokens.mean(dim=0)  # (N, D)
    _, _, Vt = torch.linalg.svd(centred, full_matrices=False)
    return centred @ Vt[:count].T  # (N, D) @ (D, count)


def stretched(N, D):
    """Return tokens that vary in each direction by another amount, around a mean that is not zero."""
    turned, _ = torch.linalg.qr(noise(D, D))
    return (noise(N, D) * torch.arange(D, 0, -1) @ turned + 5 * noise(D, seed=1)).double()


def probe_components(got, expected, tokens, count):
    centred = tokens - tokens.mean(dim=0)
    Vt = torch.linalg.svd(centred, full_matrices=False).Vh
    told = "You multiply by columns of the last matrix of `svd`. It is Vᵀ: its rows are the directions."
    yield close(got.abs(), (centred @ Vt[:, :count]).abs()), told
    known = {"mean": torch.ones(len(tokens))} | {f"component {n}": each for n, each in enumerate((centred @ Vt.T).T)}
    for n in range(count):
        mine, right = as_sum(got[:, n], known), as_sum(expected[:, n], known)
        yield mine != right, f"Column {n} of your result is {mine}, and must be {right}, without the mean token."


principal_components = Exercise(
    my_principal_components,
    task="`fn(tokens, count)`: (N, D) → (N, count), how far each token lies along the directions of most variation.",
    trials=[(stretched(12, 5), 3), (stretched(30, 7), 2), (stretched(9, 4), 1)],
    probes=probe_components,
    clue="The directions are the first rows of the last matrix of `torch.linalg.svd(centred, full_matrices=False)`.",
    shape="(N, count)",
    sizes=lambda tokens, count: {"N": tokens.shape[0], "D": tokens.shape[1], "count": count},
    view=lambda values, *given: values * (values**3).sum(dim=0).sign(),  # either sign is right
    gradients=False,
    imports="import torch",
)


def my_direction(clicked, y, penalty):
    pairs = clicked @ clicked.T  # (n, n)
    return clicked.T @ torch.linalg.solve(pairs + penalty * torch.eye(len(y)), y)  # (D,)


def probe_direction(got, expected, clicked, y, penalty):
    left = clicked.T @ (y - clicked @ got)  # λ w, if w is that of ridge regression
    fits = (left @ got / (got @ got)).round(decimals=3) + 0  # no "-0"
    yield close(left, fits * got, 1e-3), f"Your w is that of λ = {fits:g}. Here λ is {penalty:g}."
    everywhere = clicked.T @ torch.linalg.solve(clicked @ clicked.T + penalty, y)
    yield close(got, everywhere), "λ is added to every product of two tokens. Add it on the diagonal: λ I."
    known = {f"token {n}": token for n, token in enumerate(clicked)}
    yield True, f"Your w is {as_sum(got, known, 'tokens')}; it must be {as_sum(expected, known, 'tokens')}."


direction = Exercise(
    my_direction,
    task="`fn(clicked, y, penalty)`: (n, D), n values ±1 and λ → w (D,), of ridge regression.",
    trials=[(noise(n, D), noise(n, seed=1).sign(), penalty) for n, D, penalty in ((5, 9, 2), (2, 7, 0.5), (8, 6, 3))],
    probes=probe_direction,
    clue="Z is `clicked`. Add λ times `torch.eye(n)` to `Z @ Z.T`. `torch.linalg.solve(A, y)` is A⁻¹ y; Zᵀ comes last.",
    shape="(D,)",
    sizes=lambda clicked, y, penalty: {"n": clicked.shape[0], "D": clicked.shape[1]},
    gradients=False,
    imports="import torch",
)
