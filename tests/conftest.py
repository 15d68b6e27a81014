"""Every shape in the package's signatures is checked while the tests run."""

import jaxtyping
import pytest
import torch
from jaxtyping import install_import_hook

install_import_hook("vit_tutorial", "beartype.beartype")


@pytest.fixture(autouse=True)
def seeded():
    """Every test draws the same random numbers, alone or after others."""
    torch.manual_seed(0)


@pytest.fixture
def unchecked():
    """The shape checker off, for what it would answer first (our own errors) or stand in the way of (torch.compile)."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
