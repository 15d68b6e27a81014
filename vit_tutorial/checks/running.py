"""Run the reader's code: what it returns, or what stops it, in their own line."""

import ast
import inspect
import linecache
import os
import re
import reprlib
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from numbers import Integral
from traceback import walk_tb
from types import FrameType

import torch
from torch import Tensor, nn


class Wrong(Exception):
    """The reader's code does something else than is asked, or is "not judged"; `code` is their line, if it stopped."""

    def __init__(self, message: str, code: str = "", status: str = "wrong"):
        super().__init__(message)
        self.message = message
        self.code = code
        self.status = status


@contextmanager
def told_first(text: str) -> Iterator[None]:
    """Put this text before the message of what is found wrong inside."""
    try:
        yield
    except Wrong as wrong:
        wrong.message = text + wrong.message
        raise


def call(function: Callable, *args, sizes: Mapping[str, int] = {}):
    """Return what the reader's `function(*args)` returns. A class is built; a module is called.

    Raises Wrong if their code raises an error, returns nothing or changes its input; `sizes` are the letters for the
    shapes in its message. A KeyboardInterrupt passes: the stop button ends the check.
    """
    given = [(tensor, tensor.detach().clone()) for tensor in tensors_in(args)]
    try:
        result = function(*args)
    except Exception as error:
        raise stopped_by(error, sizes) from None
    part = "`forward`" if isinstance(function, nn.Module) else "function"
    if result is None:
        raise Wrong(f"Your {part} returns nothing (None): is the `return` missing?")
    if not all(torch.equal(*pair) for pair in given):
        writes = "`x += …`, `x[…] = …` and methods that end in an underscore write into the caller's tensor"
        raise Wrong(f"Your {part} changes its input: {writes}. `x = x + …` makes a new one.")
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


def joined(*lines: str) -> str:
    return "\n".join(filter(None, lines))


def listed(names: Sequence[str], most: int = 3) -> str:
    """Return the first names, as code, and how many more there are."""
    more = f" and {len(names) - most} more like these" if len(names) > most else ""
    return ", ".join(f"`{name}`" for name in names[:most]) + more


# An error, in the reader's own line -----------------------------------------------------------------------------------

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NOT_THEIRS = (PACKAGE, os.path.dirname(torch.__file__), os.path.dirname(os.__file__), "<frozen", "<__array")
MEANINGS = {  # what errors mean whose text is hard to read
    r"TypeError.*( ints?\b.*float|got \(.*float|as an integer|indices must be|non-int)|got float": (
        "A size or a place is a whole number, and `/` makes a float: divide by `//`."
    ),
    "to unpack": "There are more names than values, or fewer. A pair in a pair: `for (images, labels), rate in …`.",
    "'tuple'|tuple has no": "A pair, as `image_size`, `(images, labels)`, attention's result: take it apart.",
    "NoneType": "Something here is None, as `conv.bias` is with `bias=False`.",
    "out of bounds": "Places count from 0: the last is one less than the size. Is it the place of another axis?",
    "view size is not compatible": "`view` cannot join axes that were exchanged; `reshape` can. Is the order right?",
    r"(must match|ambiguous).*\n[^*/@+]*( not in |(if|not) \w+ in )": "`in` compares tensors by value: use `id(p)`.",
    "leaf Variable|inplace op": "This overwrites what gradients need: `x = x / …`; parameters in `torch.no_grad()`.",
    "is invalid for input": "Multiply these sizes: a reshape keeps all values. Is one of another axis or argument?",
    "must match the size": "Shapes are compared from their last axes: (n,) counts as one row, (n, 1) as one column.",
}


def stopped_by(error: Exception, sizes: Mapping[str, int] = {}, told: str = "Your code stops with an error") -> Wrong:
    """Return the finding that the reader's code stops with this error: their own line, and what its values are."""
    text = f"{type(error).__name__}: {textwrap.shorten(str(error), 400, placeholder=' …')}"
    trace = [(frame, number, frame.f_code.co_filename) for frame, number in walk_tb(error.__traceback__)]
    trace = [each for each in trace if not each[2].startswith(NOT_THEIRS) and "site-packages" not in each[2]]
    frame, number, path = trace[-1] if trace else (None, 0, "")
    code = linecache.getline(path, number).strip()
    meaning = next((meaning for part, meaning in MEANINGS.items() if re.search(part, f"{text}\n{code}")), "")
    if not trace:
        return Wrong(joined(f"{told}.", text, meaning))
    function = frame.f_code.co_name
    if code.startswith("raise NotImplementedError"):
        return Wrong(f"`{function}` reaches the line `raise NotImplementedError`. Delete it when the rest is written.")
    file = "your cell" if re.search(r"ipykernel|ipython-input|^<", path) else os.path.basename(path)
    place = f"{told} in line {number} of {file}" + ("" if function.startswith("<") else f", in {function}")
    shapes = ", ".join(f"`{name}` is {shape}" for name, shape in shapes_in(code, frame, sizes).items())
    return Wrong(joined(f"{place}.", text, f"Here {shapes}." if shapes else "", meaning), code)


