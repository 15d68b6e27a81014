"""Run the reader's code and compare its result with the solution's: what is wrong, and in which of their lines."""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import re
import textwrap
from collections.abc import Callable
from numbers import Integral
from traceback import extract_tb

import torch
from torch import Tensor, nn

from ..errors import is_number


class Wrong(Exception):
    """The reader's code does something else than the exercise asks.

    `error` is the one with which their code stopped, if it did, and `code` their own line.
    """

    def __init__(self, message: str, code: str = "", error: BaseException | None = None):
        super().__init__(message)
        self.message, self.code, self.error = message, code, error


class NotJudged(Exception):
    """The reader's code may be right; the message says what the check needs in order to tell."""


class NotAttempted(BaseException):
    """The stub is still as it was. Only the verdict catches this: `attempt` lets it pass."""


def call(function: Callable, *args):
    """Return what the reader's `function(*args)` returns. A class is built; a module is called.

    Raises NotAttempted for a stub, and Wrong if their code raises an error, returns nothing or changes its input.
    A KeyboardInterrupt passes: the notebook's stop button ends an endless loop, and the check with it.
    """
    before = [tensor.detach().clone() for tensor in tensors_in(args)]
    try:
        result = function(*args)
    except Exception as error:
        own_line = is_readers(extract_tb(error.__traceback__)[-1].filename)
        if not isinstance(error, NotImplementedError) or not own_line:
            raise stopped_by(error, show_call(function, args)) from None
        if isinstance(function, nn.Module):
            raise Wrong("`forward` is empty.") from None
        raise NotAttempted from None
    part = "`forward`" if isinstance(function, nn.Module) else "function"
    if result is None:
        raise Wrong(f"Your {part} returns nothing (None): is the `return` missing?")
    if not all(map(torch.equal, tensors_in(args), before)):
        raise Wrong(
            f"Your {part} changes its input: `x += …`, `x[…] = …` and methods that end in an underscore write into the "
            "caller's tensor. `x = x + …` makes a new one."
        )
    return result


def attempt(function: Callable, *args):
    """Return what a function gives for these arguments, or the error with which it stops."""
    try:
        return function(*args)
    except Exception as error:
        return error


def tensors_in(values) -> list[Tensor]:
    """Return the tensors among these values, and those in lists and tuples within them."""
    lists = (tensors_in(value) if isinstance(value, (list, tuple)) else [value] for value in values)
    return [value for values in lists for value in values if isinstance(value, Tensor)]


# An error, in the reader's own line -----------------------------------------------------------------------------------

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OTHERS = (PACKAGE, os.path.dirname(torch.__file__), os.path.dirname(os.__file__), "<frozen", "<__array")
MEANINGS = {  # what errors mean whose text is hard to read
    "leaf Variable that requires grad": "You write into a tensor whose gradient is recorded, such as a parameter. To "
    "fill a parameter, do so inside `with torch.no_grad():`.",
    "modified by an inplace operation": "You write into a tensor, by `z += …`, `z[...] = …` or a method that ends in "
    "an underscore, that an earlier step still needs to compute its gradient. `z = z + …` makes a new one.",
    "'tuple' and '(int|float)'|'int' and 'tuple'|non-int of type 'tuple'": "One of the two is a pair, such as (height, "
    "width) or (P, P): take its numbers apart first.",
    "cannot assign .*Parameter": "A layer's weight is a parameter: `layer.weight.data = …` fills it, or "
    "`nn.Parameter(…)`.",
    "call numpy": "NumPy knows no gradients, and a model learns by them: stay with PyTorch's tensors.",
    "'tuple'|tuple has no": "This is a pair. `nn.MultiheadAttention` returns one, (tokens, weights), and a "
    "batch is one, (images, labels): take it apart.",
    "floating[ -]point (dtypes|or complex)|infer output dtype": "Whole numbers, or True and False, cannot be used "
    "here: `.float()` makes floats of them.",
}


def is_readers(file: str) -> bool:
    """Tell the files of notebook cells and the reader's own from those of torch, Python and this package."""
    return not file.startswith(OTHERS) and "site-packages" not in file


