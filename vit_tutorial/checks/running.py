"""Run the reader's code: what it returns, or what stops it, in their own line."""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations_with_replacement
from math import prod
from numbers import Integral
from traceback import walk_tb
from types import FrameType

import torch
from torch import Tensor, nn

from ..errors import is_number


class Wrong(Exception):
    """The reader's code does something else than the exercise asks. `code` is their own line, where it stopped."""

    status = "wrong"

    def __init__(self, message: str, code: str = "", error: Exception | None = None):
        super().__init__(message)
        self.message, self.code, self.error = message, code, error


class NotJudged(Wrong):
    """The reader's code may be right; the message says what the check needs in order to tell."""

    status = "not judged"


def call(function: Callable, *args, sizes: Mapping[str, int] | None = None):
    """Return what the reader's `function(*args)` returns. A class is built; a module is called.

    Raises Wrong if their code raises an error, returns nothing or changes its input; `sizes` are the letters for the
    shapes in its message. A KeyboardInterrupt passes: the stop button ends the check.
    """
    given = tensors_in(args)
    before = [tensor.detach().clone() for tensor in given]
    try:
        result = function(*args)
    except Exception as error:
        raise stopped_by(error, sizes or {}) from None
    part = "`forward`" if isinstance(function, nn.Module) else "function"
    if result is None:
        raise Wrong(f"Your {part} returns nothing (None): is the `return` missing?")
    if not all(map(torch.equal, given, before)):
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


def listed(names: Sequence, most: int = 3) -> str:
    """Return the first names, as code, and how many more; a name that several blocks have is told once."""
    short = list(dict.fromkeys(re.sub(r"^encoder\.\d+", "encoder.*", str(name)) for name in names))
    short = short if len(short) < len(names) else list(map(str, names))
    more = f" and {len(short) - most} more like these" if len(short) > most else ""
    return ", ".join(f"`{name}`" for name in short[:most]) + more


# An error, in the reader's own line -----------------------------------------------------------------------------------

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OTHERS = (PACKAGE, os.path.dirname(torch.__file__), os.path.dirname(os.__file__), "<frozen", "<__array")
MEANINGS = {  # what errors mean whose text is hard to read
    "leaf Variable that requires grad": "You write into a parameter: do so inside `with torch.no_grad():`.",
    "cannot assign .*Parameter": "A layer's weight is a parameter: `layer.weight.data = …` fills it.",
    "modified by an inplace operation": "`z += …` writes into a tensor that a gradient needs. `z = z + …` does not.",
    "call numpy": "NumPy knows no gradients, and a model learns by them: stay with PyTorch's tensors.",
    "'tuple'|tuple has no": "This is a pair: `nn.MultiheadAttention` returns one, (tokens, weights). Take it apart.",
    "dtypes|output dtype|for '(Long|Int|Bool)'": "Whole numbers or True and False stand where floats must: `.float()`.",
    "Boolean value of Tensor": "A tensor of several values is neither true nor false: write `… is not None`.",
    "NoneType": "Something here is None, as `conv.bias` is with `bias=False`.",
    "to unpack": "What is left of `=` or `in` must have the form of what comes, as `(images, labels), rate` does.",
    "view size is not compatible": "`view` cannot join axes that were exchanged; `reshape` can. Is the order right?",
    "during iteration": "A dictionary changes while the loop goes over it: loop over `list(…)` of it, or fill a copy.",
}


def stopped_by(error: Exception, sizes: Mapping[str, int], told: str = "Your code stops with an error") -> Wrong:
    """Return the finding that the reader's code stops with this error: their own line, and what its values are."""
    text = f"{type(error).__name__}: {textwrap.shorten(str(error), 400, placeholder=' …')}"
    meaning = next((meaning for part, meaning in MEANINGS.items() if re.search(part, text)), "")
    trace = [(frame, number, frame.f_code.co_filename) for frame, number in walk_tb(error.__traceback__)]
    frames = [each for each in trace if not each[2].startswith(OTHERS) and "site-packages" not in each[2]]
    if not frames:
        asked = "The check calls your code with the arguments that the task names."
        return Wrong(joined(f"{told}.", text, asked if "positional argument" in text else meaning), error=error)
    frame, number, path = frames[-1]
    function = frame.f_code.co_name
    code, source = linecache.getline(path, number).strip(), "".join(linecache.getlines(path))
    if code.startswith("raise NotImplementedError"):
        return Wrong(f"`{function}` reaches the line `raise NotImplementedError`. Delete it when the rest is written.")
    values = variables(frame, code)
    floats = [f"`{name}` is {value}, a float" for name, value in values.items() if isinstance(value, float)]
    whole = isinstance(error, (TypeError, IndexError)) and (floats or re.search("float|indices", text))
    if whole and " / " in source:
        cause = floats[0] if floats else "`/` makes a float"
        return Wrong(f"{cause}, and a size or a place is a whole number: divide by `//`.", code, error)
    shapes = [f"`{name}` is {spell(value.shape, sizes)}" for name, value in values.items() if isinstance(value, Tensor)]
    file = "your cell" if re.search(r"ipykernel|ipython-input|^<", path) else os.path.basename(path)
    place = f"{told} in line {number} of {file}" + ("" if function.startswith("<") else f", in {function}")
    return Wrong(joined(f"{place}.", text, f"Here {', '.join(shapes)}." if shapes else "", meaning), code, error)


