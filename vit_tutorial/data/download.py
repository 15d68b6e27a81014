"""One file from the network, whole or not at all."""

from __future__ import annotations

import hashlib
import http.client
import os
import sys
import time
from pathlib import Path
from typing import BinaryIO
from urllib.request import Request, urlopen

PATIENCE = 30.0  # seconds without a byte, or between two looks at the speed
SLOWEST = 20_000  # bytes a second
MEGABYTE = 10**6


def fetch(url: str, path: Path, md5: str) -> None:
    """Write what `url` holds to `path`, but only once all of it is there and its md5 is right.

    Raises OSError, also for a connection that stalls or trickles, and then leaves `path` as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # In the same folder, so that the last step is a renaming: it happens at once, or not at all.
    unfinished = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with unfinished.open("wb") as file:
            copy(url, file)
        if (found := md5_of(unfinished)) != md5:
            size = unfinished.stat().st_size
            raise OSError(f"{url} gave {size:,} bytes with md5 {found} in place of {md5}: cut off, or another file")
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)


def copy(url: str, file: BinaryIO) -> None:
    """Copy the answer to a file, with the megabytes so far on stderr."""
    try:
        with urlopen(Request(url, headers={"User-Agent": "vit-tutorial"}), timeout=PATIENCE) as answer:
            size = answer.headers["Content-Length"]
            total = f" of {int(size) / MEGABYTE:.0f}" if size else ""
            done, before, look = 0, 0, time.monotonic() + PATIENCE
            while piece := answer.read1(2**16):
                done += file.write(piece)
                if time.monotonic() > look:
                    if done - before < SLOWEST * PATIENCE:
                        raise TimeoutError(f"only {done - before:,} bytes in {PATIENCE:.0f} s")
                    before, look = done, time.monotonic() + PATIENCE
                if done // MEGABYTE > (done - len(piece)) // MEGABYTE:
                    print(f"\r{url}: {done // MEGABYTE}{total} MB", end="", file=sys.stderr, flush=True)
            print(file=sys.stderr)
    except (OSError, http.client.HTTPException) as error:
        raise OSError(f"{url}: {error}") from None


def md5_of(path: Path) -> str | None:
    """The file's md5, in hexadecimal; None if there is no such file."""
    if not path.is_file():
        return None
    digest = hashlib.md5(usedforsecurity=False)
    with path.open("rb") as file:
        while piece := file.read(2**20):
            digest.update(piece)
    return digest.hexdigest()