def shapes_in(code: str, frame: FrameType, sizes: Mapping[str, int]) -> dict[str, str]:
    """Return the shapes of what stands in a line, as it writes it: `q`, `self.position`, `state[name]`; no calls."""
    tree = attempt(ast.parse, f"{code} pass" if code.endswith(":") else code)
    nodes = ast.walk(tree) if isinstance(tree, ast.AST) else ()
    names = [ast.unparse(node) for node in nodes if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript))]
    values = {name: attempt(eval, name, frame.f_globals, frame.f_locals) for name in names if "(" not in name}
    return {name: spell(value.shape, sizes) for name, value in values.items() if isinstance(value, Tensor)}


def is_stub(answer: Callable) -> bool:
    """Tell a function, or the two methods of a module, that do nothing but raise NotImplementedError."""
    methods = [vars(answer).get(name) for name in ("__init__", "forward")] if inspect.isclass(answer) else [answer]
    codes = [method.__code__ for method in methods if inspect.isfunction(method)]
    known = {"super", "__init__", "NotImplementedError"}  # the names in a stub
    alone = [code.co_nlocals == code.co_argcount and known.issuperset(code.co_names) for code in codes]
    return len(codes) == len(methods) and all(alone) and all("NotImplementedError" in code.co_names for code in codes)


# A result, beside the solution's --------------------------------------------------------------------------------------


def spell(shape: Sequence[int], sizes: Mapping[str, int]) -> str:
    """Write a shape by the names of its sizes, too, "(B, N, 4) = (2, 9, 4)". What may be two things stays a number."""
    words = []
    for size in shape:
        names = [name for name, length in sizes.items() if length == size > 1]
        words.append(names[0] if len(names) == 1 else str(size))
    letters = f"({', '.join(words)}{',' if len(words) == 1 else ''})"
    return letters if letters == str(tuple(shape)) else f"{letters} = {tuple(shape)}"


def describe(value) -> str:
    """Say what a value is: "a tensor of shape (2, 3)", "a list of 2", "4.0 (float)"."""
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    kind = type(value).__name__
    return f"a {kind} of {len(value)}" if isinstance(value, (list, tuple)) else f"{reprlib.repr(value)} ({kind})"


def close(a, b, tolerance: float = 1e-4) -> bool:
    """Tell whether two tensors of one shape, or a tensor and a number, agree."""
    a, b = (torch.as_tensor(value).detach().double() for value in (a, b))
    return (a.shape == b.shape or not b.ndim) and bool(torch.isclose(a, b, tolerance, tolerance, equal_nan=True).all())


def same(result, expected) -> bool:
    """Tell whether two results agree: numbers, tensors, or as many of them."""
    alike = partial(torch.testing.assert_close, rtol=2e-5, atol=2e-5, check_dtype=False)
    return attempt(alike, result, expected) is None


def misfit(result, expected, shape: str = "", sizes: Mapping[str, int] = {}, name: str = "The result") -> str:
    """Say what is wrong with a result's kind, shape or dtype, or that it is not finite; "" if nothing is."""
    if isinstance(expected, (tuple, list)):
        shapes = shape.split("; ")
        if not isinstance(result, (tuple, list)) or len(result) != len(expected):
            return f"The result must be {len(expected)} values, {' and '.join(shapes)}; got {describe(result)}."
        named = ((r, e, *s.split(" ", 1)) for r, e, s in zip(result, expected, shapes, strict=True))
        return next(filter(None, (misfit(r, e, axes, sizes, f"`{what}`") for r, e, what, axes in named)), "")
    if isinstance(expected, Tensor):
        if not isinstance(result, Tensor) or result.dtype not in (expected.dtype, torch.float32, torch.float64):
            got = f"of {result.dtype}" if isinstance(result, Tensor) else describe(result)
            return f"{name} must be a tensor {shape} of {expected.dtype}, got {got}."
        got, asked = tuple(result.shape), tuple(expected.shape)
        if got != asked:
            return f"{name} has the wrong shape: {spell(got, sizes)}, and {shape} = {asked} is asked."
        lost = int((~result.isfinite()).sum())
        return f"{name} holds {lost} values that are inf or nan." if lost else ""
    if isinstance(expected, int) and (isinstance(result, bool) or not isinstance(result, Integral)):
        return f"A whole number (int) is expected; got {describe(result)}."
    return ""
