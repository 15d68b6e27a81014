"""CIFAR-10: 60,000 photographs of 32×32 pixels in ten classes (Krizhevsky 2009)."""

import tarfile
from pathlib import Path

import torch

from ..files import as_path
from .download import fetch
from .image_set import ImageSet

URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"  # bytes; torchvision reads the pickled version
SHA256 = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"
CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")


def cifar10(root: str | Path | None = None, train: bool = True, download: bool = False) -> ImageSet:
    """Load the 50,000 training or 10,000 test images out of the authors' archive, `cifar-10-binary.tar.gz`.

    It is in the folder `root`, or in `~/.cache/vit_tutorial`; `download=True` fetches it (170 MB).
    Raises FileNotFoundError if it is not there, ConnectionError if it could not be fetched.
    """
    archive = as_path("root", root or "~/.cache/vit_tutorial") / Path(URL).name
    fetch(URL, archive, SHA256, 170, download)
    names = [f"data_batch_{i}.bin" for i in range(1, 6)] if train else ["test_batch.bin"]
    with tarfile.open(archive) as tar:  # read, not unpacked
        content = b"".join(tar.extractfile(f"cifar-10-batches-bin/{name}").read() for name in names)
    rows = torch.frombuffer(bytearray(content), dtype=torch.uint8).view(-1, 1 + 3 * 32 * 32)  # a label, then red, …
    return ImageSet(rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0].long(), CLASSES)
