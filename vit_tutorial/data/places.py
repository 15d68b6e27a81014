"""Which folders may hold a data set."""

from __future__ import annotations

import os
from pathlib import Path

FIRST = "VIT_TUTORIAL_DATA"
LAST = Path("~/.cache/vit_tutorial")


def first_place() -> Path | None:
    """The folder that the environment variable VIT_TUTORIAL_DATA names, if it names one."""
    return Path(os.environ[FIRST]).expanduser() if os.environ.get(FIRST) else None
