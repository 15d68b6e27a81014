"""A reader's own pictures: one folder for each class."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from ..config import Size
from ..errors import require_size
from ..files import as_path
from .image_set import ImageSet
from .photo import FORMATS, read_picture


def image_folder(root: str | Path, image_size: Size, read: Callable[..., Tensor] = read_picture) -> ImageSet:
    """Load the pictures in `root/<class>/…` (torchvision's `ImageFolder` layout), classes in alphabetical order.

    Each is resized and cropped around its centre to `image_size`, and transparent pixels become white, as in
    `load_photo`; or `read(path, size=image_size)` fits it in another way, and returns bytes, (3, H, W). Hidden
    files and folders, such as Jupyter's `.ipynb_checkpoints`, do not count.

    Warns of files that are no pictures by their names, with their number. Raises FileNotFoundError for a folder, or a
    class, without pictures, ValueError for a picture that cannot be read.
    """
    image_size = require_size("image_size", image_size)
    classes = list_classes(as_path("root", root))
    paths = [path for pictures in classes.values() for path in pictures]
    labels = [label for label, pictures in enumerate(classes.values()) for _ in pictures]
    with ThreadPoolExecutor() as pool:
        pixels = torch.stack(list(pool.map(partial(read, size=image_size), paths)))
    return ImageSet(pixels, torch.tensor(labels), tuple(classes))


def train_and_test(
    root: str | Path, image_size: Size, read: Callable[..., Tensor] = read_picture
) -> tuple[ImageSet, ImageSet]:
    """Load `root/train` and `root/test`, each as `image_folder` does: the pictures that the command's --data names.

    Raises FileNotFoundError if a folder is not there, and ValueError unless both hold the same classes, at least two.
    """
    folders = [as_path("--data", root) / split for split in ("train", "test")]
    for folder in folders:
        if not folder.is_dir():
            raise FileNotFoundError(
                f"no folder {str(folder)!r}: --data must hold train and test (both, even with --validate), and each of "
                f"them a folder for each class (relative paths start at {Path.cwd()})"
            )
    train, test = (image_folder(folder, image_size, read) for folder in folders)
    if train.classes != test.classes or len(train.classes) < 2:
        raise ValueError(
            "train and test must hold the same classes, at least two: "
            f"{folders[0]} has {train.classes!r:.200}, {folders[1]} has {test.classes!r:.200}"
        )
    return train, test


def list_classes(root: Path) -> dict[str, list[Path]]:
    """Return the pictures of each class, classes and pictures in torchvision's order."""
    if not root.is_dir():
        raise FileNotFoundError(f"no folder {str(root)!r} (relative paths start at {Path.cwd()})")
    names = sorted(path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not names:
        raise FileNotFoundError(f"no classes in {root}: it should hold one folder of pictures for each class")
    if set(names) <= {"train", "test", "val", "valid", "validation"}:
        raise ValueError(f"{root} holds {', '.join(names)}, not classes: choose one of these folders")
    endings = {ending for ending, kind in Image.registered_extensions().items() if kind in FORMATS}
    classes, others = {}, Counter()
    for name in names:
        files = [path for path in (root / name).rglob("*") if path.is_file() and not hidden(path.relative_to(root))]
        pictures = [path for path in files if path.suffix.lower() in endings]
        if not pictures:
            raise FileNotFoundError(f"no pictures in {root / name}: their names end in {', '.join(sorted(endings))}")
        classes[name] = sorted(pictures, key=lambda path: (str(path.parent), path.name))
        others.update(path.suffix.lower() for path in set(files).difference(pictures))
    if others:
        counts = ", ".join(f"{count} {ending or 'without an ending'}" for ending, count in sorted(others.items()))
        warnings.warn(f"left out of {root}, because their names do not end as a picture's: {counts}", stacklevel=3)
    return classes


def hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)
