"""Compare the reader's result with the reference's: kind, dtype, shape, values, gradients, and known mistakes."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .running import NEW_TENSORS, NotAttempted, ReaderError, Wrong, call, named, show_call, stopped_by, tensors_in

Letters = str | tuple[tuple[str, str], ...]


class Mistake(NamedTuple):
    """A wrong implementation that people write, and the sentence that names its symptom."""

    function: Callable
    message: str
    hint: str | None = None


def known(hint: str | None, table: Mapping[str, Callable | Sequence[Callable]], make=lambda do: do) -> list[Mistake]:
    """Return the mistakes of a table {message: function, or several}; `make` turns each entry into the function."""
    several = ((message, do if isinstance(do, (list, tuple)) else [do]) for message, do in table.items())
    return [Mistake(make(do), message, hint) for message, functions in several for do in functions]


def replacing(reference: Callable, step: str, hint: str | None, table: Mapping) -> list[Mistake]:
    """Return the mistakes of a table {message: what replaces this one step of the `reference`}."""
    return known(hint, table, lambda do: partial(reference, **{step: do}))


def within(reference: Callable, step: str, start: str, hint: str | None, mistakes: Sequence[Mistake]) -> list[Mistake]:
    """Return the mistakes of one step of the `reference` as mistakes of the whole; `start` says where they are."""
    return [Mistake(partial(reference, **{step: m.function}), f"{start}{m.message}", m.hint or hint) for m in mistakes]


def difference(result, expected, letters: Letters = "", name: str = "The result") -> str | None:
    """Say what is wrong with a result, the first thing first; None if nothing is."""
    if isinstance(expected, (tuple, list)):
        if not isinstance(result, (tuple, list)) or len(result) != len(expected):
            got = f"{len(result)} values" if isinstance(result, (tuple, list)) else kind(result)
            return f"The result must be {len(expected)} values, {', '.join(n for n, _ in letters)}; got {got}."
        parts = list(zip(result, expected, letters, strict=True))
        # A wrong shape first: it explains wrong values in another part.
        parts.sort(key=lambda part: getattr(part[0], "shape", None) == getattr(part[1], "shape", None))
        found = (difference(r, e, text, f"`{part}`") for r, e, (part, text) in parts)
        return next(filter(None, found), None)
    if not isinstance(expected, Tensor):
        return number_difference(result, expected)
    found = form_difference(result, expected, letters, name)
    return found or value_difference(result.detach(), expected.detach(), name)


def form_difference(result, expected: Tensor, letters: str, name: str = "The result") -> str | None:
    """Say what is wrong with the kind, the shape or the dtype of a result; None if nothing is."""
    if not isinstance(result, Tensor):
        return f"{name} must be a tensor, got {kind(result)}."
    if result.shape == expected.shape:
        right = result.dtype == expected.dtype
        return None if right else f"{name} must be of dtype {expected.dtype}, got {result.dtype}."
    got, asked, more = tuple(result.shape), tuple(expected.shape), ""
    if sorted(got) == sorted(asked):
        more = " The sizes are right and their order is not."
    elif result.numel() == expected.numel():
        more = " The count of numbers is right: they are grouped into other axes."
    return f"{name} has the wrong shape: {letters}{' = ' * bool(letters)}{asked} expected, got {got}.{more}"


def value_difference(result: Tensor, expected: Tensor, name: str) -> str | None:
    agree = torch.isclose(result, expected, rtol=1e-4, atol=1e-5)
    if agree.all():
        return None
    if result.is_floating_point() and not result.isfinite().all():
        return f"{name} has the right shape, but holds {int((~result.isfinite()).sum())} values that are inf or nan."
    first = (~agree).nonzero()[0].tolist()
    wanted, got = expected[tuple(first)].item(), result[tuple(first)].item()
    digits = 4 if f"{wanted:.4g}" != f"{got:.4g}" else 8
    off, rounded = (result - expected).abs().max().item(), ""
    if off <= expected.abs().max().item() / 100 and not result.equal(result.round()):
        rounded = f" None is off by more than {off:.2g}: are they rounded on the way, to half precision for instance?"
    return (
        f"{name} has the right shape and wrong values: {int(agree.sum())} of {agree.numel()} agree. "
        f"The first that differs is at {first}: {wanted:.{digits}g} expected, got {got:.{digits}g}.{rounded}"
    )


def number_difference(result, expected: int) -> str | None:
    if isinstance(result, Integral) and not isinstance(result, bool):
        return None if result == expected else f"{expected:,} expected, got {int(result):,}."
    right = isinstance(result, float) and result == expected
    start = "The number is right, its kind is not: a" if right else "A"
    return f"{start} whole number, {kind(expected)}, is expected; got {kind(result)}."


def same(result, known, tolerance: float = 1e-5) -> bool:
    """Tell whether two results agree, dtypes aside."""
    if isinstance(known, (tuple, list)):
        fits = isinstance(result, (tuple, list)) and len(result) == len(known)
        return fits and all(same(r, k, tolerance) for r, k in zip(result, known, strict=True))
    if isinstance(known, Tensor):
        fits = isinstance(result, Tensor) and result.shape == known.shape
        return fits and torch.allclose(
            result.detach().double(), known.detach().double(), 10 * tolerance, tolerance, equal_nan=True
        )
    if isinstance(known, Exception):
        return type(result) is type(known) and str(result) == str(known)
    return isinstance(result, Real) and bool(result == known)


def to_number(result) -> float | None:
    """Return a number of Python, numpy or torch as a float; None if it is none, or too large for one."""
    if isinstance(result, np.ndarray) and result.dtype.kind in "fiu" and result.size == 1:
        result = result.item()
    if isinstance(result, Tensor) and result.numel() == 1 and not result.is_complex():
        return float(result)
    number = isinstance(result, Real) and not isinstance(result, bool) and abs(result) < 1e300
    return float(result) if number or isinstance(result, float) else None


def one_number(result, name: str) -> float:
    """Return the reader's result as a float; raise Wrong if it is not one number."""
    if (number := to_number(result)) is None:
        raise Wrong(f"{name} is one number; got {kind(result)}.")
    return number


