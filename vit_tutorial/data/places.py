"""Which folders may hold a data set."""

from __future__ import annotations

import os
from pathlib import Path

FIRST = "VIT_TUTORIAL_DATA"
LAST = Path("~/.cache/vit_tutorial")


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
