"""What only a process that has imported nothing yet can show: one is started, and answers all of it."""

import json
import subprocess
import sys

import pytest

# The command's help as `python -m` gives it, in a Python in which timm and transformers cannot be imported: reading the
# series installs neither, and without them only the ways into and out of them are closed.
CODE = """
import json, runpy, sys
sys.modules["timm"] = sys.modules["transformers"] = None
sys.argv = ["train", "--help"]
try:
    runpy.run_module("vit_tutorial.train", run_name="__main__", alter_sys=True)
finally:
    import vit_tutorial
    vit_tutorial.load_checkpoint("shapes")
    print("LOADED", json.dumps(sorted(sys.modules)))
"""


@pytest.fixture(scope="module")
def fresh() -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=300, check=True)


def test_help_without_a_warning(fresh):
    assert fresh.stderr == ""
    assert fresh.stdout.startswith("usage: python -m vit_tutorial.train")
    for option in ("--split SHARE", "--learning-rate", "--trained {all,head}"):
        assert option in fresh.stdout


def test_the_first_cell_of_a_lesson_waits_for_nothing_that_it_does_not_need(fresh):
    """torchvision, and PyTorch's compiler, take as long to import as PyTorch itself: only who needs them waits."""
    loaded = json.loads(fresh.stdout.rpartition("LOADED")[2])
    assert "vit_tutorial.checks" in loaded
    assert not {"matplotlib", "torchvision", "torch._dynamo"} & set(loaded)