def variables(frame: FrameType, code: str) -> dict:
    """Return the values that stand in a line, as it writes them: `q`, `self.position`, `state[name]`; no calls."""
    tree = attempt(ast.parse, f"{code} pass" if code.endswith(":") else code)
    nodes = ast.walk(tree) if isinstance(tree, ast.AST) else ()
    names = [ast.unparse(node) for node in nodes if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript))]
    return {name: attempt(eval, name, frame.f_globals, frame.f_locals) for name in names if "(" not in name}


STUB = {"super", "__init__", "NotImplementedError"}  # the names in a stub


def is_stub(answer: Callable) -> bool:
    """Tell a function, or the two methods of a module, that do nothing but raise NotImplementedError."""
    methods = [vars(answer).get(name) for name in ("__init__", "forward")] if inspect.isclass(answer) else [answer]
    codes = [method.__code__ for method in methods if inspect.isfunction(method)]
    alone = [code.co_nlocals == code.co_argcount and STUB.issuperset(code.co_names) for code in codes]
    return len(codes) == len(methods) and all(alone) and all("NotImplementedError" in code.co_names for code in codes)


# A result, beside the solution's --------------------------------------------------------------------------------------


def spell(shape: Sequence[int], sizes: Mapping[str, int], most: int = 3) -> str:
    """Write a shape by the names of its sizes, (2, 12, 9) as (B, C·P·P, N). A size that may be two things stays so."""
    letters = [name for name, size in sizes.items() if size > 1]
    products = [names for n in range(2, most + 1) for names in combinations_with_replacement(letters, n)]
    words = []
    for size in shape:
        found = [name for name in letters if sizes[name] == size]
        found = found or ["·".join(names) for names in products if prod(sizes[name] for name in names) == size]
        words.append(found[0] if len(found) == 1 else str(size))
    return f"({', '.join(words)}{',' if len(words) == 1 else ''})"


def describe(value) -> str:
    """Say what a value is: "a tensor of shape (2, 3)", "4.0 (float)", "a value of type dict"."""
    kind = type(value).__name__
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, (tuple, list)):
        return f"a {kind} of {len(value)}"
    return f"{value!r} ({kind})" if is_number(value) else f"a value of type {kind}"


def close(a, b, tolerance: float = 1e-4) -> bool:
    """Tell whether two tensors of one shape, or a tensor and a number, agree."""
    a, b = (torch.as_tensor(value).detach().double() for value in (a, b))
    return (a.shape == b.shape or not b.ndim) and bool(torch.isclose(a, b, tolerance, tolerance, equal_nan=True).all())


def same(result, expected) -> bool:
    """Tell whether two results agree: numbers, tensors, or as many of them."""
    if isinstance(expected, (tuple, list)):
        alike = isinstance(result, (tuple, list)) and len(result) == len(expected)
        return alike and all(map(same, result, expected))
    if isinstance(expected, Tensor):
        return isinstance(result, Tensor) and result.shape == expected.shape and close(result, expected, 2e-5)
    return not isinstance(result, Tensor) and result == expected


def misfit(result, expected, shape: str = "", sizes: Mapping[str, int] | None = None, name: str = "The result") -> str:
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
        got, asked, yours = tuple(result.shape), tuple(expected.shape), spell(result.shape, sizes or {})
        if got != asked:
            told = f"{yours} = {got}" if re.search("[A-Za-z]", yours) else f"{got}"
            return f"{name} has the wrong shape: {told}, and {shape} = {asked} is asked."
        lost = int((~result.isfinite()).sum())
        return f"{name} holds {lost} values that are inf or nan." if lost else ""
    if isinstance(expected, int) and (isinstance(result, bool) or not isinstance(result, Integral)):
        right = is_number(result) and abs(result - expected) < 1e-3
        start = "The number is right, its kind is not: a" if right else "A"
        return f"{start} whole number, {describe(expected)}, is expected; got {describe(result)}."
    return ""


def value_difference(result, expected) -> str:
    """Say by how much a number is off; of tensors, how many values agree."""
    if is_number(result):
        off = f"{abs(result - expected):,} too {'high' if result > expected else 'low'}"
        return f"{expected:,} expected, got {result:,}: {off}."
    pairs = zip(tensors_in([result]), tensors_in([expected]), strict=True)
    agree = torch.cat([torch.isclose(a.double(), b.double(), 1e-4, 1e-5).flatten() for a, b in pairs])
    return f"The shape is right, the values are not: {int(agree.sum())} of {len(agree)} agree."


# What the source shows ------------------------------------------------------------------------------------------------

NOT_KEPT = re.compile(r"\.(permute|transpose|reshape|view|flatten|unflatten|expand|softmax)\([^()]*\)$")


def slip_in(answer: Callable) -> str:
    """Return a sentence on a slip that the source shows, a result that is not kept or `x ** 1/2`; empty for none."""
    for function in filter(inspect.isfunction, vars(answer).values() if inspect.isclass(answer) else [answer]):
        tree = attempt(lambda function=function: ast.parse(textwrap.dedent(inspect.getsource(function))))
        for node in ast.walk(tree) if isinstance(tree, ast.AST) else ():
            text = ast.unparse(node)
            if isinstance(node, ast.Expr) and NOT_KEPT.search(text):
                return f"`{text}` changes nothing: it returns a new tensor, which your code does not keep."
            if re.search(r"\*\* -?1 / 2\b", text):
                return "`x ** 1/2` is x/2: powers come before division. Write `x ** 0.5`."
    return ""
