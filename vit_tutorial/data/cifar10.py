"""CIFAR-10: 60,000 photographs of 32×32 pixels in ten classes (Krizhevsky 2009)."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import torch
from torchvision.datasets import CIFAR10

from .download import LAST, Source, as_path, fetch, first_place, locked, replacing
from .image_set import ImageSet

SIZE = 170_498_071  # bytes of the archive


def cifar10(root: str | Path | None = None, train: bool = True, download: bool = False) -> ImageSet:
    """The 50,000 training or 10,000 test images, read by torchvision, which checks every file's md5.

    Looked for in the folder that VIT_TUTORIAL_DATA names, in `root`, then in `~/.cache/vit_tutorial`: either
    the folder `cifar-10-batches-py`, or the archive `cifar-10-python.tar.gz`, which is then unpacked beside
    itself. With `download=True` an archive that is nowhere is fetched (170 MB) into `root`, or else into the first of
    the other two that is named.

    Raises FileNotFoundError where there is none, ConnectionError where it could not be fetched; each says
    what to do. A download that ends early leaves no part of it behind.
    """
    root = None if root is None else as_path("root", root)
    folders = [folder for folder in (first_place(), root, as_path("root", LAST)) if folder]
    for folder in folders:
        if images := read(folder, train) or read_archive(folder, train):
            return images
    if not download:
        raise FileNotFoundError(
            f"no CIFAR-10 here: {'; '.join(f'{folder} ({what_is_in(folder)})' for folder in folders)}. "
            f"`cifar10(download=True)` fetches it (170 MB); {by_hand(folders[0])} "
            "Without it, `Shapes(20_000)` needs no download."
        )
    target = root or folders[0]
    try:
        fetch(published(), target / CIFAR10.filename)
    except OSError as error:
        raise ConnectionError(
            f"CIFAR-10 could not be fetched: {error}. Try again later, or {by_hand(target)}"
        ) from None
    unpack(target)
    return read(target, train)


def published() -> Source:
    return Source(CIFAR10.url, "md5", CIFAR10.tgz_md5, SIZE)


def read(folder: Path, train: bool) -> ImageSet | None:
    """torchvision's arrays as an `ImageSet`; None unless every file is there with the right md5."""
    try:
        data = CIFAR10(folder, train=train)
    except RuntimeError:  # how torchvision says so
        return None
    pixels = torch.from_numpy(data.data).permute(0, 3, 1, 2).contiguous()  # (N, 32, 32, 3) → (N, 3, 32, 32)
    return ImageSet(pixels, torch.tensor(data.targets), tuple(data.classes))


def read_archive(folder: Path, train: bool) -> ImageSet | None:
    if not published().is_at(folder / CIFAR10.filename):
        return None
    unpack(folder)
    return read(folder, train)


def unpack(folder: Path) -> None:
    """File by file, each put in its place whole: another process may be reading them.

    Only the contents are read from the archive. The names are torchvision's, so nothing is written anywhere else.
    """
    path, target = folder / CIFAR10.filename, folder / CIFAR10.base_folder
    names = [name for name, _ in (*CIFAR10.train_list, *CIFAR10.test_list)] + [CIFAR10.meta["filename"]]
    target.mkdir(exist_ok=True)
    with locked(path, seconds=600.0), tarfile.open(path) as archive:
        for name in names:
            content = archive.extractfile(f"{CIFAR10.base_folder}/{name}")
            with replacing(target / name) as part, content, part.open("xb") as file:
                shutil.copyfileobj(content, file)


def what_is_in(folder: Path) -> str:
    found = [name for name in (CIFAR10.base_folder, CIFAR10.filename) if (folder / name).exists()]
    return f"{' and '.join(found)}, but broken or not whole" if found else "nothing"


def by_hand(folder: Path) -> str:
    return f"fetch {CIFAR10.url} by hand (md5 {CIFAR10.tgz_md5}) and put it in {folder}."
