"""Plant known mistakes in a copy of the package, one by one, and see who notices.

    python tests/plant_mistakes.py                # all of them, about a quarter of an hour on two cores
    python tests/plant_mistakes.py softmax norm   # those whose name holds one of these words

For each mistake two runs, each on its own: the notebooks (strict comparison) without the unit tests, and the
unit tests without the notebooks. Both must fail; of a mistake that shows in no lesson's output, the unit tests alone.
The exit status counts the mistakes that were missed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
UNIT_TESTS = [
    "test_patchify",
    "test_embeddings",
    "test_attention",
    "test_encoder",
    "test_model",
    "test_parity",
    "test_errors",
]


class Mistake(NamedTuple):
    """A mistake: its name, the notebook that teaches the part or the tests of it, the file, what to replace there."""

    name: str
    notebook: str | None
    tests: str | None
    file: str
    replacements: list[tuple[str, str]]


def read_mistakes(text: str) -> list[Mistake]:
    """Read the table: for each mistake its name, "- right", "+ wrong", under who must notice and the file.

    "## notebook 03, attention.py" asks notebooks and unit tests; "## test_hybrid.py, hybrid.py" only the unit tests,
    and these first.
    """
    mistakes = []
    for block in text.strip().split("\n\n"):
        if heading := re.fullmatch(r"## (?:notebook (\d\d)|(\S+)), (\S+\.py)", block):
            place = heading.groups()
            continue
        name, *lines = block.split("\n")
        replacements = re.findall(r"((?:^- .*\n)+)((?:^\+ ?.*\n)+)", "\n".join(lines) + "\n", re.MULTILINE)
        replacements = [tuple(re.sub(r"^[-+] ?", "", part, flags=re.M)[:-1] for part in pair) for pair in replacements]
        mistakes.append(Mistake(name, *place, replacements))
    return mistakes


MISTAKES = read_mistakes(Path(__file__).with_name("planted_mistakes.txt").read_text(encoding="utf-8"))


def plant(mistake: Mistake, copy: Path) -> None:
    """Put the mistake into the copy. It must fit exactly one place, or the table is out of date."""
    file = copy / "vit_tutorial" / mistake.file
    text = file.read_text(encoding="utf-8")
    for right, wrong in mistake.replacements:
        if text.count(right) != 1:
            raise SystemExit(f"{mistake.name}: {text.count(right)} places in {mistake.file} hold {right!r}")
        text = text.replace(right, wrong)
    file.write_text(text, encoding="utf-8")


def first_failure(copy: Path, *targets: str) -> str:
    """Run pytest in the copy, one target after the other, until something fails; return what failed, or nothing."""
    command = [sys.executable, "-m", "pytest", "-n0", "-x", "-q", "--no-header", "-p", "no:cacheprovider", *targets]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    result = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    if result.returncode == 0:
        return ""
    failed = [line for line in result.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0].split(" ", 1)[1] if failed else f"pytest stopped: {result.stdout[-200:]}"


def look_for(mistake: Mistake) -> bool:
    """Plant one mistake, print who notices it, and tell whether all do who must."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "copy")
        ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", "*.egg-info", "benchmarks")
        shutil.copytree(ROOT, copy, ignore=ignored)
        plant(mistake, copy)
        # The notebook that teaches the part first, or its own tests, since they are the likeliest to notice.
        notebooks = sorted(
            (copy / "notebooks").glob("[0-9]*.ipynb"), key=lambda p: (p.name[:2] != mistake.notebook, p.name)
        )
        by_notebook = "not asked"
        if mistake.notebook:
            by_notebook = first_failure(copy, *(str(path.relative_to(copy)) for path in notebooks))
        own = [f"tests/{mistake.tests}"] if mistake.tests else []
        by_test = first_failure(copy, *own, *(f"tests/{name}.py" for name in UNIT_TESTS))
    seconds = time.perf_counter() - start
    print(f"{mistake.name:50} | {by_notebook or 'MISSED':45} | {by_test or 'MISSED'} ({seconds:.0f} s)", flush=True)
    return bool(by_notebook and by_test)


def main() -> int:
    words = sys.argv[1:]
    chosen = [mistake for mistake in MISTAKES if not words or any(word in mistake.name for word in words)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        noticed = sum(pool.map(look_for, chosen))
    print(f"{noticed} of {len(chosen)} mistakes were noticed")
    return len(chosen) - noticed


if __name__ == "__main__":
    sys.exit(main())
