"""Write and read the checkpoint from which an interrupted run goes on; let one process at a time into its folder."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import torch
from filelock import FileLock, Timeout
from torch import Tensor, nn
from torch.optim import AdamW

from ..data import ImageSet
from ..files import write_atomically
from ..model_card import STARTED_FROM
from ..saving import read, require_finite_tensors, write
from .distributed import rank_and_world
from .progress import Epoch, alarm
from .recipe import Recipe

CHECKPOINT, METRICS, LOCK = "checkpoint.safetensors", "metrics.csv", ".lock"
ORIGIN = "checksum of what the card says of the first weights"
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
    if not str(folder):
        raise ValueError("folder is '', which names none: None trains without one, '.' is the current one")
    Path(folder).mkdir(parents=True, exist_ok=True)
    try:
        lock = FileLock(Path(folder, LOCK), timeout=0).acquire()
    except Timeout:
        raise ValueError(f"another process is training in {folder}: wait for it, or choose another folder") from None
    with lock:
        yield


class Checkpoint:
    """Everything a run needs to go on, in one file of its folder.

    No random state is in it: what an epoch draws comes from the recipe's seed and the epoch's number.
    """

    def __init__(self, folder: str | Path, model: nn.Module, optimizer: AdamW, recipe: Recipe, images: ImageSet):
        self.path, self.model, self.optimizer, self.epochs = Path(folder, CHECKPOINT), model, optimizer, recipe.epochs
        self.steps_per_epoch = recipe.steps_per_epoch(len(images))
        self.run = describe_run(recipe, images, model)
        self.computed_by = {"threads": torch.get_num_threads(), "processes": rank_and_world()[1]}

    def save(self, history: list[Epoch]) -> None:
        """Write weights, AdamW's moments and the epochs so far, atomically, and the epochs as a table.

        Raises OSError if the checkpoint cannot be written; the one before stays.
        """
        if rank_and_world()[0] == 0:
            write(self.path, self.tensors(), {"run": self.run, "history": history, **self.computed_by})
            write_table(self.path.with_name(METRICS), history)

    def load(self) -> list[Epoch]:
        """Load the checkpoint, if there is one, into model and optimizer; return its epochs.

        Raises ValueError, before a weight is changed, if the file is damaged or belongs to another run. Warns if it
        was made with another number of threads or processes: sums are then rounded in another order, and each
        process draws its own dropout and mixing.
        """
        if not os.path.lexists(self.path):
            return []
        state, now = self.tensors(), self.computed_by
        try:
            tensors, about = read(self.path)
            # Runs of older versions: their GELU was exact, and nobody wrote down where they started.
            older = {"gelu": "exact" if "gelu" in self.run else None, ORIGIN: self.run[ORIGIN]}
            require_same_run(self.path, {**older, **about["run"], **kinds(tensors)}, {**self.run, **kinds(state)})
            buffers = {f"model.{name}" for name, _ in self.model.named_buffers()}
            require_finite_tensors({name: tensor for name, tensor in tensors.items() if name not in buffers})
            steps = max(tensor.item() for name, tensor in tensors.items() if name.endswith("/step"))
            history = [Epoch(*row) for row in about["history"]]
            if not 0 < len(history) <= self.epochs or steps != len(history) * self.steps_per_epoch:
                asked = f"this run has {self.epochs} epochs of {self.steps_per_epoch} steps"
                raise ValueError(f"the checkpoint has {len(history)} epochs and {steps:.0f} steps, {asked}")
            if not math.isfinite(sum(sum(epoch[:4]) for epoch in history)):
                raise ValueError("the checkpoint's history holds values that are not finite")
            then = {name: about[name] for name in now}
        except Exception as error:  # a forged file can fail anywhere
            raise ValueError(f"{error}. Use another folder, or delete {self.path} to begin anew.") from None
        if then != now:
            made, has = (f"{by['processes']} process(es) of {by['threads']} thread(s)" for by in (then, now))
            alarm(
                f"{self.path} was made by {made}, this run has {has}: its weights may differ from those without an "
                f"interruption. With torch.set_num_threads({then['threads']}), and as many processes, they do not."
            )
        with torch.no_grad():
            for name, tensor in state.items():
                tensor.copy_(tensors[name])
        if rank_and_world()[0] == 0:
            write_table(self.path.with_name(METRICS), history)
        return history

    def tensors(self) -> dict[str, Tensor]:
        """Return what training changes, by name: weights, buffers, and AdamW's moments for each weight.

        A weight that no loss depends on, or before the first step, gets the moments that AdamW begins with.
        """
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        for name, weight in self.model.named_parameters():
            if weight.requires_grad:
                moments = self.optimizer.state[weight]
                if not moments:
                    moments["step"] = torch.zeros((), dtype=torch.float32, device=weight.device)
                    moments |= {"exp_avg": torch.zeros_like(weight), "exp_avg_sq": torch.zeros_like(weight)}
                tensors |= {f"optimizer.{name}/{moment}": tensor for moment, tensor in moments.items()}
        return {name: tensor.detach() for name, tensor in tensors.items()}


def require_same_run(path: Path, there: Mapping, here: Mapping) -> None:
    if differing := [name for name in {**here, **there} if there.get(name) != here.get(name)]:
        shown = [f"{name} {there.get(name)!r} there, {here.get(name)!r} here" for name in differing[:SHOWN]]
        more = f", and {len(differing) - SHOWN} more" if len(differing) > SHOWN else ""
        raise ValueError(f"{path} belongs to another run: {', '.join(shown)}{more}")


def write_table(path: Path, history: list[Epoch]) -> None:
    """Write the epochs as CSV; warn if that fails, since the checkpoint has them too."""
    try:
        csv.writer(table := io.StringIO(), lineterminator="\n").writerows([Epoch._fields, *history])
        write_atomically(path, table.getvalue().encode())
    except OSError as error:  # on Windows, a spreadsheet that shows it
        alarm(f"{error}. The run goes on; the next epoch, or the same run again, writes it.", UserWarning)


def kinds(tensors: Mapping[str, Tensor]) -> dict[str, str]:
    """Return dtypes and shapes. Fused AdamW trusts those of its moments, and writes wherever they say."""
    return {name: f"{tensor.dtype} {tuple(tensor.shape)}" for name, tensor in tensors.items()}


def describe_run(recipe: Recipe, images: ImageSet, model: nn.Module) -> dict:
    """Return what must stay the same for a run to go on, by name, as JSON gives it back."""
    pixels, labels = (tensor.contiguous().cpu().numpy() for tensor in (images.pixels, images.labels))
    card = getattr(model, "card", None)
    mean_std = (card.mean, card.std) if card else images.mean_std()
    origin = card and card.passed_on(card.classes).about.get(STARTED_FROM)
    facts = {
        "images": len(images),
        "classes": images.classes,
        "checksum of pixels and labels": zlib.crc32(labels, zlib.crc32(pixels)),
        "mean and std of the pixels": [[round(value, 6) for value in values] for values in mean_std],
        ORIGIN: zlib.crc32(json.dumps(origin, default=str).encode()),
        "frozen": [name for name, weight in model.named_parameters() if not weight.requires_grad],
    }
    config = asdict(model.config) if hasattr(model, "config") else {}
    return json.loads(json.dumps({**asdict(recipe), **facts, **config}))
