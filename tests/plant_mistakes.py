"""Plant known mistakes in a copy of the repository, one by one, and see who notices.

    python tests/plant_mistakes.py                # all of them, about a quarter of an hour on two cores
    python tests/plant_mistakes.py softmax norm   # those whose name holds one of these words

`planted_mistakes.txt` says who must notice each. The exit status counts the mistakes that somebody missed.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent


class Mistake(NamedTuple):
    """A mistake: its name, its file, (right, wrong) pieces of code, and the targets of each run of pytest to fail."""

    name: str
    file: str
    pieces: list[tuple[str, str]]
    runs: list[list[str]]


def read_mistakes(text: str) -> list[Mistake]:
    """Read the table: under "## file | targets | targets" blocks of a name, lines "- right", and lines "+ wrong".

    Each part after a bar is a run of its own, the likeliest target first; all of them must fail.
    """
    mistakes = []
    for block in text.strip().split("\n\n"):
        name, *lines = block.split("\n")
        if name.startswith("## "):
            file, *runs = (part.split() for part in name.removeprefix("## ").split("|"))
        else:
            code = "\n".join([*lines, ""])
            pairs = re.findall(r"((?:^- .*\n)+)((?:^\+ ?.*\n)+)", code, re.MULTILINE)
            pieces = [tuple(re.sub(r"^[-+] ?", "", part, flags=re.MULTILINE)[:-1] for part in pair) for pair in pairs]
            mistakes.append(Mistake(name, *file, pieces, runs))
    return mistakes


def plant(mistake: Mistake, copy: Path) -> None:
    """Put the mistake into the copy. Each piece must fit exactly one place, or the table is out of date."""
    file = copy / "vit_tutorial" / mistake.file
    text = file.read_text(encoding="utf-8")
    for right, wrong in mistake.pieces:
        if text.count(right) != 1:
            raise SystemExit(f"{mistake.name}: {text.count(right)} places in {mistake.file} hold {right!r}")
        text = text.replace(right, wrong)
    file.write_text(text, encoding="utf-8")


def first_failure(copy: Path, targets: list[str]) -> str:
    """Return the first of the targets' tests or cells that fails in the copy, or nothing."""
    command = [sys.executable, "-m", "pytest", "-n0", "-x", "-q", "--no-header", "-p", "no:cacheprovider", *targets]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    result = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True)
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", result.stdout, re.MULTILINE)
    if result.returncode and not failed:
        raise SystemExit(f"pytest stopped: {result.stdout[-500:]}{result.stderr[-500:]}")
    return failed[1] if result.returncode else ""


def look_for(mistake: Mistake) -> bool:
    """Plant one mistake, print who notices it, and tell whether all do who must."""
    with tempfile.TemporaryDirectory() as folder:
        ignored = shutil.ignore_patterns(".git", ".venv", "__pycache__", "*.egg-info", "benchmarks")
        copy = Path(shutil.copytree(ROOT, Path(folder, "copy"), ignore=ignored))
        plant(mistake, copy)
        noticed = [first_failure(copy, targets) for targets in mistake.runs]
    print(mistake.name, *(found or "MISSED" for found in noticed), sep=" | ", flush=True)
    return all(noticed)


def main() -> int:
    mistakes = read_mistakes(Path(__file__).with_name("planted_mistakes.txt").read_text(encoding="utf-8"))
    words = sys.argv[1:] or [""]
    chosen = [mistake for mistake in mistakes if any(word in mistake.name for word in words)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        noticed = sum(pool.map(look_for, chosen))
    print(f"{noticed} of {len(chosen)} mistakes were noticed")
    return len(chosen) - noticed


if __name__ == "__main__":
    sys.exit(main())
