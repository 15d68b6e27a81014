"""Paths as readers type them, and files that are written whole or not at all."""

import os
from contextlib import suppress
from pathlib import Path


def as_path(name: str, value: str | os.PathLike) -> Path:
    """Return a reader's path, with "~" as their home. Raises ValueError for anything else, and for ""."""
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
        raise ValueError(f"{name} must be a path, got {value!r:.80}")
    return Path(os.path.expanduser(value))


def write_atomically(path: Path, content: bytes) -> None:
    """Write the whole file, into a folder that may be new, or leave the old one as it was. Any OSError names `path`.

    A process that is killed meanwhile leaves `<path>.unfinished`, which the next one to write this file replaces.
    """
    part = path.with_name(path.name + ".unfinished")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # on the disk, before it takes the old file's name
        os.replace(part, path)
    except OSError as error:
        error.filename = str(path)
        raise
    finally:
        with suppress(OSError):  # the first error tells more
            part.unlink(missing_ok=True)
