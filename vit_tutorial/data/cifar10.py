"""CIFAR-10: 60,000 photographs of 32×32 pixels in ten classes (Krizhevsky 2009)."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import torch
from filelock import FileLock
from torch.utils.data import Dataset

from .download import as_path, delete_unfinished, fetch, replacing
from .image_set import ImageSet

SHA256 = "6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce"  # of the archive
SIZE = 170_498_071  # bytes


def cifar10(root: str | Path | None = None, train: bool = True, download: bool = False) -> ImageSet:
    """Load the 50,000 training or 10,000 test images through torchvision, which checks every file's md5.

    `root` holds the folder `cifar-10-batches-py` or the archive `cifar-10-python.tar.gz`, which is then unpacked beside
    itself; without one, it is the folder that VIT_TUTORIAL_DATA names, or else `~/.cache/vit_tutorial`. If there is
    neither, `download=True` fetches the archive (170 MB).

    Raises FileNotFoundError if there is none, ConnectionError if it could not be fetched; each says what to do. A
    download that fails leaves no part of it.
    """
    from torchvision.datasets import CIFAR10

    default = os.environ.get("VIT_TUTORIAL_DATA") or "~/.cache/vit_tutorial"
    folder = as_path("root", default if root is None else root)
    data = read(folder, train)
    if data is None:
        archive = folder / CIFAR10.filename
        prepare(archive, download)
        with FileLock(f"{archive}.lock", timeout=600.0):  # another process may be unpacking it
            if read(folder, train) is None:
                unpack(archive)
        data = CIFAR10(folder, train=train)
    pixels = torch.from_numpy(data.data).permute(0, 3, 1, 2).contiguous()  # (N, 32, 32, 3) → (N, 3, 32, 32)
    return ImageSet(pixels, torch.tensor(data.targets), tuple(data.classes))


def read(folder: Path, train: bool) -> Dataset | None:
    from torchvision.datasets import CIFAR10

    try:
        return CIFAR10(folder, train=train)
    except RuntimeError:  # a file is missing, or has another md5
        return None


def prepare(archive: Path, download: bool) -> None:
    """Return once the archive is there; raise an error that says what to do if it is not."""
    from torchvision.datasets import CIFAR10
    from torchvision.datasets.utils import check_integrity

    folder = archive.parent
    by_hand = f"fetch {CIFAR10.url} by hand (SHA-256 {SHA256}) and put it in {folder}."
    if download:
        try:
            fetch(CIFAR10.url, archive, SHA256, SIZE)
        except OSError as error:
            raise ConnectionError(f"CIFAR-10 could not be fetched: {error}. Try again later, or {by_hand}") from None
    elif not check_integrity(archive, CIFAR10.tgz_md5):
        found = " and ".join(name for name in (CIFAR10.base_folder, CIFAR10.filename) if (folder / name).exists())
        raise FileNotFoundError(
            f"no CIFAR-10 in {folder} ({f'{found}, but broken or not whole' if found else 'nothing'}). "
            f"`cifar10(download=True)` fetches it (170 MB); {by_hand} Without it, `Shapes(20_000)` needs no download."
        ) from None


def unpack(archive: Path) -> None:
    """Unpack the files that torchvision lists, each to its place: a name in an archive may lead out of the folder."""
    from torchvision.datasets import CIFAR10

    target = archive.parent / CIFAR10.base_folder
    target.mkdir(exist_ok=True)
    delete_unfinished(target)
    with tarfile.open(archive) as tar:
        for name in (*dict(CIFAR10.train_list + CIFAR10.test_list), CIFAR10.meta["filename"]):
            with replacing(target / name) as part:  # another process may be reading it
                part.write_bytes(tar.extractfile(f"{target.name}/{name}").read())
