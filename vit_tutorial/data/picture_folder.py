"""A reader's own pictures: one folder for each class."""

import warnings
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from ..config import Size
from ..errors import require_size
from ..files import as_path
from .image_set import ImageSet
from .photo import FORMATS, crop_to, open_picture

PARTS = {"train", "test", "val", "valid", "validation"}  # names that no class has


def image_folder(root: str | Path, image_size: Size, resize: Callable[..., Tensor] = crop_to) -> ImageSet:
    """Load the pictures in `root/<class>/…` (torchvision's `ImageFolder` layout), classes in alphabetical order.

    Each is resized and cropped as in `load_photo`, or by `resize(picture, size=image_size)`, which returns bytes,
    (3, H, W). Hidden files and folders, such as Jupyter's `.ipynb_checkpoints`, do not count.

    Warns of files that are no pictures by their names. Raises FileNotFoundError for a folder, or a class, without
    pictures, ValueError for a picture that cannot be read, and for folders of folders.
    """
    image_size = require_size("image_size", image_size)
    classes = list_classes(as_path("root", root))
    labels, paths = zip(*((i, path) for i, pictures in enumerate(classes.values()) for path in pictures), strict=True)
    with ThreadPoolExecutor() as pool:
        pixels = torch.stack(list(pool.map(lambda path: resize(open_picture(path), size=image_size), paths)))
    return ImageSet(pixels, torch.tensor(labels), tuple(classes))


def train_and_test(root: Path, image_size: Size, resize: Callable[..., Tensor] = crop_to) -> tuple[ImageSet, ImageSet]:
    """Load the pictures in `root/train` and `root/test`, as `image_folder` does.

    Raises FileNotFoundError if a folder is not there, and ValueError unless both parts hold the same classes.
    """
    if not (root / "train").is_dir() or not (root / "test").is_dir():
        raise FileNotFoundError(
            f"no folders train and test in {str(root)!r} (relative paths start at {Path.cwd()}). If it holds a folder "
            "for each class, --split 0.2 takes a fifth of each for the test"
        )
    train, test = (image_folder(root / part, image_size, resize) for part in ("train", "test"))
    if train.classes != test.classes:
        names = f"{train.classes!r:.200} and {test.classes!r:.200}"
        raise ValueError(f"train and test in {root} must hold the same classes, got {names}")
    return train, test


def list_classes(root: Path) -> dict[str, list[Path]]:
    """Return the pictures of each class, classes and pictures in torchvision's order."""
    if not root.is_dir():
        raise FileNotFoundError(f"no folder {str(root)!r} (relative paths start at {Path.cwd()})")
    names = [path.name for path in visible(root, "*") if path.is_dir()]
    if not names:
        raise FileNotFoundError(f"no classes in {root}: it should hold one folder of pictures for each class")
    endings = {ending for ending, kind in Image.registered_extensions().items() if kind in FORMATS}
    classes, left_out = {}, Counter()
    for name in names:
        files = [path for path in visible(root / name, "**/*") if path.is_file()]
        classes[name] = [path for path in files if path.suffix.lower() in endings]
        left_out.update(path.suffix.lower() or "without an ending" for path in {*files} - {*classes[name]})
        if not classes[name]:
            raise FileNotFoundError(f"no pictures in {root / name}: their names end in {', '.join(sorted(endings))}")
    require_classes(root, classes)
    if left_out:
        counts = ", ".join(f"{count} {kind}" for kind, count in sorted(left_out.items()))
        warnings.warn(f"left out of {root}, as no pictures by their names: {counts}", stacklevel=3)
    return classes


def visible(folder: Path, pattern: str) -> list[Path]:
    """Return what the pattern finds in the folder, sorted, without hidden files and what lies in hidden folders."""
    found = [path for path in folder.glob(pattern) if "." not in {part[0] for part in path.relative_to(folder).parts}]
    return sorted(found, key=lambda path: (str(path.parent), path.name))


def require_classes(root: Path, classes: dict[str, list[Path]]) -> None:
    """Raise ValueError if these folders are no classes: one level too high, or the parts of a split data set."""
    below = [path.relative_to(root).parts[1:] for pictures in classes.values() for path in pictures]
    if all(len(parts) > 1 for parts in below) or {name.lower() for name in classes} <= PARTS:
        inside = ", ".join(sorted({parts[0] for parts in below}))
        raise ValueError(
            f"{root} holds {', '.join(classes)}, and in them {inside:.200}: is it one level too high, or split into "
            f"parts? Then choose one of these folders, such as {root / min(classes)}. If they are classes, put the "
            "pictures into them, without folders"
        )
