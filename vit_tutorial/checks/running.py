"""Run the reader's code within a time limit: what it returns, or a finding that says what happened, with their line."""

from __future__ import annotations

import ast
import ctypes
import inspect
import linecache
import os
import random
import re
import sys
import sysconfig
import textwrap
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from types import CodeType, FrameType, TracebackType

import numpy as np
import torch
from torch import Tensor, nn


class Wrong(Exception):
    """The reader's code does something else than the exercise asks. `hint` replaces the exercise's own."""

    def __init__(self, message: str, hint: str | None = None):
        super().__init__(message)
        self.message, self.hint = message, hint


class ReaderError(Wrong):
    """The reader's code raised an error, or did not end. `code` is their own line, with its place."""

    def __init__(self, message: str, code: str = "", hint: str | None = None):
        super().__init__(message, hint)
        self.code = code

    def explain(self, reason: str, hint: str | None = None) -> None:
        """Say below the error what it means."""
        self.message, self.hint = f"{self.message}\n{reason}".rstrip(), hint or self.hint


class NotAttempted(Exception):
    """The stub is still as it was."""


PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


LIBRARIES = tuple(
    os.path.normcase(folder) + os.sep
    for folder in (PACKAGE, os.path.dirname(torch.__file__), sysconfig.get_path("stdlib"))
)


INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


# While one of these files is at work the reader's code is not: torch compiles, a debugger asks, a thread waits.
UNTIMED = tuple(
    f"{os.sep}{name}"
    for name in (
        os.path.join("_dynamo", "convert_frame.py"),
        os.path.join("_inductor", "compile_fx.py"),
        "bdb.py",
        "pydevd.py",
        "threading.py",
    )
)


TICK = 0.05  # seconds


class TookTooLong(BaseException):
    """Not an Exception, so that the reader's `except Exception: pass` does not swallow it."""


def is_readers(code: CodeType) -> bool:
    """True for code of a notebook cell or of the reader's files; False for torch, Python and this package."""
    return is_readers_file(code.co_filename)


@cache
def is_readers_file(name: str) -> bool:
    name = os.path.normcase(name)
    return not (name.startswith((*LIBRARIES, "<frozen", "<__array")) or any(part in name for part in INSTALLED))


def readers_frame(traceback: TracebackType | None) -> tuple[FrameType, int] | None:
    """The deepest of the reader's own frames in a traceback, with its line number."""
    found = None
    while traceback is not None:
        if is_readers(traceback.tb_frame.f_code):
            found = traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next
    return found


class Watcher(threading.Thread):
    """One thread for all the time limits of a process. While there are none it sleeps."""

    def __init__(self):
        super().__init__(name="time limits of checks", daemon=True)
        self.limits: list[time_limit] = []
        self.awake = threading.Event()
        self.start()

    def run(self) -> None:
        while True:
            self.awake.wait()
            for _ in range(20):
                before = time.monotonic()
                time.sleep(TICK)
                for limit in tuple(self.limits):
                    limit.look(time.monotonic() - before)
            self.awake.clear()
            if self.limits:
                self.awake.set()


class time_limit:
    """Inside the block, the reader's code gets a TookTooLong after `seconds`, and again if it swallows that.

    It strikes in the reader's own frames only: nothing is torn in the middle of torch. Time spent compiling, at a
    debugger's prompt or waiting for another thread does not count. Code that never comes back from C is out of reach.
    """

    watcher: Watcher | None = None

    def __init__(self, seconds: float):
        self.deadline, self.thread = time.monotonic() + seconds, threading.get_ident()
        self.lock, self.struck = threading.Lock(), False

    def __enter__(self) -> None:
        self.frame = sys._getframe(1)
        watcher = time_limit.watcher
        if watcher is None or not watcher.is_alive():  # a forked process has none
            watcher = time_limit.watcher = Watcher()
        self.limits = watcher.limits
        self.limits.append(self)
        if not watcher.awake.is_set():
            watcher.awake.set()
        if sys.version_info < (3, 11):
            # There, a loop of `try:` without a call never looks whether something strikes it: a trace function does.
            self.trace_before = sys.gettrace()
            sys.settrace(self.trace_before or self.trace)

    def __exit__(self, *exc_info) -> None:
        if sys.version_info < (3, 11):
            sys.settrace(self.trace_before)
        while self in self.limits:
            with suppress(TookTooLong), self.lock:  # from here on nothing strikes
                self.limits.remove(self)
        if self.struck:
            with suppress(TookTooLong):  # one may still be on its way: it arrives within this line
                sum(1 for _ in range(1000))

    def trace(self, frame: FrameType, event: str, argument: object) -> object:
        """Stop the reader's code at its next line once the time is over."""
        if event == "line" and time.monotonic() > self.deadline:
            raise TookTooLong
        return self.trace if is_readers(frame.f_code) else None

    def look(self, elapsed: float) -> None:
        """Push the deadline back if the last `elapsed` seconds do not count; strike if it is over."""
        if any(frame.f_code.co_filename.endswith(UNTIMED) for frame in self.frames()):
            self.deadline += elapsed
        if time.monotonic() < self.deadline:
            return
        interval = sys.getswitchinterval()
        for _ in range(1000):  # each time the thread has come one step further: from call to call, from loop to loop
            sys.setswitchinterval(interval)
            if self.strike():
                break
            sys.setswitchinterval(1e-6)
            time.sleep(0)
        sys.setswitchinterval(interval)

    def strike(self) -> bool:
        """Raise TookTooLong in the thread if it is in the reader's code. True if there is no more to do for now."""
        with self.lock:
            if self not in self.limits:
                return True
            frames = self.frames()
            if not frames or not is_readers(frames[0].f_code):
                return False
            self.struck = True
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.thread), ctypes.py_object(TookTooLong))
            return True

    def frames(self) -> list[FrameType]:
        """What the thread is doing inside the block, the innermost frame first; nothing if it has left it."""
        frames, frame = [], sys._current_frames().get(self.thread)
        while frame is not None and frame is not self.frame:
            frames.append(frame)
            frame = frame.f_back
        return [] if frame is None else frames


