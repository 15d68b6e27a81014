"""Run the reader's code within a time limit: get what it returns, or a finding that says what happened, and where."""

from __future__ import annotations

import ast
import ctypes
import inspect
import os
import random
import re
import sys
import sysconfig
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from traceback import FrameSummary, extract_tb

import numpy as np
import torch
from torch import Tensor, nn

SECONDS = 10.0
LONG = 10**100  # Python itself refuses to write out much longer numbers


class Wrong(Exception):
    """The reader's code does something else than the exercise asks. `hint` replaces the exercise's own."""

    def __init__(self, message: str, hint: str | None = None, code: str = ""):
        super().__init__(message)
        self.message, self.hint, self.code = message, hint, code


class ReaderError(Wrong):
    """The reader's code raised an error, or did not end. `code` is their own line."""

    def explain(self, reason: str, hint: str | None = None) -> None:
        """Add what the error means."""
        self.message, self.hint = f"{self.message}\n{reason}".rstrip(), hint or self.hint


Problem = tuple  # whether it is there, the message, and a hint if it has one of its own


def raise_first(problems: Iterable[Problem]) -> None:
    """Raise Wrong with the message and the hint of the first problem that is there."""
    for there, *told in problems:
        if there:
            raise Wrong(*told)


class NotAttempted(Exception):
    """The stub is still as it was."""


@contextmanager
def prefixed(start: str) -> Iterator[None]:
    """Put `start` before the message of a Wrong that is raised inside the block; below that of a ReaderError."""
    try:
        yield
    except ReaderError as error:
        error.explain(start)
        raise
    except Wrong as wrong:
        wrong.message = f"{start}\n{wrong.message}".lstrip()
        raise


def judge_each(trials: Mapping[str, tuple], judge: Callable) -> None:
    """Call `judge(*trial)` for each trial by name. A Wrong from a later one says what was right before."""
    first = next(iter(trials))
    for name, trial in trials.items():
        with prefixed("" if name == first else f"Right with {first}, but not with {name}."):
            judge(*trial)


@contextmanager
def explained(meanings: Mapping[str, str], hint: str | None = None) -> Iterator[None]:
    """Say below a ReaderError from inside the block what it means, by the first pattern that its message holds."""
    try:
        yield
    except ReaderError as error:
        if meaning := next((meaning for part, meaning in meanings.items() if re.search(part, error.message)), ""):
            error.explain(meaning, hint)
        raise


NEW_TENSORS = (
    "A tensor that you make yourself has a dtype and a device of its own. Give it the input's: "
    "`torch.zeros(..., dtype=x.dtype, device=x.device)`."
)


def call(function: Callable, *args, seconds: float | None = None):
    """Return what the reader's `function(*args)` returns. A class is built; a module is called.

    Raises NotAttempted for a stub, ReaderError with the reader's own line if their code raises an error or is still
    running after `seconds` (SECONDS if none are given), Wrong if it returns nothing or changes a tensor it was given.
    """
    require_takes(function, args)
    seconds = seconds or SECONDS
    before = [[tensor.detach().clone() for tensor in tensors_in(arg)] for arg in args]
    grad, default = torch.is_grad_enabled(), torch.empty(0)
    try:
        with time_limit(seconds):
            result = function(*args)
    except TookTooLong as stopped:
        place, code = readers_line(stopped)
        message = f"Your code was stopped: it was still running after {seconds:g} seconds{place}."
        raise ReaderError(message, "Which of your loops has no end? A `while` must come to be false.", code) from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if isinstance(error, NotImplementedError) and is_readers(extract_tb(error.__traceback__)[-1].filename):
            raise NotAttempted from None  # raised in the reader's own line, and by no function that it calls
        raise stopped_by(error, f"\nIt was called as `{show_call(function, args)}`.") from None
    finally:
        torch.set_grad_enabled(grad)
        set_defaults(default)
    part = "`forward`" if isinstance(function, nn.Module) else "function"
    if result is None or result is Ellipsis:
        if result is Ellipsis or is_stub(function):
            raise NotAttempted
        raise Wrong(f"Your {part} returns nothing (None): is the `return` missing?")
    for (name, arg), copies in zip(named(function, args), before, strict=False):
        now = tensors_in(arg)
        readable = len(now) == len(copies) and not any(map(unreadable, now))
        if not readable or any(a.dtype != b.dtype or not a.equal(b) for a, b in zip(now, copies, strict=True)):
            raise Wrong(
                f"Your {part} changes its input: after the call `{name}` holds other values. `{name} += …` writes into "
                f"the caller's tensor; `{name} = {name} + …` makes a new one.",
                "`+=`, `x[...] = ` and methods that end in an underscore write into the tensor itself.",
            )
    if isinstance(result, int) and abs(result) > LONG:
        raise Wrong(f"The result is {show(result)}.")
    layer = isinstance(result, nn.Module) and not inspect.isclass(function)
    for tensor in result.parameters() if layer else tensors_in(result):
        if text := unreadable(tensor):
            raise Wrong(f"The result {text}.", NEW_TENSORS)
    return result


