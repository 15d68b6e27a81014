"""Find the folders that may hold a data set, and download a file: all of it, or nothing."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, Queue
from threading import Event, Thread
from typing import BinaryIO, NamedTuple
from urllib.request import Request, urlopen

from filelock import FileLock

PATIENCE = 30.0  # seconds without a byte, or between two looks at the speed
SLOWEST = 20_000  # bytes a second
MEGABYTE = 10**6

FIRST = "VIT_TUTORIAL_DATA"
LAST = Path("~/.cache/vit_tutorial")


class Source(NamedTuple):
    """A file as its publisher describes it: `checksum` may be the start of one, `size` is in bytes and an upper limit.

    At SLOWEST bytes a second, the size also limits how long a download may take.
    """

    url: str
    algorithm: str
    checksum: str
    size: int

    def is_at(self, path: Path) -> bool:
        """Tell whether the file at `path` exists and has the right checksum."""
        return path.is_file() and self.digest(path).startswith(self.checksum)

    def digest(self, path: Path) -> str:
        digest = hashlib.new(self.algorithm, usedforsecurity=False)
        with path.open("rb") as file:
            while piece := file.read(2**20):
                digest.update(piece)
        return digest.hexdigest()


def fetch(source: Source, path: Path) -> None:
    """Download a file to `path`: all of it, with the right checksum, or none. Progress goes to stderr.

    If another process is fetching the same file, wait for it and use what it fetched. Raises OSError, also for a
    server that stalls, trickles or sends more than `source.size`. Only an empty `.lock` file may stay behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path, seconds=PATIENCE + source.size / SLOWEST):
        if source.is_at(path):
            return
        with replacing(path) as part:
            with part.open("xb") as file:
                copy(source, file)
            if not source.is_at(part):
                found, size = source.digest(part)[: len(source.checksum)], part.stat().st_size
                raise OSError(
                    f"{source.url} gave {size:,} bytes with {source.algorithm} {found} in place of "
                    f"{source.checksum}: cut off, or another file"
                )


def locked(path: Path, seconds: float) -> FileLock:
    """Return a lock that one process at a time holds; waiting for it longer than `seconds` raises OSError."""
    return FileLock(f"{path}.lock", timeout=seconds)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give the block a name to write to; move that file to `path` if the block ends well, delete it if not.

    Hold the lock of `path` meanwhile: the name is always the same, so that what a killed process left is removed.
    """
    part = path.with_name(f"{path.name}.part")
    part.unlink(missing_ok=True)
    try:
        yield part
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


def copy(source: Source, file: BinaryIO) -> None:
    """Write the server's answer to a file, with the megabytes so far on stderr."""
    # A thread receives, because a socket's timeout starts again with every byte: of a header, too. Here is the clock.
    received, over = Queue(maxsize=16), Event()
    Thread(target=receive, args=(source.url, received, over), daemon=True).start()
    try:
        announced = take(received)
        check_length(announced or 0, source)
        total = f" of {announced / MEGABYTE:.0f}" if announced else ""
        done, before, look = 0, 0, time.monotonic() + PATIENCE
        while piece := take(received):
            done += file.write(piece)
            check_length(done, source)
            if time.monotonic() > look:
                if done - before < SLOWEST * PATIENCE:
                    raise TimeoutError(f"only {done - before:,} bytes in {PATIENCE:.0f} s")
                before, look = done, time.monotonic() + PATIENCE
            if done // MEGABYTE > (done - len(piece)) // MEGABYTE:
                print(f"\r{source.url}: {done // MEGABYTE}{total} MB", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
    except OSError as error:
        raise OSError(f"{source.url}: {' '.join(str(error).split())[:200]}") from None
    finally:
        over.set()
        with suppress(Empty):  # the thread may be waiting for room
            while True:
                received.get_nowait()


def receive(url: str, received: Queue, over: Event) -> None:
    """Put into the queue: the announced length or None, then pieces, an empty one last; or the error."""
    try:
        with urlopen(Request(url, headers={"User-Agent": "vit-tutorial"}), timeout=PATIENCE) as answer:
            received.put(answer.length)
            piece = b"more"
            while piece and not over.is_set():
                received.put(piece := answer.read1(2**16))
    except Exception as error:  # whatever a server's answer can do to http.client
        received.put(error)


def take(received: Queue) -> bytes | int | None:
    try:
        item = received.get(timeout=PATIENCE)
    except Empty:
        raise TimeoutError(f"timed out: nothing in {PATIENCE:.0f} s") from None
    if isinstance(item, Exception):
        raise OSError(str(item) or type(item).__name__) from None
    return item


def check_length(length: int, source: Source) -> None:
    if length > source.size:
        raise OSError(f"the answer has {length:,} bytes or more, the file has {source.size:,} at most")


def first_place() -> Path | None:
    """The folder that the environment variable VIT_TUTORIAL_DATA names, if it names one."""
    return as_path(FIRST, os.environ[FIRST]) if os.environ.get(FIRST) else None


def as_path(name: str, value: str | os.PathLike) -> Path:
    """Turn a reader's path into a `Path`, "~" included. Raises ValueError for what is no path, an empty one too."""
    if not isinstance(value, (str, os.PathLike)):
        raise ValueError(f"{name} must be a path, got {type(value).__name__}")
    if not os.fspath(value):
        raise ValueError(f"{name} must be a path, got ''")
    return Path(os.path.expanduser(value))  # Path.expanduser would raise for a user who is not there
