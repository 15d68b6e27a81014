"""A reader's own pictures: one folder for each class."""

from __future__ import annotations

import math
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
from .download import as_path, data_folder
from .image_set import ImageSet, require_memory
from .photo import read_picture

SPLITS = {"train", "test", "val", "valid", "validation"}


def image_folder(root: str | Path, image_size: Size | None = None, split: str | None = None) -> ImageSet:
    """Load the pictures in `root/<class>/…` (torchvision's `ImageFolder` layout), classes in alphabetical order.

    Each is resized and cropped around its centre to `image_size`; without one, all must have the same size.
    Transparent pixels become white. If `root` holds `train/` and `test/` folders of classes, `split` names one of
    them. Hidden files and folders do not count; inside a class, links to folders are not followed. A relative `root`
    is looked for in the folder that VIT_TUTORIAL_DATA names, then here.

    Raises FileNotFoundError for a folder, or a class, without pictures, ValueError for pictures of
    different sizes, for files that are no pictures and for more pixels than fit into memory; each says where.
    """
    if image_size is not None:
        require_size("image_size", image_size)
    classes = list_classes(find_folder(as_path("root", root), split))
    labels = [label for label, paths in enumerate(classes.values()) for _ in paths]
    pixels = read_pictures([path for paths in classes.values() for path in paths], image_size)
    return ImageSet(pixels, torch.tensor(labels), tuple(classes))


def find_folder(root: Path, split: str | None) -> Path:
    if (first := data_folder()) and (first / root).is_dir():  # an absolute root stays itself
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
    """Return names in alphabetical order, without hidden folders such as Jupyter's `.ipynb_checkpoints`."""
    return sorted(path.name for path in folder.iterdir() if path.is_dir() and path.name[0] != ".")


def list_classes(folder: Path) -> dict[str, list[Path]]:
    """Return the pictures of each class, classes and pictures in torchvision's order."""
    classes = {}
    for stored in folders_in(folder):
        # macOS may store "é" as two characters; its pictures are of the same class as those of another machine.
        name = unicodedata.normalize("NFC", stored)
        if name in classes:
            raise ValueError(f"two folders in {folder} have the name {name!r}, written with different characters")
        found = []
        for place, inside, files in os.walk(folder / stored):  # `make_dataset` of torchvision would follow links
            inside[:] = [child for child in inside if child[0] != "."]
            found += [(place, file) for file in files if file[0] != "." and file.lower().endswith(IMG_EXTENSIONS)]
        classes[name] = [Path(*each) for each in sorted(found)]
    if not classes:
        raise FileNotFoundError(f"no classes in {folder}: it should hold one folder of pictures for each class")
    if empty := ", ".join(repr(name) for name, paths in classes.items() if not paths):
        raise FileNotFoundError(f"no pictures in {folder} for {empty}: files end in {', '.join(IMG_EXTENSIONS)}")
    return dict(sorted(classes.items()))


def read_pictures(paths: list[Path], image_size: Size | None) -> UInt8[Tensor, "N 3 H W"]:
    """Read the pictures, several at a time, into one tensor."""
    size = tuple(read_picture(paths[0], None).shape[1:]) if image_size is None else to_pair(image_size)
    require_memory(f"{len(paths):,} images of {size[0]}×{size[1]}", 6 * len(paths) * math.prod(size))
    pixels = torch.empty(len(paths), 3, *size, dtype=torch.uint8)

    def read(index: int) -> None:
        picture = read_picture(paths[index], image_size)
        if (other := tuple(picture.shape[1:])) != size:
            raise ValueError(
                f"pictures of different sizes need an image_size: {paths[0]} is {size[0]}×{size[1]}, "
                f"{paths[index]} is {other[0]}×{other[1]}"
            )
        pixels[index] = picture

    with ThreadPoolExecutor() as pool:
        list(pool.map(read, range(len(paths))))  # list, since only a result that is asked for raises its error
    return pixels
