"""A time limit for code that may never end, in the thread it runs in, on every system."""

from __future__ import annotations

import ctypes
import os
import sys
import sysconfig
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import CodeType, FrameType, TracebackType

import torch

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LIBRARIES = tuple(
    os.path.normcase(folder) + os.sep
    for folder in (PACKAGE, os.path.dirname(torch.__file__), sysconfig.get_path("stdlib"))
)
INSTALLED = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}")


class TookTooLong(BaseException):
    """Not an Exception, so that the reader's `except Exception: pass` does not swallow it."""


def is_readers(code: CodeType) -> bool:
    """True for code of a notebook cell or of the reader's files; False for torch, Python and this package."""
    name = os.path.normcase(code.co_filename)
    return not (name.startswith((*LIBRARIES, "<frozen", "<__array")) or any(part in name for part in INSTALLED))


def readers_frame(traceback: TracebackType | None) -> tuple[FrameType, int] | None:
    """The deepest of the reader's own frames in a traceback, with its line number."""
    found = None
    while traceback is not None:
        if is_readers(traceback.tb_frame.f_code):
            found = traceback.tb_frame, traceback.tb_lineno
        traceback = traceback.tb_next
    return found


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Inside the block, a line of the reader's code that begins after `seconds` raises TookTooLong.

    Python calls a trace function at every line, so the limit is looked at there, and only in the
    reader's own frames: nothing is torn in the middle of torch. The trace function that was there
    before (a debugger's, say) is put back.
    """
    deadline, over, thread, helpers = time.monotonic() + seconds, threading.Event(), threading.get_ident(), []

    def insist() -> None:
        # Raising ends the tracing. If a bare `except:` swallows the first, raise it again from outside.
        while not over.wait(0.05):
            raise_in(thread, TookTooLong)

    def at_line(frame, event, argument):
        if time.monotonic() > deadline and not over.is_set():
            helpers.append(threading.Thread(target=insist, daemon=True))
            helpers[0].start()
            raise TookTooLong
        return at_line

    def at_call(frame, event, argument):
        return at_line if is_readers(frame.f_code) else None

    before = sys.gettrace()
    sys.settrace(at_call)
    try:
        yield
    finally:
        sys.settrace(before)
        while helpers and (not over.is_set() or helpers[0].is_alive()):
            with suppress(TookTooLong):  # one may still be on its way
                over.set()
                helpers[0].join()
                sum(1 for _ in range(1000))


def raise_in(thread: int, exception: type[BaseException]) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(exception))