SECONDS = 10.0


LONG = 10**100  # Python itself refuses to write out much longer numbers


def call(function: Callable, *args, seconds: float | None = None):
    """What the reader's `function(*args)` returns. A class is built; a module is called.

    Raises NotAttempted for a stub, ReaderError with the reader's own line if their code raises an error
    or is still running after `seconds`, Wrong if it returns nothing or changes a tensor it was given.
    """
    named = check_arguments(function, args)
    plain = args[: len(args) - len(named)]
    seconds = SECONDS if seconds is None else seconds
    before = [[tensor.detach().clone() for tensor in tensors_in(arg)] for arg in args]
    grad, default = torch.is_grad_enabled(), torch.empty(0)
    try:
        with time_limit(seconds):
            result = function(*plain, **dict(zip(named, args[len(plain) :], strict=True)))
    except TookTooLong as stopped:
        place, code = readers_line(stopped)
        message = f"Your code was stopped: it was still running after {seconds:g} seconds{place}."
        raise ReaderError(message, code, "Which of your loops has no end? A `while` must come to be false.") from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        if isinstance(error, NotImplementedError) and raised_by_reader(error):
            raise NotAttempted from None
        raise stopped_by(error, f"\nIt was called as `{show_call(function, args)}`.") from None
    finally:
        torch.set_grad_enabled(grad)
        set_defaults(default)
    if result is None or result is Ellipsis:
        if result is Ellipsis or is_stub(function):
            raise NotAttempted
        raise Wrong(f"Your {part_of(function)} returns nothing (None): is the `return` missing?")
    for name, arg, copies in zip(parameter_names(function), args, before, strict=False):
        now = tensors_in(arg)
        if len(now) != len(copies) or not all(map(unchanged, now, copies)):
            raise Wrong(
                f"Your {part_of(function)} changes its input: after the call `{name}` holds other numbers.",
                "Methods that end in an underscore and `x[...] = ` write into the tensor itself. Work on a new one.",
            )
    if isinstance(result, int) and abs(result) > LONG:
        raise Wrong(f"The result is {show(result)}.")
    layer = isinstance(result, nn.Module) and not inspect.isclass(function)
    for tensor in result.parameters() if layer else tensors_in(result):
        if text := unreadable(tensor):
            raise Wrong(f"The result {text}.", NEW_TENSORS)
    return result


NEW_TENSORS = (
    "A tensor that you make yourself has a dtype and a device of its own. Give it the input's: "
    "`torch.zeros(..., dtype=x.dtype, device=x.device)`."
)


def unreadable(tensor: Tensor) -> str | None:
    """Why a tensor's numbers cannot be compared, as the end of a sentence; None if they can be."""
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


def unchanged(tensor: Tensor, before: Tensor) -> bool:
    kept = tensor.dtype == before.dtype and unreadable(tensor) is None
    return kept and torch.equal(tensor, before)


def stopped_by(error: BaseException, more: str = "") -> ReaderError:
    """What to say of an error in the reader's code."""
    place, code = readers_line(error)
    try:
        text = shorten(str(error))
    except (Exception, SystemExit) as second:
        text = f"(its own text cannot be shown: `__str__` stops with a {type(second).__name__})"
    return ReaderError(f"Your code stops with an error{place}.\n{type(error).__name__}: {text}{more}", code)


def set_defaults(default: Tensor) -> None:
    """Make new tensors of this one's dtype, and on its device."""
    torch.set_default_dtype(default.dtype)
    if torch.empty(0).device != default.device:
        torch.set_default_device(None if default.device.type == "cpu" else default.device)


