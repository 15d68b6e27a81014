"""Every shape in the package's signatures is checked while the tests run, with one thread for each worker.

PyTorch is imported in the fixtures, because pytest-xdist's first process, which only hands out the tests, needs none.
"""

import gc
import os
from pathlib import Path

import jaxtyping
import pytest
from jaxtyping import install_import_hook

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: pytest-xdist starts a worker for each core

# All of the package but the checks, which call a reader's code thousands of times and hold few shapes of their own.
PACKAGE = Path(__file__).resolve().parent.parent / "vit_tutorial"
ROOMS = sorted({path.stem for path in PACKAGE.iterdir()} - {"__init__", "__pycache__", "checks"})
install_import_hook([f"vit_tutorial.{room}" for room in ROOMS], "beartype.beartype")


def pytest_xdist_auto_num_workers(config):
    """Run tests that are named one by one in this process; None leaves the number to pytest-xdist."""
    return 0 if any("::" in argument for argument in config.args) else None


def pytest_collection_modifyitems(items):
    """Begin with what takes longest, the notebooks and the tests of them, so that no worker waits at the end."""
    items.sort(key=lambda item: item.path.suffix == ".py" and item.path.stem != "test_notebooks")


def pytest_collection_finish():
    """What was imported stays: Python need not look through half a million objects again and again for garbage."""
    gc.freeze()


def pytest_unconfigure():
    gc.unfreeze()


@pytest.fixture(autouse=True)
def seeded():
    """Every test draws the same random numbers, alone or after others."""
    import torch

    torch.manual_seed(0)


@pytest.fixture
def unchecked():
    """The shape checker off, for what it would answer first (our own errors) or stand in the way of (torch.compile)."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
