"""Play a reader's whole way: the lessons in order, right answers in a style that is not ours, and their file growing.

    python tests/own/whole_way.py                    # every exercise
    python tests/own/whole_way.py MySelfAttention    # this answer alone

Each lesson runs in a kernel of its own, as a reader's does. At the end stands what the file holds. It takes as long as
the lessons do, about ten minutes, so pytest does not run it; the workflow does.
"""

import os
import re
import sys
import tempfile
import textwrap
from pathlib import Path

import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from vit_tutorial.checks.exercise import Exercise  # noqa: E402
from vit_tutorial.own.source import EXERCISES, FILE, needed, pieces  # noqa: E402

STYLED = (Path(__file__).parent / "styled.py").read_text(encoding="utf-8")


def answer_to(name: str) -> str:
    """Return the source of an answer: of `styled.py`, or else the solution."""
    there = pieces(STYLED)
    styled = needed([piece for piece in there if name in piece.defines], there)
    source = "\n\n\n".join(piece.source for piece in styled if not piece.is_import)
    return source or EXERCISES[name].source


def filled(source: str, wanted: set[str]) -> str:
    """Return a cell's source with an answer in the place of its stub."""
    stub = re.search(r"^(?:class|def) (\w+)\b.*raise NotImplementedError\n", source, re.MULTILINE | re.DOTALL)
    if stub is None or stub[1] not in wanted:
        return source
    imports = "import math\nimport torch.nn.functional as F\nfrom torch import nn\n\n"
    return f"{source[: stub.start()]}{imports}{answer_to(stub[1])}\n\n{source[stub.end() :]}"


def main() -> None:
    wanted = set(sys.argv[1:]) or set(EXERCISES)
    os.environ.pop("VIT_TUTORIAL_STILL", None)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "notebooks")
        place.mkdir()
        Path(folder, "vit_tutorial").symlink_to(ROOT / "vit_tutorial")
        for path in sorted((ROOT / "notebooks").glob("[0-9]*.ipynb")):
            notebook = nbformat.read(path, as_version=4)
            for cell in notebook.cells:
                if cell.cell_type == "code":
                    cell.source = filled(cell.source, wanted)
            NotebookClient(notebook, timeout=1800, resources={"metadata": {"path": str(place)}}).execute()
            said = "".join(str(output.get("text", "")) + str(output.get("data", {}).get("text/plain", ""))
                           for cell in notebook.cells for output in cell.get("outputs", []))  # fmt: skip
            print(path.stem)
            for line in dict.fromkeys(
                re.findall(r"^.*(?:\bKept|Not kept|yours:|: yours|: ours|: wrong|my_vit\.py:).*$", said, re.M)
            ):
                print(textwrap.shorten(f"    {line.strip()}", 150))
        text = (place / FILE).read_text(encoding="utf-8")
        print(f"{FILE}: {len(text.splitlines())} lines, {text.count('from vit_tutorial')} parts of ours")
        kept = {name for name in wanted if isinstance(EXERCISES[name], Exercise)} - {"my_sincos"}  # it uses `waves`
        missing = [name for name in kept if not re.search(rf"^(?:class|def) {name}\b", text, re.M)]
        assert not missing, f"not kept: {missing}"


if __name__ == "__main__":
    main()
