"""Every notebook runs with one thread: pytest-xdist starts a worker for each core."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
