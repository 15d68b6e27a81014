"""A time limit for code that may never end, in the thread it runs in, on every system."""

from __future__ import annotations

import ctypes
import os
import sys
import sysconfig
import threading
import time
from contextlib import suppress
from functools import cache
from types import CodeType, FrameType, TracebackType

import torch

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
