"""Fetch a published file through torch.hub, which checks its digest before the file gets its name."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch


def fetch(url: str, path: Path, sha256: str, megabytes: int, download: bool = True) -> None:
    """Make sure that `path` is the file whose SHA-256 starts like this: download it if it is not.

    Raises FileNotFoundError if it is not and `download` is False, ConnectionError if it could not be fetched; each says
    what to do. Progress is shown on stderr.
    """
    if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest().startswith(sha256):
        return
    there = "it is there, but broken" if path.is_file() else "it is not there"
    missing = f"no {path.name} in {path.parent} ({there})"
    if not download:
        raise FileNotFoundError(f"{missing}: download=True, or --download, fetches it ({megabytes} MB)")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        torch.hub.download_url_to_file(url, str(path), hash_prefix=sha256)
    except (OSError, RuntimeError) as error:  # torch.hub has a RuntimeError for a file with another digest
        raise ConnectionError(
            f"{missing}, and it could not be fetched: {error}. Try again later, or fetch {url} by hand "
            f"({megabytes} MB, SHA-256 {sha256}) and put it there"
        ) from None