def stopped_by(error: BaseException, called: str = "") -> Wrong:
    """Return the finding that the reader's code stops with this error."""
    lines = [line for line in extract_tb(error.__traceback__) if is_readers(line.filename)]
    place = code = ""
    if lines:
        path, number, function, code = lines[-1]
        file = "your cell" if re.search(r"ipykernel|ipython-input|^<", path) else os.path.basename(path)
        place = f" in line {number} of {file}" + ("" if function.startswith("<") else f", in {function}")
    text = textwrap.shorten(str(error), 400, placeholder=" …")
    meaning = next((meaning for part, meaning in MEANINGS.items() if re.search(part, text)), "")
    told = f"{type(error).__name__}: {text}"
    if not called and not lines:  # neither in the reader's lines nor in their layers
        return Wrong(joined("The check stops at what your code returns.", meaning or told), error=error)
    called = called and f"It was called as `{called}`."
    message = joined(f"Your code stops with an error{place}.", told, called, meaning)
    return Wrong(message, code=code or "", error=error)


def joined(*lines: str | None) -> str:
    return "\n".join(filter(None, lines))


def first_three(names: list[str]) -> str:
    """Return the first three names and how many more; a name that several blocks have is told once, `encoder.*.x`."""
    blocks = [re.sub(r"^encoder\.\d+", "encoder.*", name) for name in map(str, names)]
    short = [general if blocks.count(general) > 1 else name for general, name in zip(blocks, names, strict=True)]
    short = list(dict.fromkeys(short))
    return ", ".join(f"`{name}`" for name in short[:3]) + f" and {len(short) - 3} more like these" * (len(short) > 3)


def show_call(function: Callable, args: tuple) -> str:
    """Write out the call, tensors by their shapes: `my_patchify(images=tensor of (2, 3, 4, 6), patch_size=2)`."""
    names = [f"{name}=" for name in inspect.signature(function).parameters] if inspect.isfunction(function) else []
    names = names if len(names) == len(args) else [""] * len(args)
    shown = ", ".join(name + show(arg) for name, arg in zip(names, args, strict=True))
    return f"{getattr(function, '__name__', type(function).__name__)}({shown})"


def show(value) -> str:
    """Write a value in one line: a tensor by its shape, a model, an optimizer or a data set by its type."""
    if isinstance(value, Tensor):
        return f"tensor of {tuple(value.shape)}"
    if isinstance(value, list) and tensors_in(value):
        return f"[{', '.join(map(show, value[:2]))}{', …' * (len(value) > 2)}]"
    text = value.__name__ if inspect.isfunction(value) else repr(value)
    return text if len(text) < 400 and "\n" not in text else f"{type(value).__name__}(…)"


