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
    """Inside the block, the reader's code gets a TookTooLong after `seconds`, and again if it swallows that.

    It strikes in the reader's own frames only: nothing is torn in the middle of torch, and whoever stands
    at a breakpoint has the time they need. A debugger's trace function stays in place.
    """
    thread, over, deadline = threading.get_ident(), threading.Event(), time.monotonic() + seconds

    # Python calls a trace function at every line. It reaches every loop but one on a single line, and strikes once.
    def at_line(frame, event, argument):
        if event == "line" and time.monotonic() > deadline:
            raise TookTooLong
        return at_line

    def at_call(frame, event, argument):
        return at_line if is_readers(frame.f_code) else None

    # A second thread reaches the others, and strikes until the block is left.
    def watch() -> None:
        over.wait(seconds + 0.2)
        while not over.wait(0.05):
            frame = sys._current_frames().get(thread)
            if frame is not None and is_readers(frame.f_code):
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(TookTooLong))

    before, watcher = sys.gettrace(), threading.Thread(target=watch, daemon=True)
    watcher.start()
    sys.settrace(before or at_call)
    try:
        yield
    finally:
        sys.settrace(before)
        while watcher.is_alive():
            with suppress(TookTooLong):  # one may still be on its way: it arrives within these lines
                over.set()
                watcher.join()
                sum(1 for _ in range(1000))
