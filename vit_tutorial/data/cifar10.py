"""CIFAR-10: 60,000 photographs of 32×32 pixels in ten classes (Krizhevsky 2009)."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import torch
from torchvision.datasets import CIFAR10
from torchvision.datasets.utils import extract_archive

from .download import fetch, md5_of
from .images import ImageSet
from .places import LAST, first_place


def cifar10(root: str | Path | None = None, train: bool = True, download: bool = False) -> ImageSet:
    """The 50,000 training or 10,000 test images, read by torchvision, which checks every file's md5.

    Looked for in the folder that VIT_TUTORIAL_DATA names, in `root`, then in `~/.cache/vit_tutorial`: either
    the folder `cifar-10-batches-py`, or the archive `cifar-10-python.tar.gz`, which is then unpacked beside
    itself. With `download=True` an archive that is nowhere is fetched (170 MB) into `root`, or else into the first of
    the other two that is named.

    Raises FileNotFoundError where there is none, ConnectionError where it could not be fetched; each says
    what to do. A download that ends early leaves nothing behind.
    """
    named = [first_place(), Path(root).expanduser() if root is not None else None]
    folders = [folder for folder in named if folder] + [LAST.expanduser()]
    for folder in folders:
        if is_whole(folder):
            return read(folder, train)
    if not download:
        raise FileNotFoundError(
            f"no CIFAR-10 here: {'; '.join(f'{folder} ({what_is_in(folder)})' for folder in folders)}. "
            f"`cifar10(download=True)` fetches it (170 MB); {by_hand(folders[0])} "
            "Without it, `Shapes(20_000)` needs no download."
        )
    target = Path(root).expanduser() if root is not None else folders[0]
    try:
        fetch(CIFAR10.url, target / CIFAR10.filename, CIFAR10.tgz_md5)
    except OSError as error:
        raise ConnectionError(
            f"CIFAR-10 could not be fetched: {error}. Try again later, or {by_hand(target)}"
        ) from None
    return read(target, train)


def is_whole(folder: Path) -> bool:
    """Whether all batches are there, or an archive to unpack, each with the right md5."""
    return is_unpacked(folder) or md5_of(folder / CIFAR10.filename) == CIFAR10.tgz_md5


def is_unpacked(folder: Path) -> bool:
    batches = [*CIFAR10.train_list, *CIFAR10.test_list, [CIFAR10.meta["filename"], CIFAR10.meta["md5"]]]
    return all(md5_of(folder / CIFAR10.base_folder / name) == md5 for name, md5 in batches)


def read(folder: Path, train: bool) -> ImageSet:
    """torchvision's arrays as an `ImageSet`, after unpacking the archive if that is all there is."""
    if not is_unpacked(folder):
        unpack(folder)
    data = CIFAR10(folder, train=train)
    pixels = torch.from_numpy(data.data).permute(0, 3, 1, 2).contiguous()  # (N, 32, 32, 3) → (N, 3, 32, 32)
    return ImageSet(pixels, torch.tensor(data.targets), tuple(data.classes))


def unpack(folder: Path) -> None:
    """File by file, each put in its place whole: another process may be reading them, or doing the same."""
    target = folder / CIFAR10.base_folder
    target.mkdir(exist_ok=True)
    with TemporaryDirectory(dir=folder, prefix="unpacking-") as part:
        extract_archive(str(folder / CIFAR10.filename), part)
        for path in Path(part, CIFAR10.base_folder).iterdir():
            path.replace(target / path.name)


def what_is_in(folder: Path) -> str:
    found = [name for name in (CIFAR10.base_folder, CIFAR10.filename) if (folder / name).exists()]
    return f"{' and '.join(found)}, but broken or not whole" if found else "nothing"


def by_hand(folder: Path) -> str:
    return f"fetch {CIFAR10.url} by hand (md5 {CIFAR10.tgz_md5}) and put it in {folder}."
