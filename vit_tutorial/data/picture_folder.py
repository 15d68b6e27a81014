"""A reader's own pictures: one folder for each class."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from ..config import Size
from ..errors import require_rate, require_size
from ..files import as_path
from .image_set import ImageSet
from .photo import FORMATS, crop_to, open_picture


def image_folder(root: str | Path, image_size: Size, fit: Callable[..., Tensor] = crop_to) -> ImageSet:
    """Load the pictures in `root/<class>/…` (torchvision's `ImageFolder` layout), classes in alphabetical order.

    Each is resized and cropped around its centre to `image_size`, and transparent pixels become white, as in
    `load_photo`; or `fit(picture, size=image_size)` fits it in another way, and returns bytes, (3, H, W). Hidden
    files and folders, such as Jupyter's `.ipynb_checkpoints`, do not count.

    Warns of files that are no pictures by their names, and of links that lead nowhere, with their number. Raises
    FileNotFoundError for a folder, or a class, without pictures, ValueError for a picture that cannot be read, and for
    a folder of folders of classes: one that is a level too high, or split into parts for training and test.
    """
    image_size = require_size("image_size", image_size)
    classes = list_classes(as_path("root", root))
    paths = [path for pictures in classes.values() for path in pictures]
    labels = [label for label, pictures in enumerate(classes.values()) for _ in pictures]
    with ThreadPoolExecutor() as pool:
        pixels = torch.stack(list(pool.map(lambda path: fit(open_picture(path), size=image_size), paths)))
    return ImageSet(pixels, torch.tensor(labels), tuple(classes))


def train_and_test(
    root: str | Path, image_size: Size, share: float | None = None, fit: Callable[..., Tensor] = crop_to
) -> tuple[ImageSet, ImageSet]:
    """Load the pictures that the command's --data names, for training and for the test.

    They are in `root/train` and `root/test`, each as `image_folder` takes it. With a `share`, `root` is one such
    folder, and that share of each class, the same pictures each time, is held out for the test.

    Raises FileNotFoundError if a folder is not there, and ValueError unless both parts hold the same classes.
    """
    root = as_path("--data", root)
    if share is not None:
        return split_by_class(image_folder(root, image_size, fit), share)
    folders = [root / part for part in ("train", "test")]
    for folder in folders:
        if not folder.is_dir():
            raise FileNotFoundError(
                f"no folder {str(folder)!r}: --data must hold train and test (both, even with --validate), and each of "
                "them a folder for each class; or it holds the folders of the classes, and --split 0.2 takes a fifth "
                f"of each for the test (relative paths start at {Path.cwd()})"
            )
    train, test = (image_folder(folder, image_size, fit) for folder in folders)
    if train.classes != test.classes:
        raise ValueError(
            "train and test must hold the same classes: "
            f"{folders[0]} has {train.classes!r:.200}, {folders[1]} has {test.classes!r:.200}"
        )
    return train, test


def split_by_class(images: ImageSet, share: float) -> tuple[ImageSet, ImageSet]:
    """Hold out this share of each class, at random, at least one image and not all; return (rest, held out)."""
    if not require_rate("share", share):
        raise ValueError("share must be above 0")
    order = torch.rand(len(images), generator=torch.Generator().manual_seed(0)).argsort(stable=True)
    held_out = torch.zeros(len(images), dtype=torch.bool)
    for label, name in enumerate(images.classes):
        mine = order[images.labels[order] == label]
        if len(mine) < 2:
            raise ValueError(f"the class {name!r} has {len(mine)} image: a split needs two, one for each part")
        held_out[mine[: min(max(1, round(share * len(mine))), len(mine) - 1)]] = True
    return images.subset(~held_out), images.subset(held_out)


def list_classes(root: Path) -> dict[str, list[Path]]:
    """Return the pictures of each class, classes and pictures in torchvision's order."""
    if not root.is_dir():
        raise FileNotFoundError(f"no folder {str(root)!r} (relative paths start at {Path.cwd()})")
    names = sorted(path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not names:
        raise FileNotFoundError(f"no classes in {root}: it should hold one folder of pictures for each class")
    endings = {ending for ending, kind in Image.registered_extensions().items() if kind in FORMATS}
    classes, others = {name: [] for name in names}, Counter()
    for name, pictures in classes.items():
        for path in sorted((root / name).rglob("*"), key=lambda path: (str(path.parent), path.name)):
            if path.is_dir() or any(part.startswith(".") for part in path.relative_to(root).parts):
                continue
            if path.exists() and path.suffix.lower() in endings:
                pictures.append(path)
            else:
                others[(path.suffix.lower() or "without an ending") if path.exists() else "broken"] += 1
        if not pictures:
            raise FileNotFoundError(f"no pictures in {root / name}: their names end in {', '.join(sorted(endings))}")
    require_classes(root, classes)
    if others:
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(others.items()))
        warnings.warn(f"left out of {root}, as no pictures by their names, or broken links: {counts}", stacklevel=3)
    return classes


def require_classes(root: Path, classes: dict[str, list[Path]]) -> None:
    """Raise ValueError if these folders are no classes: one level too high, or the parts of a split data set."""
    inside = {path.relative_to(root / name).parts for name, pictures in classes.items() for path in pictures}
    own = any(len(parts) == 1 for parts in inside)
    if own and not {name.lower() for name in classes} <= {"train", "test", "val", "valid", "validation"}:
        return
    found = "pictures" if own else f"folders of pictures ({', '.join(sorted({parts[0] for parts in inside})):.200})"
    raise ValueError(
        f"{root} holds {', '.join(classes)}, and in them {found}: is it one level too high, or split into parts? Then "
        f"choose one of these folders, such as {root / min(classes)}. If they are classes, put the pictures into them, "
        "without folders"
    )
