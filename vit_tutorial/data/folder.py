"""A reader's own pictures: one folder for each class."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor
from torchvision.datasets import ImageFolder
from torchvision.datasets.folder import IMG_EXTENSIONS

from ..config import Size
from ..validation import check_size
from .images import ImageSet
from .photo import read_picture
from .places import first_place

SPLITS = {"train", "test", "val", "valid", "validation"}


def image_folder(root: str | Path, image_size: Size | None = None, split: str | None = None) -> ImageSet:
    """The pictures in `root/<class>/…` (torchvision's `ImageFolder` layout), classes in alphabetical order.

    Each is resized, and its middle cropped, to `image_size`; None where all have one size already. Where
    `root` holds `train/` and `test/` folders of classes, `split` names one of them. Hidden files and folders do
    not count. A relative `root` is looked for in the folder that VIT_TUTORIAL_DATA names, then here.

    Raises FileNotFoundError for a folder, or a class, without pictures, ValueError for pictures of
    different sizes and for files that are no pictures; each says where.
    """
    if image_size is not None:
        check_size("image_size", image_size)
    folder = find_folder(Path(root).expanduser(), split)
    classes, samples = list_pictures(folder)
    paths, labels = zip(*samples, strict=True)
    return ImageSet(read_all(paths, image_size), torch.tensor(labels), classes)


def find_folder(root: Path, split: str | None) -> Path:
    """The folder of classes that is meant."""
    if (first := first_place()) and (first / root).is_dir():  # an absolute root stays itself
        root = first / root
    if not root.is_dir():
        also = f" and not in {first}" if first and not root.is_absolute() else ""
        raise FileNotFoundError(f"no folder {str(root)!r} (relative paths start at {Path.cwd()}){also}")
    inside = {path.name for path in root.iterdir() if path.is_dir() and not path.name.startswith(".")}
    if split is None and inside and inside <= SPLITS:
        raise ValueError(f"{root} holds {', '.join(sorted(inside))}, not classes: say which with split=")
    if split is not None and split not in inside:
        raise FileNotFoundError(f"no {split!r} in {root}: it holds {', '.join(sorted(inside)) or 'no folders'}")
    return root / (split or "")


class VisibleFolder(ImageFolder):
    """`ImageFolder` without hidden folders: Jupyter leaves `.ipynb_checkpoints` where it has been."""

    def find_classes(self, directory):
        classes = sorted(path.name for path in Path(directory).iterdir() if path.is_dir() and path.name[0] != ".")
        if not classes:
            raise FileNotFoundError(f"no classes in {directory}: it should hold one folder of pictures for each class")
        return classes, {name: label for label, name in enumerate(classes)}


def list_pictures(folder: Path) -> tuple[tuple[str, ...], list[tuple[str, int]]]:
    """Class names, and (path, label) of every picture, in torchvision's order."""

    def is_picture(path: str) -> bool:
        hidden = any(part.startswith(".") for part in Path(path).relative_to(folder).parts)
        return not hidden and path.lower().endswith(IMG_EXTENSIONS)

    listed = VisibleFolder(folder, is_valid_file=is_picture, allow_empty=True)
    filled = {label for _, label in listed.samples}
    if empty := [name for label, name in enumerate(listed.classes) if label not in filled]:
        raise FileNotFoundError(
            f"no pictures in {folder} for {', '.join(map(repr, empty))}: files end in {', '.join(IMG_EXTENSIONS)}"
        )
    return tuple(listed.classes), listed.samples


def read_all(paths: tuple[str, ...], image_size: Size | None) -> UInt8[Tensor, "N 3 H W"]:
    """Every picture, read by several threads at a time into one tensor."""
    first = read_one(paths[0], image_size)
    pixels = torch.empty(len(paths), *first.shape, dtype=torch.uint8)

    def read(index: int) -> None:
        picture = read_one(paths[index], image_size)
        if picture.shape != first.shape:
            sizes = [f"{name} is {p.shape[1]}×{p.shape[2]}" for name, p in ((paths[0], first), (paths[index], picture))]
            raise ValueError(f"pictures of different sizes need an image_size: {', '.join(sizes)}")
        pixels[index] = picture

    with ThreadPoolExecutor() as pool:
        list(pool.map(read, range(len(paths))))  # list, since only a result that is asked for raises its error
    return pixels


def read_one(path: str, image_size: Size | None) -> UInt8[Tensor, "3 H W"]:
    try:
        return read_picture(Path(path), image_size)
    except (OSError, Image.DecompressionBombError) as error:
        raise ValueError(f"no picture that can be read: {path} ({error})") from None
