"""Write and read the checkpoint from which an interrupted run goes on; let one process at a time into its folder."""

from __future__ import annotations

import csv
import json
import os
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from filelock import FileLock, Timeout
from torch import nn
from torch.optim import AdamW

from ..data import ImageSet
from ..data.download import delete_unfinished, replacing
from ..saving import read, write
from .distributed import rank_and_world
from .progress import Epoch, alarm
from .recipe import Recipe

CHECKPOINT, METRICS, LOCK = "checkpoint.safetensors", "metrics.csv", ".lock"
SHOWN = 6  # differences between two runs, in an error


@contextmanager
def locked(folder: str | Path | None) -> Iterator[None]:
    """Make a run's folder, keep other processes out of it inside the block, and delete files that were not finished.

    The lock ends with the process, however that ends. Of several processes the first holds it for all.
    Raises ValueError if another process holds it, OSError if nothing can be written there.
    """
    if folder is None or rank_and_world()[0] > 0:
        yield
        return
    Path(folder).mkdir(parents=True, exist_ok=True)
    try:
        lock = FileLock(Path(folder, LOCK), timeout=0).acquire()
    except Timeout:
        raise ValueError(f"another process is training in {folder}: wait for it, or choose another folder") from None
    with lock:
        delete_unfinished(Path(folder))
        yield


class Checkpoint:
    """Everything a run needs to go on, in one file of its folder.

    No random state is in it: what an epoch draws comes from the recipe's seed and the epoch's number.
    """

    def __init__(self, folder: str | Path, model: nn.Module, optimizer: AdamW, recipe: Recipe, images: ImageSet):
        self.path, self.model, self.optimizer = Path(folder, CHECKPOINT), model, optimizer
        self.run = describe_run(recipe, images, model)

    def save(self, history: list[Epoch]) -> None:
        """Write weights, AdamW's moments and the epochs so far, atomically, and the epochs as a table.

        Raises OSError if the checkpoint cannot be written; the one before stays.
        """
        if rank_and_world()[0] == 0:
            tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
            for index, moments in self.optimizer.state_dict()["state"].items():
                tensors |= {f"optimizer.{index}.{name}": tensor for name, tensor in moments.items()}
            write(self.path, tensors, {"run": self.run, "history": history})
            write_table(self.path.with_name(METRICS), history)

    def load(self) -> list[Epoch]:
        """Load the checkpoint, if there is one, into model and optimizer; return its epochs.

        Raises ValueError, before a weight is changed, if the file is damaged or belongs to another run.
        """
        if not os.path.lexists(self.path):
            return []
        try:
            tensors, about = read(self.path, digest_needed=True)
            require_same_run(self.path, about.get("run", {}), self.run)
            moments = defaultdict(dict)
            trained = [weight for group in self.optimizer.param_groups for weight in group["params"]]
            for name in [name for name in tensors if name.startswith("optimizer.")]:
                _, index, moment = name.split(".")
                moments[int(index)][moment] = tensors.pop(name)
                if moment != "step" and moments[int(index)][moment].shape != trained[int(index)].shape:
                    raise ValueError(f"{name} has another shape than its weight")  # fused AdamW would write beyond it
        except (ValueError, OSError) as error:
            raise ValueError(f"{error}. Use another folder, or delete {self.path} to begin anew.") from None
        self.model.load_state_dict({name.removeprefix("model."): tensor for name, tensor in tensors.items()})
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": moments})
        history = [Epoch(*row) for row in about["history"]]
        if rank_and_world()[0] == 0:
            write_table(self.path.with_name(METRICS), history)
        return history


def require_same_run(path: Path, there: Mapping, here: Mapping) -> None:
    if differing := [name for name in {**here, **there} if there.get(name) != here.get(name)]:
        shown = [f"{name} {there.get(name)!r} there, {here.get(name)!r} here" for name in differing[:SHOWN]]
        more = f", and {len(differing) - SHOWN} more" if len(differing) > SHOWN else ""
        raise ValueError(f"{path} belongs to another run: {', '.join(shown)}{more}")


def write_table(path: Path, history: list[Epoch]) -> None:
    """Write the epochs as CSV; warn if that fails, since the checkpoint has them too."""
    try:
        with replacing(path) as part, part.open("w", newline="", encoding="utf-8") as file:
            csv.writer(file, lineterminator="\n").writerows([Epoch._fields, *history])
    except OSError as error:  # on Windows, a spreadsheet that shows it
        alarm(f"{error}. The run goes on; the next epoch, or the same run again, writes it.", UserWarning)


def describe_run(recipe: Recipe, images: ImageSet, model: nn.Module) -> dict:
    """Return what must stay the same for a run to go on, by name, as JSON gives it back."""
    pixels, labels = (tensor.contiguous().cpu().numpy() for tensor in (images.pixels, images.labels))
    card = getattr(model, "card", None)
    mean_std = (card.mean, card.std) if card else images.mean_std()
    facts = {
        "images": len(images),
        "classes": images.classes,
        "checksum of pixels and labels": zlib.crc32(labels, zlib.crc32(pixels)),
        "mean and std of the pixels": [[round(value, 6) for value in values] for values in mean_std],
        "frozen": [name for name, weight in model.named_parameters() if not weight.requires_grad],
    }
    config = asdict(model.config) if hasattr(model, "config") else {}
    weights = {f"model.{name}": f"{tensor.dtype} {tuple(tensor.shape)}" for name, tensor in model.state_dict().items()}
    return json.loads(json.dumps({**asdict(recipe), **facts, **config, **weights}))
