"""A time limit for code that may never end, in the thread it runs in, on every system."""

from __future__ import annotations

import ctypes
import os
import sys
import sysconfig
import threading
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

    A second thread watches, so that the reader's code runs at full speed, under a debugger too. It strikes
    only while one of the reader's own frames is on top: nothing is torn in the middle of torch, and whoever
    stands at a breakpoint has all the time they need.
    """
    thread, over = threading.get_ident(), threading.Event()

    def watch() -> None:
        over.wait(seconds)
        while not over.wait(0.05):
            frame = sys._current_frames().get(thread)
            if frame is not None and is_readers(frame.f_code):
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(TookTooLong))

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        while watcher.is_alive():
            with suppress(TookTooLong):  # one may still be on its way: it arrives within these lines
                over.set()
                watcher.join()
                sum(1 for _ in range(1000))
