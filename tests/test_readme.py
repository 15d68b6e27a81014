"""What the README promises is there, and its test line is the one that the CI runs."""

import re
from pathlib import Path

from test_imports import ORDER

from vit_tutorial import train

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_ci_and_the_workflow_run_the_readmes_test_line():
    """On Windows with the words that the README puts there for others; the CI runs on Linux."""
    (line,) = re.findall(r"`(python3 -m venv [^`]*-m pytest)`", README)
    assert line in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    workflow = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    assert f"run: {line}\n" in workflow
    (told,) = re.findall(r"On Windows write (.*)\.", README)
    for theirs, ours in re.findall(r"`([^`]*)` for `([^`]*)`", told):
        line = line.replace(f" {ours}" if ours == "&&" else ours, theirs)
    assert f"run: {line}\n" in workflow


def test_every_link_leads_somewhere():
    targets = [target for target in re.findall(r"\]\(([^)]+)\)", README) if not target.startswith(("http", "#"))]
    assert len(targets) >= 7
    for target in targets:
        assert (ROOT / target).is_file(), target


def test_the_map_lists_the_files_in_the_order_of_their_imports():
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    package = contributing[contributing.index("vit_tutorial/\n") : contributing.index("notebooks/   ")]
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
