"""Re-execute the notebooks in place and normalise what is stored.

    python notebooks/refresh.py                          # all of them
    python notebooks/refresh.py notebooks/01_patchify.ipynb
    python notebooks/refresh.py --address                # write the address of this clone's origin
    python notebooks/refresh.py --address https://github.com/me/vit-tutorial

The repository's address is kept in [project.urls] of pyproject.toml, and goes from there into every
setup cell, Colab link and live page, and into the README. With `--address` no cell runs.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

HERE = Path(__file__).resolve().parent
PYPROJECT = HERE.parent / "pyproject.toml"
PAGE = HERE.parent / "vit_tutorial" / "live" / "page.html"
README = HERE.parent / "README.md"
PICTURES = "image/png", "image/jpeg"  # kinds of output
MINE = HERE / "runs" / "my_model.safetensors"  # lesson 06 writes it
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
# Any address in the places that have one: what pip installs, git clones, a Colab badge opens.
INSTALL = re.compile(r"git\+https://[^\s\"']+")
CLONE = re.compile(r"(git clone .*)https://\S+\ncd \S+")
COLAB = re.compile(r"https://colab\.research\.google\.com/github/[^/\s]+/[^/\s]+/")


def address() -> str:
    """The repository's address, from the one place where it is written."""
    return tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]["urls"]["Repository"]


def origin() -> str:
    """Return where this clone came from, as a web address: git@github.com:me/mine.git is https://github.com/me/mine."""
    asked = ["git", "-C", str(HERE), "remote", "get-url", "origin"]
    found = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()
    parts = re.fullmatch(r"(?:https?://|ssh://)?(?:[^@/]+@)?([\w.-]+)[:/](.+?)(?:\.git)?/?", found)
    if not parts or Path(found).exists():
        raise SystemExit(f"no origin on the web (got {found!r}): name it after --address")
    return f"https://{parts[1]}/{parts[2]}"


def website(repository: str) -> str:
    """Return where GitHub Pages serves this repository: https://me.github.io/mine/."""
    owner, name = repository.split("/")[-2:]
    return f"https://{owner}.github.io/{name}/"


def keep_address(new: str) -> None:
    """Write a new address into pyproject.toml, the live page and the README, with its website."""
    old = address()
    for path in (PYPROJECT, PAGE, README):
        text = path.read_text(encoding="utf-8").replace(old, new)
        path.write_text(text.replace(website(old), website(new)), encoding="utf-8")


def write_address(text: str) -> str:
    """The text with the repository's address wherever an address of it stands."""
    text = INSTALL.sub(f"git+{address()}", text)
    text = CLONE.sub(rf"\1{address()}\ncd {address().split('/')[-1]}", text)
    return COLAB.sub(
        f"https://colab.research.google.com/github/{'/'.join(address().split('/')[-2:])}/", text
    )


def execute(notebook: nbformat.NotebookNode) -> None:
    """Run every cell from the top in a fresh kernel, which is not to warn of its local TCP port.

    A live page is stored as its still, without the model's weights. A reader's own model stays.
    """
    before = MINE.read_bytes() if MINE.exists() else None
    os.environ["VIT_TUTORIAL_STILL"] = "1"
    client = NotebookClient(
        notebook,
        timeout=900,
        kernel_name="python3",
        resources={"metadata": {"path": str(HERE)}},
    )
    client.extra_arguments = ["--log-level=ERROR"]
    try:
        client.execute()
    finally:
        if before is not None:
            MINE.write_bytes(before)


# Folded until they are clicked or run: a prediction's answer, and code under its exercise.
FOLDED = {"hide-output": "outputs_hidden", "hide-input": "source_hidden"}


def normalise(notebook: nbformat.NotebookNode) -> None:
    """Keep only what a reader needs, so that the same cells give the same file."""
    notebook.metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:03d}"
        cell.source = write_address(cell.source.rstrip())
        tags = cell.metadata.get("tags", [])
        folded = {name: True for tag, name in FOLDED.items() if tag in tags}
        cell.metadata = {
            name: value for name, value in {"tags": tags, "jupyter": folded}.items() if value
        }
        if cell.cell_type == "code":
            cell.outputs = merge_streams(cell.outputs)
            for output in cell.outputs:
                if "metadata" in output:
                    output.metadata = {
                        kind: about for kind, about in output.metadata.items() if kind in PICTURES
                    }
            describe_figures(cell)


def describe_figures(cell: nbformat.NotebookNode) -> None:
    """Write the figures' alternative text into the cell's metadata too.

    nbconvert (classic template) reads the output's own or the cell's, myst-nb the cell's `mystnb`.
    """
    alts = [
        about["alt"] for output in cell.outputs for about in output.get("metadata", {}).values()
    ]
    if alts:
        text = " ".join(alts)
        cell.metadata |= {"alt": text, "mystnb": {"image": {"alt": text}}}


def merge_streams(outputs: list) -> list:
    """A kernel sends what one cell prints in pieces whose number depends on timing: join them."""
    merged = []
    for output in outputs:
        if (
            merged
            and output.output_type == "stream" == merged[-1].output_type
            and output.name == merged[-1].name
        ):
            merged[-1].text += output.text
        else:
            merged.append(output)
    return merged


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "notebooks", nargs="*", type=Path, default=sorted(HERE.glob("[0-9]*.ipynb"))
    )
    parser.add_argument(
        "--address",
        nargs="?",
        const="origin",
        help="run nothing, write this address (default: the clone's origin)",
    )
    arguments = parser.parse_args()
    for path in arguments.notebooks:
        if not path.is_file():
            raise SystemExit(f"no notebook {str(path)!r} (relative paths start at {Path.cwd()})")
    if arguments.address:
        keep_address(origin() if arguments.address == "origin" else arguments.address)
    for path in arguments.notebooks:
        notebook, start = nbformat.read(path, as_version=4), time.perf_counter()
        if not arguments.address:
            execute(notebook)
        normalise(notebook)
        nbformat.write(notebook, path)
        print(f"{path.name}: {time.perf_counter() - start:.0f} s")
    README.write_text(write_address(README.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
