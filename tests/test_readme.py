"""What the README promises is there, and its test line is the one that the CI runs."""

import re
from pathlib import Path

from test_imports import ORDER

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


def test_the_map_lists_the_files_in_the_order_of_their_imports():
    package = README[README.index("vit_tutorial/\n") : README.index("notebooks/   ")]
    assert re.findall(r"^  (\w+)(?:\.py|/)\s", package, re.MULTILINE) == ORDER


def test_the_readmes_code_names_the_picture(capsys):
    (example,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(example, {})
    named = re.match(r"(\w+) \[Prediction\(name='(\w+)'", capsys.readouterr().out)
    assert named is not None
    assert named[1] == named[2]
