"""What the README promises is there, and its test line is the one that the CI runs."""

import re
from pathlib import Path

from test_imports import ORDER

from vit_tutorial import train

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_ci_and_the_workflow_run_the_readmes_test_lines():
    """One for Linux and macOS, one for Windows; the CI runs on Linux."""
    lines = re.findall(r"^py(?:thon3)? -m venv .*-m pytest$", README, re.MULTILINE)
    assert [line.startswith("python3") for line in lines] == [True, False]
    assert lines[0] in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    for line in lines:
        assert f"run: {line}\n" in workflow


def test_every_link_leads_somewhere():
    targets = [target for target in re.findall(r"\]\(([^)]+)\)", README) if not target.startswith("http")]
    assert len(targets) >= 7
    for target in targets:
        assert (ROOT / target).is_file(), target


def test_the_map_lists_the_files_in_the_order_of_their_imports():
    package = README[README.index("vit_tutorial/\n") : README.index("notebooks/   ")]
    assert re.findall(r"^  (\w+)(?:\.py|/)\s", package, re.MULTILINE) == ORDER


def test_the_help_of_the_command_shows_the_same_command():
    told = [line.strip() for line in train.__doc__.splitlines()]
    (command,) = (line for line in README.splitlines() if "--trained head" in line)
    assert command.removeprefix(".venv/bin/") in told


def test_the_readmes_code_names_the_picture(capsys):
    example, _ = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(example, {})
    named = re.match(r"(\w+) \[Prediction\(name='(\w+)'", capsys.readouterr().out)
    assert named is not None
    assert named[1] == named[2]