def require_takes(function: Callable, args: tuple) -> None:
    if (signature := signature_of(function)) is None:
        return
    try:
        signature.bind(*args)
    except TypeError as error:
        raise Wrong(
            f"The check gives {name_of(function)} {len(args)} argument{'s'[: len(args) != 1]}, "
            f"and yours takes `{signature}`: {error}.",
            "Keep the first line of the stub as it was.",
        ) from None


def signature_of(function: Callable) -> inspect.Signature | None:
    """Return what the reader's function takes; None if Python cannot say, as for one that is written in C."""
    with suppress(TypeError, ValueError):
        return inspect.signature(function.forward if isinstance(function, nn.Module) else function)


def named(function: Callable, args: tuple) -> list[tuple[str, object]]:
    signature = signature_of(function)
    names = [f"argument {number}" for number in range(1, 10)] if signature is None else signature.parameters
    return list(zip(names, args, strict=False))


def tensors_in(value, depth: int = 20) -> list[Tensor]:
    """Return a tensor itself; those in a list or a tuple, in lists within it, and so on."""
    if isinstance(value, (list, tuple)) and depth:
        return [tensor for part in value for tensor in tensors_in(part, depth - 1)]
    return [value] if isinstance(value, Tensor) else []


def unreadable(tensor: Tensor) -> str | None:
    """Say why a tensor's values cannot be compared, as the end of a sentence; None if they can be."""
    if tensor.is_nested or tensor.is_quantized or tensor.layout is not torch.strided:
        kind = "nested" if tensor.is_nested else "quantized" if tensor.is_quantized else f"{tensor.layout}"
        return f"must be an ordinary tensor, with a number in every place; it is {kind.removeprefix('torch.')}"
    if tensor.device.type != "cpu":
        return f"must be on the device cpu, where its input is; it is on {tensor.device}"
    last = tensor.storage_offset() + sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    if tensor.numel() and (last + 1) * tensor.element_size() > tensor.untyped_storage().nbytes():
        return "has lost its memory: its storage was made smaller"  # to read it would end Python
    if tensor.numel() > 10**8:
        return f"is far too large: {tuple(tensor.shape)}, {tensor.numel():,} numbers"
    return None


