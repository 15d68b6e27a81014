"""The reader's result against the reference's: kind, dtype, shape, values, gradients, and known mistakes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .running import call, name_of, show_call
from .verdict import ReaderError, Wrong

Letters = str | tuple[tuple[str, str], ...]


class Mistake(NamedTuple):
    """A wrong implementation that people write, and the sentence that names its symptom."""

    function: Callable
    message: str
    hint: str | None = None


def compare(
    function: Callable,
    reference: Callable,
    trials: Sequence[tuple],
    letters: Letters = "",
    mistakes: Sequence[Mistake] = (),
    gradients: bool = True,
    tolerance: float = 1e-5,
) -> None:
    """Raise Wrong unless the reader's `function` does what `reference` does, for every tuple of arguments in `trials`.

    `letters` names the result's axes, "(B, N, D)"; for a result of several, a (name, letters) for each.
    A wrong result is first looked up among the `mistakes`: the same result means the same mistake.
    The first trial is repeated with other numbers, so that nothing can be kept from call to call, and
    the last one with gradients. Trials differ in every size, so that no size can be written into the code.
    """
    for number, args in enumerate(trials):
        expected = reference(*args)
        try:
            result = call(function, *args)
        except ReaderError as error:
            raise ReaderError(at_another_size(error.message, number, trials), error.code, error.hint) from None
        found = difference(result, expected, letters, tolerance)
        if found is not None:
            recognise(result, args, mistakes, tolerance)
            call_text = f"\nThis was `{show_call(function, args)}`."
            raise Wrong(at_another_size(found, number, trials) + call_text, next_step(result, expected))
    again = [renewed(arg) for arg in trials[0]]
    if difference(call(function, *again), reference(*again), letters, tolerance) is not None:
        raise Wrong(
            f"{name_of(function)} is right when it is first called, and wrong when it is called again with other "
            "numbers of the same shape: it keeps something from call to call.",
            "The result may depend on the arguments only: look for globals, default arguments and stored tensors.",
        )
    if gradients:
        compare_gradients(function, reference, trials[-1], mistakes, tolerance)


def difference(
    result, expected, letters: Letters = "", tolerance: float = 1e-5, name: str = "The result"
) -> str | None:
    """What is wrong with a result, the first thing first, with the numbers; None if nothing is."""
    if isinstance(expected, (tuple, list)):
        names = letters or tuple((f"result {i + 1}", "") for i in range(len(expected)))
        if not isinstance(result, (tuple, list)) or len(result) != len(expected):
            got = f"{len(result)} values" if isinstance(result, (tuple, list)) else kind(result)
            return f"The result must be {len(expected)} values, {', '.join(n for n, _ in names)}; got {got}."
        parts = zip(result, expected, names, strict=True)
        found = (difference(r, e, text, tolerance, f"`{part}`") for r, e, (part, text) in parts)
        return next((sentence for sentence in found if sentence), None)
    if not isinstance(expected, Tensor):
        return number_difference(result, expected)
    if not isinstance(result, Tensor):
        return f"{name} must be a tensor, got {kind(result)}."
    if result.shape != expected.shape:
        return shape_difference(name, tuple(result.shape), tuple(expected.shape), letters)
    if result.dtype != expected.dtype:
        return f"{name} must be {expected.dtype}, as what goes in; got {result.dtype}."
    if result.device != expected.device:
        return f"{name} must stay on the device of what goes in, {expected.device}; got one on {result.device}."
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
    first = tuple((~agree).nonzero()[0].tolist())
    return (
        f"{name} has the right shape and wrong values: {int(agree.sum())} of {agree.numel()} agree. The first that differs "
        f"is at {list(first)}: {expected[first].item():.4g} expected, got {result[first].item():.4g}."
    )


def number_difference(result, expected) -> str | None:
    if isinstance(result, Tensor) or type(result) is not type(expected):
        right = not isinstance(result, Tensor) and isinstance(result, (int, float)) and result == expected
        return f"{'The number is right, its kind is not: ' * right}{kind(expected)} expected, got {kind(result)}."
    return None if result == expected else f"{expected:,} expected, got {result:,}."


def compare_gradients(
    function: Callable, reference: Callable, args: tuple, mistakes: Sequence[Mistake] = (), tolerance: float = 1e-5
) -> None:
    """Raise Wrong unless the same gradients flow back to the tensors among `args`."""
    got, expected = gradients_of(call, function, args), gradients_of(lambda f, *a: f(*a), reference, args)
    names = show_call(function, args)
    if got is None:
        raise Wrong(
            "The values are right, but no gradient flows back through them: a model with this part could not learn.",
            "Look for `.detach()`, `.data`, `.item()`, `.numpy()`, `torch.tensor(...)` and `no_grad`.",
        )
    for number, (mine, theirs) in enumerate(zip(got, expected, strict=True), 1):
        if difference(mine, theirs, tolerance=tolerance) is not None:
            recognise(got, args, [m._replace(function=gradient_function(m.function)) for m in mistakes], tolerance)
            raise Wrong(
                f"The values are right, but the gradient of tensor {number} in `{names}` is not: part of the "
                "computation is cut off from it.",
                "Look for `.detach()`, `.data` and `no_grad` on the way from this tensor to the result.",
            )


def gradient_function(function: Callable) -> Callable:
    return lambda *args: gradients_of(lambda f, *a: f(*a), function, args)


def gradients_of(run: Callable, function: Callable, args: tuple) -> list[Tensor] | None:
    """The gradients of a fixed weighted sum of the result for each tensor of floats among `args`, or None."""
    inputs = [arg.detach().clone().requires_grad_() if is_float(arg) else arg for arg in args]
    wanted = [arg for arg in inputs if is_float(arg)]
    results = run(function, *inputs)
    results = [r for r in (results if isinstance(results, (tuple, list)) else [results]) if is_float(r)]
    if not any(result.requires_grad for result in results):
        return None
    total = sum((result * weights_like(result)).sum() for result in results)
    grads = torch.autograd.grad(total, wanted, allow_unused=True)
    return [torch.zeros_like(x) if grad is None else grad for x, grad in zip(wanted, grads, strict=True)]


def recognise(result, args: tuple, mistakes: Sequence[Mistake], tolerance: float = 1e-5) -> None:
    """Raise Wrong with the message of the mistake that gives this same result for these arguments, if one does."""
    for mistake in mistakes:
        try:
            known = mistake.function(*args)
        except Exception:  # a mistake may not fit every size
            continue
        if known is not None and same(result, known, tolerance):
            raise Wrong(mistake.message, mistake.hint)


def same(result, known, tolerance: float = 1e-5) -> bool:
    """True if two results agree, dtypes aside."""
    if isinstance(known, (tuple, list)):
        fits = isinstance(result, (tuple, list)) and len(result) == len(known)
        return fits and all(same(r, k, tolerance) for r, k in zip(result, known, strict=True))
    if isinstance(known, Tensor):
        fits = isinstance(result, Tensor) and result.shape == known.shape
        return fits and torch.allclose(result.detach().double(), known.detach().double(), 10 * tolerance, tolerance)
    return not isinstance(result, (Tensor, tuple, list)) and result == known


def next_step(result, expected) -> str | None:
    """What to try after a result that no known mistake explains; None leaves it to the exercise's own hint."""
    if not isinstance(result, Tensor) or not isinstance(expected, Tensor) or result.shape != expected.shape:
        return None
    if same(result.flatten().sort().values, expected.flatten().sort().values):
        return "Every number is there, in the wrong place: only the order of the axes, or how they are cut, is off."
    return None


def at_another_size(message: str, number: int, trials: Sequence[tuple]) -> str:
    """The message, with the news that an earlier size went well."""
    if number == 0:
        return message
    return f"Right at the first size tried, wrong at another: is a size or a batch written into your code?\n{message}"


def is_float(value) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def random_tensor(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    """Normal random numbers, the same on every call, on the CPU."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64, device="cpu").to(dtype)


def weights_like(tensor: Tensor) -> Tensor:
    return random_tensor(*tensor.shape, dtype=tensor.dtype, seed=7).to(tensor.device)


def renewed(arg):
    """Other numbers in the same shape; anything else as it is."""
    return 1 - 2 * arg.detach().flip(0) if is_float(arg) else arg


def kind(value) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"{value!r} ({type(value).__name__})"
    return f"a value of type {type(value).__name__}"
