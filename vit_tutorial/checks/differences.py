"""Two results side by side: what differs first (kind, shape, dtype, device, values), as a sentence with numbers."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
import torch
from torch import Tensor

Letters = str | tuple[tuple[str, str], ...]


def difference(
    result, expected, letters: Letters = "", tolerance: float = 1e-5, name: str = "The result"
) -> str | None:
    """What is wrong with a result, the first thing first, with the numbers; None if nothing is."""
    if isinstance(expected, (tuple, list)):
        names = letters or tuple((f"result {i + 1}", "") for i in range(len(expected)))
        if not isinstance(result, (tuple, list)) or len(result) != len(expected):
            got = f"{len(result)} values" if isinstance(result, (tuple, list)) else kind(result)
            return f"The result must be {len(expected)} values, {', '.join(n for n, _ in names)}; got {got}."
        parts = list(zip(result, expected, names, strict=True))
        # A wrong shape first: it explains wrong values in another part.
        parts.sort(key=lambda part: getattr(part[0], "shape", None) == getattr(part[1], "shape", None))
        found = (difference(r, e, text, tolerance, f"`{part}`") for r, e, (part, text) in parts)
        return next((sentence for sentence in found if sentence), None)
    if not isinstance(expected, Tensor):
        return number_difference(result, expected)
    if not isinstance(result, Tensor):
        return f"{name} must be a tensor, got {kind(result)}."
    if result.shape != expected.shape:
        return shape_difference(name, tuple(result.shape), tuple(expected.shape), letters)
    if result.dtype != expected.dtype:
        return f"{name} must be of dtype {expected.dtype}, got {result.dtype}."
    return value_difference(name, result.detach(), expected.detach(), tolerance)


def shape_difference(name: str, got: tuple, expected: tuple, letters: str) -> str:
    asked = f"{letters} = {expected}" if letters else f"{expected}"
    more = ""
    if sorted(got) == sorted(expected):
        more = " The sizes are right and their order is not."
    elif torch.Size(got).numel() == torch.Size(expected).numel():
        more = " The count of numbers is right: they are grouped into other axes."
    return f"{name} has the wrong shape: {asked} expected, got {got}.{more}"


def value_difference(name: str, result: Tensor, expected: Tensor, tolerance: float) -> str | None:
    agree = torch.isclose(result, expected, rtol=10 * tolerance, atol=tolerance)
    if agree.all():
        return None
    if result.is_floating_point() and not result.isfinite().all():
        return f"{name} has the right shape, but holds {int((~result.isfinite()).sum())} values that are inf or nan."
    first = (~agree).nonzero()[0].tolist()
    wanted, got = expected[tuple(first)].item(), result[tuple(first)].item()
    return (
        f"{name} has the right shape and wrong values: {int(agree.sum())} of {agree.numel()} agree. "
        f"The first that differs is at {first}: {wanted:.4g} expected, got {got:.4g}."
    )


def number_difference(result, expected: int) -> str | None:
    if isinstance(result, Integral) and not isinstance(result, bool):
        return None if result == expected else f"{expected:,} expected, got {int(result):,}."
    right = isinstance(result, float) and result == expected
    start = "The number is right, its kind is not: a" if right else "A"
    return f"{start} whole number, {kind(expected)}, is expected; got {kind(result)}."


def same(result, known, tolerance: float = 1e-5) -> bool:
    """True if two results agree, dtypes aside."""
    if isinstance(known, (tuple, list)):
        fits = isinstance(result, (tuple, list)) and len(result) == len(known)
        return fits and all(same(r, k, tolerance) for r, k in zip(result, known, strict=True))
    if isinstance(known, Tensor):
        fits = isinstance(result, Tensor) and result.shape == known.shape
        return fits and torch.allclose(
            result.detach().double(), known.detach().double(), 10 * tolerance, tolerance, equal_nan=True
        )
    return isinstance(result, Real) and bool(result == known)


def to_number(result) -> float | None:
    """A number of Python, numpy or torch as a float; None if it is none, or too large for one."""
    if isinstance(result, np.ndarray) and result.dtype.kind in "fiu" and result.size == 1:
        result = result.item()
    if isinstance(result, Tensor) and result.numel() == 1 and not result.is_complex():
        return float(result)
    number = isinstance(result, Real) and not isinstance(result, bool) and abs(result) < 1e300
    return float(result) if number or isinstance(result, float) else None


def kind(value) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value!r} ({type(value).__name__})"
    return f"a value of type {type(value).__name__}"
