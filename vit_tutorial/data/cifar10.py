"""CIFAR-10: 60,000 photographs of 32×32 pixels in ten classes (Krizhevsky 2009)."""

from __future__ import annotations

import tarfile
from pathlib import Path

import torch
from filelock import FileLock
from torchvision.datasets import CIFAR10

from .download import CACHE, Source, as_path, data_folder, delete_unfinished, fetch, replacing
from .image_set import ImageSet

ARCHIVE = Source(CIFAR10.url, "md5", CIFAR10.tgz_md5, size=170_498_071)


def cifar10(root: str | Path | None = None, train: bool = True, download: bool = False) -> ImageSet:
    """Load the 50,000 training or 10,000 test images through torchvision, which checks every file's md5.

    Looks into the folder that VIT_TUTORIAL_DATA names, `root` and `~/.cache/vit_tutorial`, in this order, for the
    folder `cifar-10-batches-py` or the archive `cifar-10-python.tar.gz`, which is then unpacked beside itself. If
    there is neither, `download=True` fetches the archive (170 MB) into `root`, or else into the first of the others.

    Raises FileNotFoundError if there is none, ConnectionError if it could not be fetched; each says what to do. A
    download that fails leaves no part of it.
    """
    asked = None if root is None else as_path("root", root)
    folders = [folder for folder in (data_folder(), asked, as_path("root", CACHE)) if folder]
    for folder in folders:
        if images := read(folder, train):
            return images
    target = asked or folders[0]
    by_hand = f"fetch {ARCHIVE.url} by hand (md5 {ARCHIVE.checksum}) and put it in {target}."
    if not download:
        raise FileNotFoundError(
            f"no CIFAR-10 here: {'; '.join(map(contents, folders))}. `cifar10(download=True)` fetches it (170 MB); "
            f"{by_hand} Without it, `Shapes(20_000)` needs no download."
        )
    try:
        fetch(ARCHIVE, target / CIFAR10.filename)
    except OSError as error:
        raise ConnectionError(f"CIFAR-10 could not be fetched: {error}. Try again later, or {by_hand}") from None
    return read(target, train)


def read(folder: Path, train: bool) -> ImageSet | None:
    """Return the images of a folder, unpacked first if need be; None if it has neither whole files nor the archive."""
    try:
        data = CIFAR10(folder, train=train)
    except RuntimeError:  # torchvision's error for a file that is missing or has another md5
        if not ARCHIVE.is_at(folder / CIFAR10.filename):
            return None
        unpack(folder)
        data = CIFAR10(folder, train=train)
    pixels = torch.from_numpy(data.data).permute(0, 3, 1, 2).contiguous()  # (N, 32, 32, 3) → (N, 3, 32, 32)
    return ImageSet(pixels, torch.tensor(data.targets), tuple(data.classes))


def unpack(folder: Path) -> None:
    """Unpack the files that torchvision lists, and put each in its place whole: another process may be reading it."""
    archive, target = folder / CIFAR10.filename, folder / CIFAR10.base_folder
    target.mkdir(exist_ok=True)
    with FileLock(f"{archive}.lock", timeout=600.0), tarfile.open(archive) as tar:
        delete_unfinished(target)
        for name in (*dict(CIFAR10.train_list + CIFAR10.test_list), CIFAR10.meta["filename"]):
            with replacing(target / name) as part:
                part.write_bytes(tar.extractfile(f"{target.name}/{name}").read())


def contents(folder: Path) -> str:
    found = " and ".join(name for name in (CIFAR10.base_folder, CIFAR10.filename) if (folder / name).exists())
    return f"{folder} ({f'{found}, but broken or not whole' if found else 'nothing'})"
