"""Every notebook runs with one thread, since pytest-xdist starts a worker for each core.

A live page is compared as what a notebook stores: its still.
"""

import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["VIT_TUTORIAL_STILL"] = "1"

# Lesson 06 writes it. A reader's is put back.
MINE = Path(__file__).with_name("runs") / "my_model.safetensors"
before = MINE.read_bytes() if MINE.exists() else None


def pytest_unconfigure():
    if before is not None:
        MINE.write_bytes(before)
