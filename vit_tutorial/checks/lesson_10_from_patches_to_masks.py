"""Lesson 10: principal components of tokens."""

from __future__ import annotations

import torch

from .exercise import Exercise, noise


def my_principal_components(tokens, count):
    centred = tokens - tokens.mean(dim=0)  # (N, D)
    U, S, Vt = torch.linalg.svd(centred, full_matrices=False)  # noqa: RUF059 (the slips use them)
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


EIGEN = "torch.linalg.eigh(centred.T @ centred)[1]"
CENTRED, PROJECTED = "tokens - tokens.mean(dim=0)", "centred @ Vt[:count].T"

principal_components = Exercise(
    my_principal_components,
    task="`fn(tokens, count)`: (N, D) → (N, count), how far each token lies along the directions of most variation.",
    trials=[(stretched(12, 5), 3), (stretched(30, 7), 2), (stretched(9, 4), 1)],
    slips={
        "The mean token is not subtracted: the first direction then points at the mean, not along the differences.":
            (CENTRED, "tokens"),
        "Each token's own mean is subtracted. Subtract the mean *token*, over the N tokens: `mean(dim=0)`.":
            (CENTRED, "tokens - tokens.mean(dim=1, keepdim=True)"),
        "Your directions come from centred tokens; the tokens that you project are not centred.":
            (PROJECTED, "tokens @ Vt[:count].T"),
        "One number is subtracted, the mean of all values. Subtract the mean *token*: `mean(dim=0)`.":
            (CENTRED, "tokens - tokens.mean()"),
        "Your directions come from tokens that are not centred; they point at the mean.":
            ("svd(centred,", "svd(tokens,"),
        "You take columns of V transposed. Its *rows* are the directions: `Vt[:count]`.":
            [(PROJECTED, "centred @ Vt[:, :count]"), (PROJECTED, "centred @ Vt.T[:count].T")],
        "These are the columns of U, all of length 1: multiplied by S they are the components.":
            (PROJECTED, "U[:, :count]"),
        "Components are multiplied by S twice: `centred @ V` has S in it already.":
            (PROJECTED, "centred @ Vt[:count].T * S[:count]"),
        "These are the last components, along which the tokens differ least. The first ones come first in Vt.":
            (PROJECTED, "centred @ Vt[-count:].T"),
        "These are the directions, (count, D). Each token's place along them is asked: `centred @ Vt[:count].T`.":
            (PROJECTED, "Vt[:count]"),
        "`torch.linalg.eigh` has the smallest first. The largest are its last columns, in the opposite order.":
            [(PROJECTED, f"centred @ {EIGEN}[:, {columns}]") for columns in (":count", "-count:")],
        "Your result has no signs. They say on which side of the mean token a token lies.":
            (PROJECTED, f"({PROJECTED}).abs()"),
        "You divide each feature by its standard deviation. Only the mean is subtracted.":
            (CENTRED, f"({CENTRED}) / tokens.std(dim=0)"),
        "The values are stretched to fill the range from 0 to 1, as for colours. The components themselves are asked.":
            (PROJECTED, f"((c := {PROJECTED}) - c.amin(0)) / (c.amax(0) - c.amin(0))"),
        "All D components are returned: the first `count` of them are asked.": (PROJECTED, "centred @ Vt.T"),
        "The result is transposed: one row for each token, (N, count).": (PROJECTED, "Vt[:count] @ centred.T"),
    },
    hint="Three steps: subtract the mean token; `torch.linalg.svd(…, full_matrices=False)` returns U, S and V "
    "transposed; multiply the centred tokens by the first `count` rows of the last, transposed.",
    shape="(N, count)",
    view=same_sign,
    gradients=False,
    imports="import torch",
)  # fmt: skip