def kind(value) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value!r} ({type(value).__name__})"
    return f"a value of type {type(value).__name__}"


def compare(
    function: Callable,
    reference: Callable,
    trials: Sequence[tuple],
    letters: Letters = "",
    mistakes: Sequence[Mistake] = (),
    gradients: bool = True,
    again: tuple | None = None,
    narrow: Sequence[tuple[tuple, str]] = (),
) -> None:
    """Raise Wrong unless the reader's `function` does what `reference` does, for every tuple of arguments in `trials`.

    `letters` names the result's axes, "(B, N, D)"; for a result of several, a (name, letters) for each.
    A wrong result, or an error, is first looked up among the `mistakes`: the same one means the same mistake.
    `narrow` has easier arguments, and what to say if the function is right for these ("Right for square images").
    The first trial is repeated with other values (`again`, if not any will do), so that nothing can be kept from
    call to call, and the last one with gradients. Trials differ in every size: none can be written into the code.
    """
    for number, args in enumerate(trials):
        expected = reference(*args)
        try:
            result = call(function, *args)
        except ReaderError as error:
            hidden = hidden_in(trials[:number], mistakes, reference)
            explain(error, args, hidden, where_right(function, reference, number, narrow))
            raise
        if found := difference(result, expected, letters):
            call_text = f"\nThis was `{show_call(function, args)}`."
            if same(result, expected):  # only the kind, the dtype or the device is wrong
                start = "" if isinstance(expected, int) else "The values are right. "
                hint = NEW_TENSORS if any(isinstance(arg, Tensor) for arg in args) else None
                raise Wrong(start + found + call_text, hint)
            recognise(result, args, hidden_in(trials[:number], mistakes, reference))
            if not same(tensors_in(call(function, *args)), tensors_in(result)):
                raise Wrong(
                    "Two calls with the same arguments give two results: something in your function is random, or is "
                    "kept from call to call.",
                    "Look for `torch.rand`, `F.dropout`, layers or parameters made in the function, and globals that "
                    "change.",
                )
            where = where_right(function, reference, number, narrow)
            raise Wrong(f"{found}{call_text}\n{where}".rstrip(), SCRAMBLED if scrambled(result, expected) else None)
    again = again or [1 - 2 * arg.detach().flip(0) if is_float(arg) else arg for arg in trials[0]]
    if difference(call(function, *again), reference(*again), letters):
        raise Wrong(
            "Your function is right when it is first called, and wrong when it is called again with other numbers of "
            "the same shape: it keeps something from call to call.",
            "The result may depend on the arguments only: look for globals, default arguments and stored tensors.",
        )
    if gradients:
        compare_gradients(function, reference, trials[-1], mistakes)


def attempt(function: Callable, args: tuple):
    """Return what a mistake's function gives for these arguments, or the error with which it stops."""
    try:
        return function(*args)
    except Exception as error:
        return error


def hidden_in(trials: Sequence[tuple], mistakes: Sequence[Mistake], reference: Callable) -> list[Mistake]:
    """Return the mistakes that show in none of these trials, where the reader's result was right."""
    return [m for m in mistakes if all(same(attempt(m.function, args), reference(*args)) for args in trials)]


