"""Download a file, or write one: all of it, or nothing."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from threading import Thread
from urllib.request import Request, urlopen
from uuid import uuid4

from filelock import FileLock

TIMEOUT = 30.0  # seconds until the server answers, without a byte, and before the mean speed counts
SLOWEST = 20_000  # bytes a second
MEGABYTE = 10**6
UNFINISHED = ".unfinished"  # how the name of a file ends while it is written


def fetch(url: str, path: Path, sha256: str, size: int) -> None:
    """Download a file to `path`: all of it, with a SHA-256 that starts like this, or nothing. Progress goes to stderr.

    If another process is fetching the same file, wait for it and use its file. Raises OSError that names the address,
    also for a server that stalls, trickles or sends more than `size` bytes. Only an empty `.lock` file may stay behind.
    """
    if has_sha256(path, sha256):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock", timeout=2 * TIMEOUT + size / SLOWEST):
        if has_sha256(path, sha256):
            return
        delete_unfinished(path.parent, path.name)
        with replacing(path) as part:
            with part.open("xb") as file:
                file.writelines(receive(url, size))
            if not has_sha256(part, sha256):
                given = part.stat().st_size
                raise OSError(f"{url} gave {given:,} bytes without the SHA-256 {sha256}: cut off, or another file")


def has_sha256(path: Path, start: str) -> bool:
    """Tell whether there is a file at `path` whose SHA-256 starts like this."""
    if not path.is_file():
        return False
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(2**20):
            digest.update(piece)
    return digest.hexdigest().startswith(start)


def receive(url: str, size: int) -> Iterator[bytes]:
    """Yield the server's answer in pieces. Raises OSError that names the address, for a bad or slow server too."""
    try:
        start, done = time.monotonic(), 0
        with answer_of(url) as answer:
            announced = answer.length or 0
            total = f" of {announced / MEGABYTE:.0f}" if announced else ""
            while piece := answer.read1(2**16):
                before, done = done, done + len(piece)
                if (length := max(announced, done)) > size:
                    raise OSError(f"the answer has {length:,} bytes or more, the file has {size:,} at most")
                # A timeout of the socket starts again with every byte, so it does not notice a trickle.
                if (seconds := time.monotonic() - start) > TIMEOUT + done / SLOWEST:
                    raise TimeoutError(f"only {done:,} bytes in {seconds:.0f} s")
                if done // MEGABYTE > before // MEGABYTE:
                    print(f"\r{url}: {done // MEGABYTE}{total} MB", end="", file=sys.stderr, flush=True)
                yield piece
        print(file=sys.stderr)
    except (OSError, HTTPException, ValueError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise OSError(f"{url}: {reason:.200}") from None


def answer_of(url: str) -> HTTPResponse:
    """Return the open answer. Raises TimeoutError if its headers are not there in time, even if they trickle in."""
    answer: Future[HTTPResponse] = Future()

    def ask() -> None:
        try:
            answer.set_result(urlopen(Request(url, headers={"User-Agent": "vit-tutorial"}), timeout=TIMEOUT))
        except Exception as error:
            answer.set_exception(error)

    asking = Thread(target=ask, daemon=True)  # a daemon, so that the end of the program does not wait for it
    asking.start()
    asking.join(TIMEOUT)
    if not answer.done():
        raise TimeoutError(f"timed out: no answer in {TIMEOUT:.0f} s")
    return answer.result()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Give the block a new name to write to; move that file to `path` if the block ends well, delete it if not.

    Any number of processes may do so at once: whoever reads `path` finds a whole file. A full disk is told by `path`.
    """
    part = path.with_name(f"{path.name}.{uuid4().hex}{UNFINISHED}")
    try:
        yield part
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(part, path)
    except OSError as error:
        if error.errno:
            error.filename = str(path)  # the system does not say whose write failed
        raise
    finally:
        part.unlink(missing_ok=True)


def delete_unfinished(folder: Path, name: str = "*") -> None:
    """Delete what killed processes left of a file. Hold its lock meanwhile."""
    for part in folder.glob(f"{name}.*{UNFINISHED}"):
        part.unlink(missing_ok=True)


def as_path(name: str, value: str | os.PathLike) -> Path:
    """Return a reader's path as a `Path`, with "~" replaced. Raises ValueError for anything else, and for ""."""
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
        raise ValueError(f"{name} must be a path, got {value!r:.80}")
    return Path(os.path.expanduser(value))  # Path.expanduser would raise for a user who is not there
