"""What a test starts in processes of their own, twice at once."""

from pathlib import Path

from vit_tutorial.data.download import Source, fetch


def begin_and_fetch(source: Source, path: Path) -> None:
    print("begun", flush=True)
    fetch(source, path)
