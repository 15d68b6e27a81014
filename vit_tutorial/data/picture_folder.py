"""A reader's own pictures: one folder for each class."""

from __future__ import annotations

import os
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from jaxtyping import UInt8
from torch import Tensor
from torchvision.datasets.folder import IMG_EXTENSIONS

from ..config import Size, to_pair
from ..errors import require_size
from .download import as_path, first_place
from .image_set import ImageSet, check_memory
from .photo import read_picture

SPLITS = {"train", "test", "val", "valid", "validation"}


def image_folder(root: str | Path, image_size: Size | None = None, split: str | None = None) -> ImageSet:
    """The pictures in `root/<class>/…` (torchvision's `ImageFolder` layout), classes in alphabetical order.

    Each is resized, and its middle cropped, to `image_size`; None where all have one size already. What is transparent
    becomes white. Where `root` holds `train/` and `test/` folders of classes, `split` names one of them. Hidden files
    and folders do not count; inside a class, links to folders are not followed. A relative `root` is looked for in the
    folder that VIT_TUTORIAL_DATA names, then here.

    Raises FileNotFoundError for a folder, or a class, without pictures, ValueError for pictures of
    different sizes, for files that are no pictures and for more pixels than fit into memory; each says where.
    """
    if image_size is not None:
        require_size("image_size", image_size)
    folder = find_folder(as_path("root", root), split)
    classes, paths, labels = list_pictures(folder)
    return ImageSet(read_all(paths, image_size), torch.tensor(labels), classes)


def find_folder(root: Path, split: str | None) -> Path:
    """The folder of classes that is meant."""
    if (first := first_place()) and (first / root).is_dir():  # an absolute root stays itself
        root = first / root
    if not root.is_dir():
        also = f" and not in {first}" if first and not root.is_absolute() else ""
        raise FileNotFoundError(f"no folder {str(root)!r} (relative paths start at {Path.cwd()}){also}")
    inside = folders_in(root)
    if split is None and inside and set(inside) <= SPLITS:
        raise ValueError(f"{root} holds {', '.join(inside)}, not classes: say which with split=")
    if split is not None and split not in inside:
        raise FileNotFoundError(f"no {split!r} in {root}: it holds {', '.join(inside) or 'no folders'}")
    return root / (split or "")


def folders_in(folder: Path) -> list[str]:
    """Names in alphabetical order. Hidden ones do not count: Jupyter leaves `.ipynb_checkpoints` where it has been."""
    return sorted(path.name for path in folder.iterdir() if path.is_dir() and path.name[0] != ".")


def list_pictures(folder: Path) -> tuple[tuple[str, ...], list[Path], list[int]]:
    """Class names, then path and label of every picture, in torchvision's order."""
    # macOS may store "é" as two characters; its pictures are of the same class as those of another machine.
    classes = sorted((unicodedata.normalize("NFC", name), name) for name in folders_in(folder))
    names = tuple(name for name, _ in classes)
    if not names:
        raise FileNotFoundError(f"no classes in {folder}: it should hold one folder of pictures for each class")
    if len(set(names)) < len(names):
        raise ValueError(f"two folders in {folder} have the same name, written with different characters: {names}")
    pictures = [pictures_in(folder / stored) for _, stored in classes]
    if empty := [name for name, found in zip(names, pictures, strict=True) if not found]:
        raise FileNotFoundError(
            f"no pictures in {folder} for {', '.join(map(repr, empty))}: files end in {', '.join(IMG_EXTENSIONS)}"
        )
    labels = [label for label, found in enumerate(pictures) for _ in found]
    return names, [path for found in pictures for path in found], labels


def pictures_in(folder: Path) -> list[Path]:
    """The pictures of a class, at any depth. A link to a folder is not followed: it may lead into another class."""
    found = []
    for place, inside, files in os.walk(folder):
        inside[:] = [name for name in inside if name[0] != "."]
        found += [(place, name) for name in files if name[0] != "." and name.lower().endswith(IMG_EXTENSIONS)]
    return [Path(*each) for each in sorted(found)]


def read_all(paths: list[Path], image_size: Size | None) -> UInt8[Tensor, "N 3 H W"]:
    """Every picture, read by several threads at a time into one tensor."""
    if image_size is not None:
        check_memory(len(paths), *to_pair(image_size))
    first = read_picture(paths[0], image_size)
    check_memory(len(paths), *first.shape[1:])
    pixels = torch.empty(len(paths), *first.shape, dtype=torch.uint8)

    def read(index: int) -> None:
        picture = read_picture(paths[index], image_size)
        if picture.shape != first.shape:
            sizes = [f"{name} is {p.shape[1]}×{p.shape[2]}" for name, p in ((paths[0], first), (paths[index], picture))]
            raise ValueError(f"pictures of different sizes need an image_size: {', '.join(sizes)}")
        pixels[index] = picture

    with ThreadPoolExecutor() as pool:
        list(pool.map(read, range(len(paths))))  # list, since only a result that is asked for raises its error
    return pixels
