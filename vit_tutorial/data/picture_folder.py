"""A reader's own pictures: one folder for each class."""

from __future__ import annotations

import reprlib
import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from ..config import Size, to_pair
from ..errors import require_size
from ..files import as_path
from .image_set import ImageSet, require_memory
from .photo import FORMATS, read_picture

SPLITS = {"train", "test", "val", "valid", "validation"}


def image_folder(root: str | Path, image_size: Size, read: Callable[..., Tensor] = read_picture) -> ImageSet:
    """Load the pictures in `root/<class>/…` (torchvision's `ImageFolder` layout), classes in alphabetical order.

    Each is resized and cropped around its centre to `image_size`, and transparent pixels become white, as in
    `load_photo`; or `read(path, size=(height, width))` fits it in another way, and returns bytes, (3, H, W). Hidden
    files and folders, such as Jupyter's `.ipynb_checkpoints`, do not count.

    Warns of files that are no pictures by their names, with their number. Raises FileNotFoundError for a folder, or a
    class, without pictures, ValueError for a picture that cannot be read and for more pixels than fit into memory.
    """
    return read_classes(list_classes(as_path("root", root)), image_size, read)


def train_and_test(
    root: str | Path, image_size: Size, read: Callable[..., Tensor] = read_picture
) -> tuple[ImageSet, ImageSet]:
    """Load `root/train` and `root/test`, each as `image_folder` does: the pictures that the command's --data names.

    Before any picture is read, raises FileNotFoundError if a folder is not there, and ValueError unless both hold the
    same classes, at least two.
    """
    root = as_path("--data", root)
    found = list_folders(root)
    if missing := [split for split in ("train", "test") if split not in found]:
        raise FileNotFoundError(
            f"no folder {' or '.join(map(repr, missing))} in {root} (its folders: {quoted(found)}): "
            "--data must hold train and test (both, even with --validate), and each of them a folder for each class"
        )
    train, test = (list_classes(root / split) for split in ("train", "test"))
    if train.keys() != test.keys():
        alone = {"train": sorted(train.keys() - test.keys()), "test": sorted(test.keys() - train.keys())}
        only = ", ".join(f"only {split} has {quoted(names)}" for split, names in alone.items() if names)
        raise ValueError(f"{root / 'train'} and {root / 'test'} must hold the same classes: {only}")
    if len(train) == 1:
        raise ValueError(
            f"{root / 'train'} holds one class, {quoted(train)}: to tell apart, there must be at least two"
        )
    return read_classes(train, image_size, read), read_classes(test, image_size, read)


def list_classes(root: Path) -> dict[str, list[Path]]:
    """Return the pictures of each class, classes and pictures in torchvision's order."""
    names = list_folders(root)
    if not names:
        raise FileNotFoundError(f"no classes in {root}: it should hold one folder of pictures for each class")
    if set(names) <= SPLITS:
        raise ValueError(f"{root} holds {', '.join(names)}, not classes: choose one of these folders")
    endings = {ending for ending, kind in Image.registered_extensions().items() if kind in FORMATS}
    classes, others = {}, Counter()
    for name in names:
        folder = root / name
        visible = [path for path in folder.rglob("*") if path.is_file() and not hidden(path.relative_to(folder))]
        pictures = [path for path in visible if path.suffix.lower() in endings]
        if not pictures:
            raise FileNotFoundError(f"no pictures in {folder}: their names end in {', '.join(sorted(endings))}")
        classes[name] = sorted(pictures, key=lambda path: (str(path.parent), path.name))
        others.update(path.suffix.lower() for path in set(visible).difference(pictures))
    if others:
        counts = ", ".join(f"{count} {ending or 'without an ending'}" for ending, count in sorted(others.items()))
        warnings.warn(f"left out of {root}, because their names do not end as a picture's: {counts}", stacklevel=3)
    return classes


def read_classes(classes: dict[str, list[Path]], image_size: Size, read: Callable[..., Tensor]) -> ImageSet:
    """Read the pictures of each class, in several threads."""
    height, width = to_pair(require_size("image_size", image_size))
    paths = [path for pictures in classes.values() for path in pictures]
    labels = [label for label, pictures in enumerate(classes.values()) for _ in pictures]
    require_memory(f"{len(paths):,} images of {height}×{width}", 6 * len(paths) * height * width)
    with ThreadPoolExecutor() as pool:
        pixels = torch.stack(list(pool.map(partial(read, size=(height, width)), paths)))
    return ImageSet(pixels, torch.tensor(labels), tuple(classes))


def list_folders(root: Path) -> list[str]:
    """Return the names of the folders in `root`, except for hidden ones, in alphabetical order."""
    if not root.is_dir():
        raise FileNotFoundError(f"no folder {str(root)!r} (relative paths start at {Path.cwd()})")
    return sorted(path.name for path in root.iterdir() if path.is_dir() and not hidden(path.relative_to(root)))


def quoted(names: Iterable[str]) -> str:
    """Return the first names as an error shows them."""
    return reprlib.repr(list(names))[1:-1] or "none"


def hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
