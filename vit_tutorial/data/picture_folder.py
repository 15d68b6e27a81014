"""A reader's own pictures: one folder for each class."""

from __future__ import annotations

import os
import reprlib
import unicodedata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from ..config import Size, to_pair
from ..errors import require_size
from .download import as_path
from .image_set import ImageSet, require_memory
from .photo import read_picture

SPLITS = {"train", "test", "val", "valid", "validation"}


def image_folder(root: str | Path, image_size: Size, read: Callable[..., Tensor] = read_picture) -> ImageSet:
    """Load the pictures in `root/<class>/…` (torchvision's `ImageFolder` layout), classes in alphabetical order.

    Each is resized and cropped around its centre to `image_size`, and transparent pixels become white, as in
    `load_photo`; or `read(path, size=image_size)` fits it in another way, and returns bytes, (3, H, W). Hidden files
    and folders, such as Jupyter's `.ipynb_checkpoints`, do not count; inside a class, links to folders are not
    followed.

    Raises FileNotFoundError for a folder, or a class, without pictures, ValueError for files that are no pictures and
    for more pixels than fit into memory; each says where.
    """
    return read_classes(list_classes(as_path("root", root)), image_size, read)


def train_and_test(
    root: str | Path, image_size: Size, read: Callable[..., Tensor] = read_picture
) -> tuple[ImageSet, ImageSet]:
    """Load `root/train` and `root/test`, each as `image_folder` does: the pictures that the command's --data names.

    Before any picture is read, raises FileNotFoundError if a folder is not there, and ValueError unless both hold the
    same classes, at least two.
    """
    require_folder(root := as_path("--data", root))
    if missing := [split for split in ("train", "test") if not (root / split).is_dir()]:
        raise FileNotFoundError(
            f"no folder {' or '.join(map(repr, missing))} in {root} (its folders: {shown(folders(root))}): "
            "--data must hold train and test (both, even with --validate), and each of them a folder for each class"
        )
    train, test = (list_classes(root / split) for split in ("train", "test"))
    if train.keys() != test.keys():
        alone = {"train": sorted(train.keys() - test.keys()), "test": sorted(test.keys() - train.keys())}
        only = [f"only {split} has {shown(names)}" for split, names in alone.items() if names]
        raise ValueError(f"{root / 'train'} and {root / 'test'} must hold the same classes: {', '.join(only)}")
    if len(train) == 1:
        raise ValueError(
            f"{root / 'train'} holds one class, {shown([*train])}, so there is nothing to tell apart: "
            "it needs a folder of pictures for each class, at least two"
        )
    return read_classes(train, image_size, read), read_classes(test, image_size, read)


def read_classes(classes: dict[str, list[Path]], image_size: Size, read: Callable[..., Tensor]) -> ImageSet:
    """Read the pictures of each class, in several threads."""
    require_size("image_size", image_size)
    labels = [label for label, paths in enumerate(classes.values()) for _ in paths]
    height, width = to_pair(image_size)
    require_memory(f"{len(labels):,} images of {height}×{width}", 6 * len(labels) * height * width)
    pixels = torch.empty(len(labels), 3, height, width, dtype=torch.uint8)
    with ThreadPoolExecutor() as pool:
        paths = [path for paths in classes.values() for path in paths]
        for i, picture in enumerate(pool.map(partial(read, size=image_size), paths)):
            pixels[i] = picture
    return ImageSet(pixels, torch.tensor(labels), tuple(classes))


def list_classes(root: Path) -> dict[str, list[Path]]:
    """Return the pictures of each class, classes and pictures in torchvision's order."""
    require_folder(root)
    names = folders(root)
    if not names:
        raise FileNotFoundError(f"no classes in {root}: it should hold one folder of pictures for each class")
    if set(names) <= SPLITS:
        raise ValueError(f"{root} holds {', '.join(names)}, not classes: choose one of these folders")
    from torchvision.datasets.folder import IMG_EXTENSIONS

    classes = {}
    for stored in names:
        # macOS may store "é" as two characters; its pictures are of the same class as those of another machine.
        name = unicodedata.normalize("NFC", stored)
        if name in classes:
            raise ValueError(f"two folders in {root} have the name {name!r}, written with different characters")
        found = []
        for place, inside, files in os.walk(root / stored):  # `make_dataset` of torchvision would follow links
            inside[:] = [child for child in inside if child[0] != "."]
            found += [(place, file) for file in files if file[0] != "." and file.lower().endswith(IMG_EXTENSIONS)]
        classes[name] = [Path(*each) for each in sorted(found)]
    if empty := ", ".join(repr(name) for name, paths in classes.items() if not paths):
        raise FileNotFoundError(f"no pictures in {root} for {empty}: files end in {', '.join(IMG_EXTENSIONS)}")
    return dict(sorted(classes.items()))


def require_folder(root: Path) -> None:
    if root.is_file():
        raise FileNotFoundError(f"{str(root)!r} is a file, not a folder")
    if not root.is_dir():
        raise FileNotFoundError(f"no folder {str(root)!r} (relative paths start at {Path.cwd()})")


def folders(root: Path) -> list[str]:
    """Return the names of the folders in `root`, except for hidden ones, in alphabetical order."""
    return sorted(path.name for path in root.iterdir() if path.is_dir() and path.name[0] != ".")


def shown(names: list[str]) -> str:
    """Return the first names as an error shows them."""
    return reprlib.repr(names)[1:-1] or "none"
