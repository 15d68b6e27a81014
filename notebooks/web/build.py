"""Make web pages of the stored notebooks, without running them: `python notebooks/web/build.py`.

The pages are written into `notebooks/web/site`, or into the folder that is named.
"""

import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

import nbformat
from sphinx.cmd.build import main as sphinx

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
NOTEBOOKS = sorted(HERE.parent.glob("[0-9]*.ipynb"))
os.environ.pop("VIT_TUTORIAL_STILL", None)  # here a live model is to be live
sys.path[:0] = [str(ROOT), str(HERE.parent)]  # for the package, and for conf.py

from vit_tutorial import Shapes, load_checkpoint, play  # noqa: E402

shapes = load_checkpoint("shapes")
NAMES = {"play": play, "Shapes": Shapes, "model": shapes, "shapes": shapes}  # as lessons say
PLAY = re.compile(r"^play\(.*\)$", re.MULTILINE)
COLAB = re.compile(r"^\[Open in Colab\]\((.*)\)$", re.MULTILINE)
DOWNLOAD = '<a href="{}" download>download the notebook</a>'
PNG = "image/png"


def make_live(cell: nbformat.NotebookNode) -> None:
    """Put the live model where the notebook has stored its still."""
    (still,) = cell.outputs
    shown, about = eval(PLAY.search(cell.source)[0], NAMES)._repr_mimebundle_()
    assert about[PNG]["alt"] == still.metadata[PNG]["alt"], f"another model: {cell.source}"
    still.data = {"text/html": shown["text/html"]}


def make_page(path: Path, folder: Path) -> None:
    """Write a copy of the notebook for the web: ways to run it, live models, sharp figures."""
    notebook = nbformat.read(path, as_version=4)
    first, setup, *_ = notebook.cells
    ways = rf"Run this lesson [in Colab](\1) or [at home](index.md#start), or {DOWNLOAD}."
    first.source = COLAB.sub(ways.format(path.name), first.source)
    setup.metadata.tags = ["hide-input", "remove-output"]
    for cell in notebook.cells:
        if cell.cell_type == "code" and PLAY.search(cell.source):
            make_live(cell)
        elif "mystnb" in cell.metadata:
            looks = [a for output in cell.outputs for a in output.get("metadata", {}).values()]
            cell.metadata.mystnb.image.width = f"{max(look['width'] for look in looks)}px"
    nbformat.write(notebook, folder / path.name)


def main() -> int:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else HERE / "site")
    with tempfile.TemporaryDirectory() as name:
        source, pages = Path(name, "source"), Path(name, "pages")
        shutil.copytree(ROOT / "images", source / "images")
        shutil.copy(HERE / "index.md", source)
        for path in NOTEBOOKS:
            make_page(path, source)
        live = play(shapes)._repr_mimebundle_()[0]["text/html"]
        (source / "live.html").write_text(live, encoding="utf-8")
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        (source / "README.md").write_text(readme.replace("](notebooks/", "]("), encoding="utf-8")
        failed = sphinx(["-qW", "-c", str(HERE), "-d", f"{name}/trees", str(source), str(pages)])
        shutil.copytree(pages, out, dirs_exist_ok=True)
    for path in NOTEBOOKS:
        shutil.copy(path, out)
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
