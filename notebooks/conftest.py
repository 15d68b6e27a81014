"""Every notebook runs with one thread, since pytest-xdist starts a worker for each core.

A live page is compared as what a notebook stores: its still.
"""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["VIT_TUTORIAL_STILL"] = "1"