def set_defaults(default: Tensor) -> None:
    """Give new tensors the dtype and the device of this one."""
    torch.set_default_dtype(default.dtype)
    if torch.empty(0).device != default.device:
        torch.set_default_device(None if default.device.type == "cpu" else default.device)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Inside the block gradients are on, new tensors are floats on the CPU, and random numbers start at the same seed.

    Everything is restored afterwards. One thread does the work: the tensors of a check are so small that waiting for
    a second one takes longer.
    """
    states = random.getstate(), np.random.get_state()  # noqa: NPY002
    default, threads = torch.empty(0), torch.get_num_threads()
    on_cpu = nullcontext() if default.device.type == "cpu" else torch.device("cpu")  # slower
    autocast = torch.autocast("cpu", enabled=False)
    try:
        with on_cpu, torch.random.fork_rng([]), torch.inference_mode(False), torch.enable_grad(), autocast:
            torch.default_generator.manual_seed(0)
            random.seed(0)
            np.random.seed(0)  # noqa: NPY002
            torch.set_default_dtype(torch.float32)
            torch.set_num_threads(1)
            yield
    finally:
        torch.set_num_threads(threads)
        set_defaults(default)
        random.setstate(states[0])
        np.random.set_state(states[1])  # noqa: NPY002


NOTHING = r"""pass|\.\.\.|return|return None|return \.\.\.|raise NotImplementedError.*|super\(\)\.__init__\(\)|['"].*"""


def is_stub(function: Callable) -> bool:
    """Tell whether the body has nothing but a docstring, `super().__init__()`, `pass`, or a return of nothing."""
    if isinstance(function, nn.Module):
        function = type(function).forward
    elif inspect.isclass(function):
        function = function.__init__
    body = body_of(function)
    return bool(body) and all(re.fullmatch(NOTHING, ast.unparse(statement), re.DOTALL) for statement in body)


def body_of(function: Callable) -> list[ast.stmt]:
    """Return the statements of a function; none if Python cannot say."""
    try:
        return ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(function)))).body[0].body
    except (OSError, TypeError, SyntaxError, AttributeError, IndexError):  # a file that changed since has other lines
        return []


RETURNING = {"permute", "transpose", "reshape", "view", "flatten", "unflatten", "expand", "softmax"}


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


PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIBRARIES = tuple(
    os.path.normcase(folder) + os.sep
    for folder in (PACKAGE, os.path.dirname(torch.__file__), sysconfig.get_path("stdlib"))
)
INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


@cache
def is_readers(file: str) -> bool:
    """Tell the files of notebook cells and the reader's own from those of torch, Python and this package."""
    file = os.path.normcase(file)
    return not (file.startswith((*LIBRARIES, "<frozen", "<__array")) or any(part in file for part in INSTALLED))


def own_lines(error: BaseException) -> list[FrameSummary]:
    """Return the reader's own lines in an error's traceback, the deepest last."""
    return [line for line in extract_tb(error.__traceback__) if is_readers(line.filename)]


def readers_line(error: BaseException) -> tuple[str, str]:
    """Say where in the reader's code an error came from: (" in line 3 of your cell", the line itself)."""
    if not (lines := own_lines(error)):
        return "", ""
    path, number, function, code = lines[-1]
    file = "your cell" if re.search(r"ipykernel|ipython-input|^<", path) else os.path.basename(path)
    inside = "" if function.startswith("<") else f", in {function}"
    return f" in line {number} of {file}{inside}", code


def stopped_by(error: BaseException, more: str = "") -> ReaderError:
    place, code = readers_line(error)
    try:
        text = textwrap.shorten(without_addresses(str(error)), 400, placeholder=" …")
    except (Exception, SystemExit) as second:
        text = f"(its own text cannot be shown: `__str__` stops with a {type(second).__name__})"
    meaning = next((f"\n{meaning}" for part, meaning in MEANINGS.items() if part in text), "")
    text = f"Your code stops with an error{place}.\n{type(error).__name__}: {text}{more}{meaning}"
    return ReaderError(text, None, code)


MEANINGS = {  # what errors mean whose text is hard to read
    "leaf Variable that requires grad": "You write into a parameter while gradients are recorded. To fill it, do so "
    "inside `with torch.no_grad():`.",
    "modified by an inplace operation": "You write into a tensor, by `z += …`, `z[...] = …` or a method that ends in "
    "an underscore, that an earlier step still needs to compute its gradient. `z = z + …` makes a new one.",
    "not implemented for 'Half'": "PyTorch cannot do this in half precision, and digits would be lost: keep the dtype.",
    "mutated during iteration": "A dictionary cannot change while you loop over it: loop over `list(theirs.items())`.",
}