def describe(value) -> str:
    """Say what a value is: "a tensor of shape (2, 3)", "4.0 (float)", "a value of type dict"."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    return f"{value!r} ({type(value).__name__})" if is_number(value) else f"a value of type {type(value).__name__}"


# A result, beside the solution's --------------------------------------------------------------------------------------


def same(result, expected, tolerance: float = 1e-5) -> bool:
    """Tell whether two results agree."""
    return difference(result, expected, tolerance=tolerance) is None


def difference(result, expected, shape: str = "", tolerance: float = 1e-5, name: str = "The result") -> str | None:
    """Say what is wrong with a result, the first thing first; None if nothing is. `shape` names the axes.

    Two errors agree if they are of one kind and say the same.
    """
    if isinstance(result, Wrong) or isinstance(expected, Exception):
        error = result.error if isinstance(result, Wrong) else result
        return None if type(error) is type(expected) and str(error) == str(expected) else str(result)
    if isinstance(expected, (tuple, list)):
        shapes = shape.split("; ") if shape else [""] * len(expected)
        if not isinstance(result, (tuple, list)) or len(result) != len(expected):
            got = f"{len(result)} values" if isinstance(result, (tuple, list)) else describe(result)
            return f"The result must be {len(expected)} values, {' and '.join(shapes)}; got {got}."
        parts = zip(result, expected, shapes, strict=True)
        found = (difference(r, e, s.partition(" ")[2], tolerance, f"`{s.partition(' ')[0]}`") for r, e, s in parts)
        return next(filter(None, found), None)
    if isinstance(expected, Tensor):
        return misfit(result, expected, shape, name) or value_difference(result, expected, tolerance, name)
    if isinstance(expected, int) and not isinstance(result, Integral):
        start = "The number is right, its kind is not: a" if same(result, float(expected)) else "A"
        return f"{start} whole number, {describe(expected)}, is expected; got {describe(result)}."
    if isinstance(expected, float):
        right = is_number(result) and abs(result - expected) <= tolerance * (1 + 10 * abs(expected))
    else:
        right = not isinstance(result, (Tensor, bool)) and result == expected
    if right:
        return None
    if isinstance(expected, int) and is_number(result):
        off = f"{abs(result - expected):,} too {'high' if result > expected else 'low'}"
        return f"{expected:,} expected, got {result:,}: {off}."
    return f"{describe(expected)} expected, got {describe(result)}."


def misfit(result, expected: Tensor, shape: str, name: str = "The result") -> str | None:
    """Say what is wrong with the kind, the shape or the dtype of a result; None if nothing is."""
    if not isinstance(result, Tensor):
        return f"{name} must be a tensor, got {describe(result)}."
    got, asked = tuple(result.shape), tuple(expected.shape)
    if got != asked:
        more = " The sizes are right and their order is not." if sorted(got) == sorted(asked) else ""
        return f"{name} has the wrong shape: {shape}{' = ' * bool(shape)}{asked} expected, got {got}.{more}"
    if result.dtype != expected.dtype and result.dtype not in (torch.float32, torch.float64):
        return f"{name} must be of dtype {expected.dtype}, got {result.dtype}."
    return None


def value_difference(result: Tensor, expected: Tensor, tolerance: float, name: str) -> str | None:
    result, expected = result.detach().double(), expected.detach().double()
    agree = torch.isclose(result, expected, 10 * tolerance, tolerance, equal_nan=True)
    if agree.all():
        return None
    if not result.isfinite().all():
        return f"{name} has the right shape, but holds {int((~result.isfinite()).sum())} values that are inf or nan."
    first = tuple((~agree).nonzero()[0].tolist())
    return (
        f"{name} has the right shape and wrong values: {int(agree.sum())} of {agree.numel()} agree. The first that "
        f"differs is at {list(first)}: {expected[first]:.5g} expected, got {result[first]:.5g}."
    )


# What the source shows ------------------------------------------------------------------------------------------------

RETURNING = {"permute", "transpose", "reshape", "view", "flatten", "unflatten", "expand", "softmax"}


def body_of(function: Callable) -> list[ast.stmt]:
    """Return the statements of a function; none if Python cannot say, as for a slip of ours."""
    has_source = hasattr(function, "__code__") and linecache.getlines(function.__code__.co_filename)
    source = attempt(inspect.getsource, function) if has_source else None
    tree = attempt(lambda: ast.parse(textwrap.dedent(source)).body[0].body)
    return [] if isinstance(tree, Exception) else tree


def slip_in(answer: Callable) -> str:
    """Return a sentence on a slip that the source shows, a result that is not kept or `x ** 1/2`; empty for none."""
    functions = filter(inspect.isfunction, vars(answer).values()) if inspect.isclass(answer) else [answer]
    body = ast.Module([statement for function in functions for statement in body_of(function)], [])
    for node in ast.walk(body):
        match node:
            case ast.Expr(ast.Call(ast.Attribute(attr=name))) if name in RETURNING:
                return f"`{ast.unparse(node)}` changes nothing: it returns a new tensor, which your code does not keep."
    halved = re.search(r"\*\* (1|-1|\(-1\)) / 2\b", ast.unparse(body))
    return "`x ** 1/2` is x/2: powers come before division. Write `x ** 0.5`." if halved else ""
