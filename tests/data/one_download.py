"""What a test starts in processes of their own, twice at once."""

from pathlib import Path

from vit_tutorial.data.download import fetch


def begin_and_fetch(url: str, path: Path, sha256: str, size: int) -> None:
    print("begun", flush=True)
    fetch(url, path, sha256, size)