def name_of(function: Callable) -> str:
    return getattr(function, "__name__", type(function).__name__)


def show_call(function: Callable, args: tuple) -> str:
    """Write out the call, tensors by their shapes: `my_patchify(images=tensor of (2, 3, 4, 6), patch_size=2)`."""
    return f"{name_of(function)}({', '.join(f'{name}={show(arg)}' for name, arg in named(function, args))})"


def show(value) -> str:
    if isinstance(value, Tensor):
        return f"tensor of {tuple(value.shape)}"
    if isinstance(value, (list, tuple)) and tensors_in(value):
        parts = ", ".join(map(show, value))
        return f"[{parts}]" if isinstance(value, list) else f"({parts})"
    if isinstance(value, Mapping) and tensors_in(list(value.values())):
        return f"{{{len(value)} tensors by name}}"
    if isinstance(value, int) and abs(value) > LONG:
        return "a whole number of more than 100 digits"
    if isinstance(value, nn.Module) and any(value.children()):
        return f"{type(value).__name__}(…)"
    return without_addresses(repr(value))


def without_addresses(text: str) -> str:
    return re.sub(r" at 0x[0-9a-fA-F]+", "", text)  # they change from run to run


TICK = 0.05  # seconds
# While one of these files is at work the reader's code is not: torch compiles, a debugger asks, a thread waits.
UNTIMED = {"convert_frame.py", "compile_fx.py", "bdb.py", "pydevd.py", "threading.py"}


class TookTooLong(BaseException):
    """Not an Exception, so that the reader's `except Exception: pass` does not swallow it."""


class time_limit:
    """Inside the block, raise TookTooLong in the reader's code after `seconds`, and again if it swallows that.

    It strikes in the reader's own frames only: torch is never torn apart halfway. Time spent compiling, at a
    debugger's prompt or waiting for another thread does not count. Code that never comes back from C is out of reach,
    and on Python 3.10 a loop of `try:` without a call.
    """

    def __init__(self, seconds: float):
        self.deadline, self.thread = time.monotonic() + seconds, threading.get_ident()
        self.over, self.lock, self.struck = threading.Event(), threading.Lock(), False

    def __enter__(self) -> None:
        self.frame = sys._getframe(1)
        threading.Thread(target=self.watch, name="time limit of a check", daemon=True).start()

    def __exit__(self, *exc_info) -> None:
        with self.lock:
            self.over.set()  # from here on nothing strikes
        if self.struck:
            with suppress(TookTooLong):  # one may still be on its way: it arrives within this line
                sum(1 for _ in range(1000))

    def watch(self) -> None:
        """Push the deadline back while time does not count, and strike whenever the reader's code is at work after it.

        Runs in a thread of its own until the block is left.
        """
        before, pause = time.monotonic(), TICK
        while not self.over.wait(pause):
            with self.lock:
                if self.over.is_set():
                    return
                files, now, pause = self.files_at_work(), time.monotonic(), TICK
                if any(os.path.basename(file) in UNTIMED for file in files):
                    self.deadline += now - before
                elif now > self.deadline and files and is_readers(files[0]):
                    self.struck = True
                    error = ctypes.py_object(TookTooLong)
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.thread), error)
                elif now > self.deadline:
                    pause = 0.001  # the thread may be in the reader's code a moment later
                before = now

    def files_at_work(self) -> list[str]:
        """Return the files of the thread's functions inside the block, the innermost first."""
        files, frame = [], sys._current_frames().get(self.thread)
        while frame not in (None, self.frame):
            files.append(frame.f_code.co_filename)
            frame = frame.f_back
        return files if frame else []