@contextmanager
def undisturbed(seed: int = 0) -> Iterator[None]:
    """Inside the block gradients are on, new tensors are floats on the CPU, and the random numbers start at `seed`.

    After it all is as it was. One thread does the work: the tensors of a check are so small that waiting for a second
    one takes longer.
    """
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()  # noqa: NPY002
    default, threads = torch.empty(0), torch.get_num_threads()
    on_cpu = nullcontext() if default.device.type == "cpu" else torch.device("cpu")  # slower
    try:
        with torch.inference_mode(False), torch.enable_grad(), torch.autocast("cpu", enabled=False), on_cpu:
            torch.default_generator.manual_seed(seed)
            random.seed(seed)
            np.random.seed(seed)  # noqa: NPY002
            torch.set_default_dtype(torch.float32)
            torch.set_num_threads(1)
            yield
    finally:
        torch.set_num_threads(threads)
        set_defaults(default)
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        np.random.set_state(states[2])  # noqa: NPY002


def is_stub(function: Callable) -> bool:
    """True if there is nothing in the body but a docstring, `super().__init__()`, `pass`, or a return of nothing."""
    try:
        source = textwrap.dedent(inspect.getsource(inspect.unwrap(readers_part(function))))
        body = ast.parse(source).body[0].body
    except (OSError, TypeError, SyntaxError, AttributeError):
        return False
    return all(is_empty(statement) for statement in body)


def is_empty(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Raise):
        return "NotImplementedError" in ast.dump(statement)
    value = getattr(statement, "value", None)
    if isinstance(value, ast.Call):
        return ast.unparse(value) == "super().__init__()"
    nothing = value is None or isinstance(value, ast.Constant)
    return isinstance(statement, ast.Pass) or (isinstance(statement, (ast.Expr, ast.Return)) and nothing)


def readers_part(function: Callable) -> Callable:
    """The code behind what the reader passed: a module's `forward`, a class's `__init__`, or the function."""
    if isinstance(function, nn.Module):
        return type(function).forward
    return function.__init__ if inspect.isclass(function) else function


def signature_of(function: Callable) -> inspect.Signature | None:
    """What the reader's function takes; None if Python cannot say, as of one that is written in C."""
    try:
        return inspect.signature(function.forward if isinstance(function, nn.Module) else function)
    except (TypeError, ValueError):
        return None


def check_arguments(function: Callable, args: tuple) -> list[str]:
    """The names of keyword-only parameters that take the last of `args`. Raises Wrong if it cannot take `args`."""
    if (signature := signature_of(function)) is None:
        return []
    parameters = signature.parameters
    kinds = [parameter.kind for parameter in parameters.values()]
    names = [name for name, kind in zip(parameters, kinds, strict=True) if kind is inspect.Parameter.KEYWORD_ONLY]
    over = 0 if inspect.Parameter.VAR_POSITIONAL in kinds else len(args) - len(kinds) + len(names)
    named = names[: max(0, over)]
    try:
        signature.bind(*args[: len(args) - len(named)], **dict.fromkeys(named))
    except TypeError as error:
        raise Wrong(
            f"The check gives {name_of(function)} {len(args)} argument{'s'[: len(args) != 1]}, "
            f"and yours takes `{signature}`: {error}.",
            "Keep the first line of the stub as it was.",
        ) from None
    return named


def tensors_in(value, depth: int = 20) -> list[Tensor]:
    """A tensor itself; those in a list or a tuple, in lists within it, and so on."""
    if isinstance(value, (list, tuple)) and depth:
        return [tensor for part in value for tensor in tensors_in(part, depth - 1)]
    return [value] if isinstance(value, Tensor) else []


def part_of(function: Callable) -> str:
    return "`forward`" if isinstance(function, nn.Module) else "function"


def raised_by_reader(error: BaseException) -> bool:
    traceback = error.__traceback__
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    found = readers_frame(error.__traceback__)
    return found is not None and found[0] is traceback.tb_frame


def readers_line(error: BaseException) -> tuple[str, str]:
    """Where in the reader's code an error came from: (" in line 3 of your cell", the line itself)."""
    found = readers_frame(error.__traceback__)
    if found is None:
        return "", ""
    frame, number = found
    path, function = frame.f_code.co_filename, frame.f_code.co_name
    in_cell = re.search(r"ipykernel|ipython-input|^<", path)
    line = linecache.getline(path, number, frame.f_globals).strip()
    inside = "" if function.startswith("<") else f", in {function}"
    return f" in line {number} of {'your cell' if in_cell else os.path.basename(path)}{inside}", line


def parameter_names(function: Callable) -> list[str]:
    signature = signature_of(function)
    return [f"argument {number}" for number in range(1, 10)] if signature is None else list(signature.parameters)


def name_of(function: Callable) -> str:
    return getattr(function, "__name__", type(function).__name__)


def show_call(function: Callable, args: tuple) -> str:
    """The call as text, tensors by their shapes: `my_patchify(images=tensor of (2, 3, 4, 6), patch_size=2)`."""
    shown = (f"{name}={show(arg)}" for name, arg in zip(parameter_names(function), args, strict=False))
    return f"{name_of(function)}({', '.join(shown)})"


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
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def shorten(text: str) -> str:
    """The first lines of an error's text, without the addresses that change from run to run."""
    return textwrap.shorten(re.sub(r" at 0x[0-9a-fA-F]+", "", text), 400, placeholder=" …")
