"""Fetch a published file through torch.hub, which checks its digest before the file gets its name."""

import hashlib
from pathlib import Path

import torch


def fetch(url: str, path: Path, sha256: str, megabytes: int, download: bool = True) -> None:
    """Download the file unless it is there, with this SHA-256. Progress is shown on stderr.

    Raises FileNotFoundError if it is missing and `download` is False, ConnectionError if it could not be fetched.
    """
    if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == sha256:
        return
    missing = f"no {path.name} in {path.parent}, or a broken one"
    if not download:
        raise FileNotFoundError(f"{missing}: download=True, or --download, fetches it ({megabytes} MB)")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        torch.hub.download_url_to_file(url, str(path), hash_prefix=sha256)
    except (OSError, RuntimeError) as error:  # torch.hub has a RuntimeError for a file with another digest
        by_hand = f"fetch {url} by hand ({megabytes} MB, SHA-256 {sha256}) and put it there"
        raise ConnectionError(f"{missing}, and fetching failed: {error}. Try again later, or {by_hand}") from None
