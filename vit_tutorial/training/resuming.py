"""What a run needs to go on where it stopped, in one file that is always whole; and the folder's lock."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import warnings
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryFile

import torch
from filelock import FileLock, Timeout
from torch import Tensor, nn

from ..data import ImageSet
from ..saving import check_numbers, read, remove_unfinished, write, write_bytes
from .alarms import alarm
from .distributed import rank_and_world
from .progress import Epoch
from .recipe import Recipe

CHECKPOINT, METRICS, LOCK = "checkpoint.safetensors", "metrics.csv", ".lock"
MOST_TOLD = 6  # differences between two runs, in an error


@contextmanager
def hold(folder: str | Path | None) -> Iterator[None]:
    """Keep a run's folder to this process inside the block; make it, and clear what a killed run left unfinished.

    The lock goes with the process, however that ends; of several processes the first holds it for all. Raises
    ValueError if another process has it, OSError if nothing can be written there.
    """
    if folder is None or rank_and_world()[0] > 0:
        yield
        return
    if not str(folder):
        raise ValueError("folder is '', which names none: None trains without one, '.' is the current one")
    folder = Path(os.path.realpath(folder))  # Path.resolve would raise its own error for links in a circle
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryFile(dir=folder):
        pass  # it can be written to, which an epoch later would be late to find out
    try:
        held = FileLock(folder / LOCK, timeout=0, is_singleton=True).acquire()
    except Timeout:
        raise ValueError(f"another process is training in {folder}: wait for it, or choose another folder") from None
    with held:
        remove_unfinished(folder)
        yield


def save_checkpoint(
    folder: str | Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    recipe: Recipe,
    images: ImageSet,
    history: list[Epoch],
) -> None:
    """Write weights, AdamW's moments and the epochs so far as one file, and the epochs as a table in CSV.

    Each is written whole or not at all. No random state is kept: what an epoch draws comes from the
    recipe's seed and the epoch's number. Raises OSError if the checkpoint cannot be written; the one before stays.
    """
    moments = optimizer.state_dict()["state"]
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for index, of_weight in moments.items():
        tensors |= {f"optimizer.{index}.{name}": tensor for name, tensor in of_weight.items()}
    about = {
        "run": describe_run(recipe, images, model),
        "history": history,
        "steps": {index: int(of_weight["step"]) for index, of_weight in moments.items()},
        **computed_by(),
    }
    write(Path(folder, CHECKPOINT), tensors, about)
    write_table(folder, history)


def write_table(folder: str | Path, history: list[Epoch]) -> None:
    """Write the epochs as CSV. Warn if that is not possible: the checkpoint has the same numbers, for the next time."""
    path, text = Path(folder, METRICS), io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([Epoch._fields, *history])
    table = text.getvalue().encode()
    try:
        if not path.is_file() or path.read_bytes() != table:
            write_bytes(path, table)
    except OSError as error:  # a spreadsheet on Windows keeps it to itself
        warnings.warn(f"{error}. The run goes on; the next epoch, or the same run again, writes it.", stacklevel=4)


def resume(
    folder: str | Path, model: nn.Module, optimizer: torch.optim.Optimizer, recipe: Recipe, images: ImageSet
) -> list[Epoch]:
    """Put the folder's checkpoint, if there is one, into model and optimizer; return the epochs that it has behind it.

    Raises ValueError if the checkpoint is damaged or belongs to another run, and has changed nothing then. Warns if it
    was made with another number of threads or processes: sums are rounded in another order then, and each process
    draws dropout and mixing for itself.
    """
    path = Path(folder, CHECKPOINT)
    if not os.path.lexists(path):
        return []
    here = describe_run(recipe, images, model)
    try:
        tensors, about = read(path, digest_needed=True)
        differing = differences(about.get("run", {}), here)
        if not differing:
            history = check_whole(tensors, about, model, optimizer, recipe, recipe.steps_per_epoch(len(images)))
    except Exception as error:  # a changed file can fail anywhere
        raise ValueError(f"{error}. Delete {path} or move it away to begin anew.") from None
    if differing:
        raise ValueError(f"{path} belongs to another run: {differing}. Go on as it began, or in another folder.")
    if {name: about[name] for name in computed_by()} != computed_by():
        then, now = (f"{c['processes']} process(es) of {c['threads']} thread(s)" for c in (about, computed_by()))
        alarm(
            f"{path} was made by {then}, this run has {now}: the weights may differ from those of one without "
            f"interruption. With torch.set_num_threads({about['threads']}), and as many processes, they are the same.",
            calls=4,
        )
    moments: dict[int, dict] = {}
    for name, tensor in tensors.items():
        if name.startswith("optimizer."):
            _, index, moment = name.split(".")
            moments.setdefault(int(index), {})[moment] = tensor
    model.load_state_dict({n.removeprefix("model."): t for n, t in tensors.items() if n.startswith("model.")})
    optimizer.load_state_dict({"state": moments, "param_groups": optimizer.state_dict()["param_groups"]})
    if rank_and_world()[0] == 0:
        write_table(folder, history)
    return history


def check_whole(
    tensors: Mapping[str, Tensor],
    about: Mapping,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    recipe: Recipe,
    steps_per_epoch: int,
) -> list[Epoch]:
    """Return the epochs of a checkpoint that has all that this model and optimizer need, and nothing else.

    Raises an error otherwise: fused AdamW trusts the shapes of its moments, and writes wherever they say.
    """
    if missing := [name for name in ("history", "steps", *computed_by()) if name not in about]:
        raise ValueError(f"the checkpoint does not say its {', '.join(missing)}")
    history = [Epoch(*row) for row in about["history"]]
    validated = [value for epoch in history for value in epoch[4:] if value is not None]
    numbers = [*validated, *(value for epoch in history for value in epoch[:4]), *(about[n] for n in computed_by())]
    if not all(type(number) in (int, float) and math.isfinite(number) for number in numbers):
        raise ValueError("the checkpoint's history, threads or processes are no numbers")
    done = [epoch.number for epoch in history]
    if done != [*range(1, len(done) + 1)] or not 0 < len(done) <= recipe.epochs:
        raise ValueError(f"the checkpoint's epochs are {done!s:.60}, in place of 1 to {recipe.epochs} at most")

    weights, steps = [weight for group in optimizer.param_groups for weight in group["params"]], about["steps"]
    expected = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for index, weight in enumerate(weights):
        if str(index) in steps:  # a weight that no loss depends on has none
            moments = {"step": torch.empty((), dtype=torch.float32), "exp_avg": weight, "exp_avg_sq": weight}
            expected |= {f"optimizer.{index}.{name}": moment for name, moment in moments.items()}
    there, here = ({n: f"{t.dtype} {tuple(t.shape)}" for n, t in some.items()} for some in (tensors, expected))
    if differing := differences(there, here):
        raise ValueError(f"the checkpoint's tensors are not those of this run: {differing}")
    trained = {f"model.{name}" for name, _ in model.named_parameters()}
    check_numbers({n: tensor for n, tensor in tensors.items() if n in trained or n.startswith("optimizer.")})
    taken = {index: tensors[f"optimizer.{index}.step"].item() for index in steps}
    if taken != steps or max(taken.values(), default=0) != len(history) * steps_per_epoch or min(taken.values()) < 1:
        raise ValueError(
            f"the checkpoint's moments are of {set(taken.values())} steps, in place of {len(history)} epochs of "
            f"{steps_per_epoch}"
        )
    return history


def differences(there: Mapping, here: Mapping) -> str:
    """Say what differs, name by name; "" if nothing does."""
    differing = [name for name in {**here, **there} if there.get(name) != here.get(name)]
    told = [f"{name} {there.get(name)!r} there, {here.get(name)!r} here" for name in differing[:MOST_TOLD]]
    return ", ".join(told + [f"and {len(differing) - MOST_TOLD} more"] * (len(differing) > MOST_TOLD))


def computed_by() -> dict[str, int]:
    """What the last bits of a sum depend on, besides the numbers."""
    return {"threads": torch.get_num_threads(), "processes": rank_and_world()[1]}


def describe_run(recipe: Recipe, images: ImageSet, model: nn.Module) -> dict:
    """What must be the same for a run to go on, name by name; of the model its configuration and its weights."""
    bytes_of = [tensor.contiguous().numpy() for tensor in (images.pixels.cpu(), images.labels.cpu())]
    card = getattr(model, "card", None)
    scale = (card.mean, card.std) if card else images.mean_std()
    seen = {
        "images": len(images),
        "classes": images.classes,
        "checksum of pixels and labels": zlib.crc32(bytes_of[1], zlib.crc32(bytes_of[0])),
        "mean and std of the pixels": [[round(value, 6) for value in values] for values in scale],
    }
    config = asdict(model.config) if hasattr(model, "config") else {}
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    weights = {
        name: f"{tuple(tensor.shape)}{'' if name in trained else ' not trained'}"
        for name, tensor in model.state_dict().items()
    }
    return json.loads(json.dumps({**asdict(recipe), **seen, **config, **weights}))  # as it is read back
