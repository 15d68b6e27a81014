"""Find the folders that may hold a data set, and download a file: all of it, or nothing."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from typing import BinaryIO, NamedTuple
from urllib.request import Request, urlopen
from uuid import uuid4

from filelock import FileLock

PATIENCE = 30.0  # seconds without a byte, and before the mean speed counts
SLOWEST = 20_000  # bytes a second
MEGABYTE = 10**6
UNFINISHED = ".unfinished"  # how the name of a file ends while it is written
DATA_VARIABLE = "VIT_TUTORIAL_DATA"
CACHE = "~/.cache/vit_tutorial"


class Source(NamedTuple):
    """Describe a file as its publisher does: `checksum` may be the start of one, `size` is an upper limit in bytes."""

    url: str
    algorithm: str
    checksum: str
    size: int

    def is_at(self, path: Path) -> bool:
        """Tell whether the file at `path` exists and has the right checksum."""
        if not path.is_file():
            return False
        digest = hashlib.new(self.algorithm, usedforsecurity=False)
        with path.open("rb") as file:
            while piece := file.read(2**20):
                digest.update(piece)
        return digest.hexdigest().startswith(self.checksum)


def fetch(source: Source, path: Path) -> None:
    """Download a file to `path`: all of it, with the right checksum, or nothing. Progress goes to stderr.

    If another process is fetching the same file, wait for it and use its file. Raises OSError, also for a server that
    stalls, trickles or sends more than `source.size`. Only an empty `.lock` file may stay behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock", timeout=PATIENCE + source.size / SLOWEST):
        if source.is_at(path):
            return
        delete_unfinished(path.parent, path.name)
        with replacing(path) as part:
            with part.open("xb") as file:
                receive(source, file)
            if not source.is_at(part):
                raise OSError(
                    f"{source.url} gave {part.stat().st_size:,} bytes without the {source.algorithm} "
                    f"{source.checksum}: cut off, or another file"
                )


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


def receive(source: Source, file: BinaryIO) -> None:
    """Write the server's answer to a file. Any OSError names the address."""
    try:
        with urlopen(Request(source.url, headers={"User-Agent": "vit-tutorial"}), timeout=PATIENCE) as answer:
            announced, done, start = answer.length or 0, 0, time.monotonic()
            total = f" of {announced / MEGABYTE:.0f}" if announced else ""
            while piece := answer.read1(2**16):
                done += file.write(piece)
                if (length := max(announced, done)) > source.size:
                    raise OSError(f"the answer has {length:,} bytes or more, the file has {source.size:,} at most")
                # A timeout of the socket starts again with every byte, so it does not notice a trickle.
                if (seconds := time.monotonic() - start) > PATIENCE + done / SLOWEST:
                    raise TimeoutError(f"only {done:,} bytes in {seconds:.0f} s")
                if done // MEGABYTE > (done - len(piece)) // MEGABYTE:
                    print(f"\r{source.url}: {done // MEGABYTE}{total} MB", end="", file=sys.stderr, flush=True)
        print(file=sys.stderr)
    except (OSError, HTTPException, ValueError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise OSError(f"{source.url}: {reason:.200}") from None


def data_folder() -> Path | None:
    """Return the folder that the environment variable VIT_TUTORIAL_DATA names, if it names one."""
    return as_path(DATA_VARIABLE, os.environ[DATA_VARIABLE]) if os.environ.get(DATA_VARIABLE) else None


def as_path(name: str, value: str | os.PathLike) -> Path:
    """Return a reader's path as a `Path`, with "~" replaced. Raises ValueError for anything else, and for ""."""
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
        raise ValueError(f"{name} must be a path, got {value!r:.80}")
    return Path(os.path.expanduser(value))  # Path.expanduser would raise for a user who is not there
