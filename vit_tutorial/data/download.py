"""Download a file, or write one: all of it, or nothing."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from urllib.request import Request, urlopen
from uuid import uuid4

from filelock import FileLock

TIMEOUT = 30.0  # seconds without a byte
MEGABYTE = 10**6
UNFINISHED = ".unfinished"  # how the name of a file ends while it is written


def fetch(url: str, path: Path, sha256: str) -> None:
    """Download a file to `path`: all of it, with a SHA-256 that starts like this, or nothing. Progress goes to stderr.

    If another process is fetching the same file, wait for it and use its file. Raises OSError that names the address,
    also for a server that sends nothing for half a minute. Only an empty `.lock` file may stay behind.
    """
    if has_sha256(path, sha256):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if has_sha256(path, sha256):
            return
        delete_unfinished(path.parent, path.name)
        with replacing(path) as part:
            try:
                receive(url, part)
            except (OSError, HTTPException, ValueError) as error:
                reason = " ".join(str(error).split()) or type(error).__name__
                raise OSError(f"{url}: {reason:.200}") from None
            if not has_sha256(part, sha256):
                size = part.stat().st_size
                raise OSError(f"{url} gave {size:,} bytes without the SHA-256 {sha256}: cut off, or another file")


def has_sha256(path: Path, start: str) -> bool:
    """Tell whether there is a file at `path` whose SHA-256 starts like this."""
    if not path.is_file():
        return False
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(2**20):
            digest.update(piece)
    return digest.hexdigest().startswith(start)


def receive(url: str, path: Path) -> None:
    request = Request(url, headers={"User-Agent": "vit-tutorial"})
    with urlopen(request, timeout=TIMEOUT) as answer, path.open("xb") as file:
        total = f" of {answer.length / MEGABYTE:.0f}" if answer.length else ""
        while piece := answer.read(MEGABYTE):
            file.write(piece)
            print(f"\r{url}: {file.tell() // MEGABYTE}{total} MB", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


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