def recognise(result, args: tuple, mistakes: Sequence[Mistake]) -> None:
    """Raise Wrong with the message of the first mistake that gives this result for these arguments, if one does."""
    for mistake in mistakes:
        if same(result, attempt(mistake.function, args)):
            raise Wrong(mistake.message, mistake.hint)


def explain(error: ReaderError, args: tuple, mistakes: Sequence[Mistake], otherwise: str, hint=None) -> None:
    """Say below the reader's error which of the mistakes stops with the same one; what to say otherwise if none."""
    try:
        recognise(error.__context__, args, mistakes)
    except Wrong as wrong:
        otherwise, hint = wrong.message, wrong.hint
    error.explain(otherwise, hint)


WRITTEN_IN = "Right at the first size tried, wrong at another: is a size or a batch written into your code?"


def where_right(function: Callable, reference: Callable, number: int, narrow: Sequence[tuple[tuple, str]]) -> str:
    """Say where a function that is wrong in trial `number` is right; empty if nowhere that was tried."""
    if number > 0:
        return WRITTEN_IN
    for args, sentence in narrow:
        with suppress(Wrong, NotAttempted):
            if same(call(function, *args), reference(*args)):
                return sentence
    return ""


def compare_gradients(function: Callable, reference: Callable, args: tuple, mistakes: Sequence[Mistake]) -> None:
    """Raise Wrong unless the same gradients flow back to the tensors among `args`."""
    got, expected = gradients_of(partial(call, function), args), gradients_of(reference, args)
    if got is None:
        raise Wrong(
            "The values are right, but no gradient flows back through them: a model with this part could not learn.",
            "Look for `.detach()`, `.data`, `.item()`, `.numpy()`, `torch.tensor(...)` and `no_grad`.",
        )
    names = [name for name, arg in named(function, args) if is_float(arg)]
    for name, mine, theirs in zip(names, got, expected, strict=True):
        if difference(mine, theirs):
            silent = hidden_in([args], mistakes, reference)
            silent = [m._replace(function=lambda *args, m=m: gradients_of(m.function, args)) for m in silent]
            recognise(got, args, silent)
            raise Wrong(
                f"The values are right, but the gradient that flows back to `{name}` is not"
                + (": it is zero." if not mine.any() else "."),
                f"Look for `.detach()`, `.data`, `no_grad` and `nn.Parameter(...)` between `{name}` and the result.",
            )


def gradients_of(function: Callable, args: tuple) -> list[Tensor] | None:
    """Return the gradients that flow from the result to each tensor of floats among `args`, or None."""
    inputs = [arg.detach().clone().requires_grad_() if is_float(arg) else arg for arg in args]
    results = function(*inputs)
    results = [r for r in (results if isinstance(results, (tuple, list)) else [results]) if is_float(r)]
    return flow(results, [x for x in inputs if is_float(x)]) if any(r.requires_grad for r in results) else None


def flow(results: Sequence[Tensor], wanted: Sequence[Tensor], unused: Callable = torch.zeros_like) -> list:
    """Return the gradients of a fixed weighted sum of the results; raise ReaderError if the way back stops.

    `unused` makes the gradient for a tensor that no result depends on.
    """
    total = sum((y * random_tensor(*y.shape, dtype=y.dtype, seed=7).to(y.device)).sum() for y in results)
    try:
        grads = torch.autograd.grad(total, wanted, allow_unused=True)
        return [unused(x) if grad is None else grad for x, grad in zip(wanted, grads, strict=True)]
    except Exception as error:
        found = stopped_by(error)
        found.message = f"The way forward works. On the way back, where gradients flow:\n{found.message}"
        raise found from None


SCRAMBLED = "Every number is there, in the wrong place: only the order of the axes, or how they are cut, is off."


def scrambled(result, expected) -> bool:
    fits = isinstance(result, Tensor) and isinstance(expected, Tensor) and result.shape == expected.shape
    return fits and same(*(tensor.detach().double().flatten().sort().values for tensor in (result, expected)))


def listed(names: Sequence[str]) -> str:
    """Return the first three names and how many more; a name that several blocks have is told once, `encoder.*.x`."""
    numbers: dict[str, list[str]] = {}
    for name in names:
        numbers.setdefault(re.sub(r"(?<=^encoder\.)\d+|(?<=^blocks\.)\d+", "*", name), []).append(name)
    short = [general if len(found) > 1 else found[0] for general, found in numbers.items()]
    more = f" and {len(short) - 3} more like these" if len(short) > 3 else ""
    return ", ".join(f"`{name}`" for name in short[:3]) + more


def is_float(value) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def random_tensor(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    """Draw normal random numbers, the same on every call, on the CPU."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64, device="cpu").to(dtype)
