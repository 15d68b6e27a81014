"""What the README promises is there, and its test line is the one that the CI runs."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_ci_runs_the_readmes_test_line():
    lines = re.findall(r"^python3 -m venv .*-m pytest$", README, re.MULTILINE)
    assert len(lines) == 1
    assert lines[0] in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()


def test_the_workflow_runs_the_readmes_test_lines():
    """One for Linux and macOS, one for Windows."""
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    lines = re.findall(r"^py(?:thon3)? -m venv .*-m pytest$", README, re.MULTILINE)
    assert len(lines) == 2
    for line in lines:
        assert f"run: {line}\n" in workflow


def test_every_link_leads_somewhere():
    targets = [target for target in re.findall(r"\]\(([^)]+)\)", README) if not target.startswith("http")]
    assert len(targets) >= 7
    for target in targets:
        assert (ROOT / target).is_file(), target


def test_every_notebook_stands_in_the_table():
    for path in (ROOT / "notebooks").glob("[0-9]*.ipynb"):
        assert f"](notebooks/{path.name})" in README


def test_every_file_of_the_package_stands_in_its_map():
    files = [path.name for path in (ROOT / "vit_tutorial").glob("*.py") if path.name != "__init__.py"]
    folders = [f"{path.parent.name}/" for path in (ROOT / "vit_tutorial").glob("*/__init__.py")]
    package = README[README.index("vit_tutorial/\n") : README.index("notebooks/   ")]
    for name in files + folders:
        assert re.search(rf"^  {re.escape(name)}\s", package, re.MULTILINE), name


def test_the_readmes_code_runs():
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    scope = {}
    exec(example, scope)
    assert tuple(scope["logits"].shape) == (1, 1000)
    assert not scope["logits"].any(), "the README says that they are all zero"
