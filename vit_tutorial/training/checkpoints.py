"""What a run needs to go on where it stopped, in one file that is always whole."""

from __future__ import annotations

import csv
import io
import json
import zlib
from dataclasses import asdict
from pathlib import Path

import torch
from torch import nn

from ..data import ImageSet
from ..weights import read, write, write_bytes
from .alarms import alarm
from .distributed import rank_and_world
from .progress import Epoch
from .recipe import Recipe

CHECKPOINT, METRICS = "checkpoint.safetensors", "metrics.csv"
MOST_TOLD = 6  # differences between two runs, in an error


def save_checkpoint(
    folder: str | Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    recipe: Recipe,
    images: ImageSet,
    history: list[Epoch],
) -> None:
    """Weights, the optimizer's moments and the epochs so far, as one file, and the epochs as a table in CSV.

    Each is written whole or not at all. No random state is kept: what an epoch draws comes from the
    recipe's seed and the epoch's number. Raises OSError if it cannot be written; what was there stays.
    """
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for index, moments in optimizer.state_dict()["state"].items():
        tensors |= {f"optimizer.{index}.{name}": tensor for name, tensor in moments.items()}
    run = describe_run(recipe, images, model)
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows([Epoch._fields, *history])
    # The table first: stopped between the two, the epoch is done again, and the table with it.
    write_bytes(Path(folder, METRICS), table.getvalue().encode())
    write(Path(folder, CHECKPOINT), tensors, {"run": run, "history": history, **computed_by()})


def resume(
    folder: str | Path, model: nn.Module, optimizer: torch.optim.Optimizer, recipe: Recipe, images: ImageSet
) -> list[Epoch]:
    """Put the folder's checkpoint, if there is one, into model and optimizer; the epochs that it has behind it.

    Raises ValueError if the checkpoint belongs to another run, and has changed nothing then. Warns if it was
    made with another number of threads or processes: sums are rounded in another order then, and each process
    draws dropout and mixing for itself.
    """
    path = Path(folder, CHECKPOINT)
    if not path.is_file():
        return []
    tensors, about = read(path)
    there, here = about.get("run", {}), describe_run(recipe, images, model)
    differing = [name for name in {**here, **there} if there.get(name) != here.get(name)]
    if differing:
        told = [f"{name} {there.get(name)!r} there, {here.get(name)!r} here" for name in differing[:MOST_TOLD]]
        told += [f"and {len(differing) - MOST_TOLD} more"] * (len(differing) > MOST_TOLD)
        raise ValueError(f"{path} belongs to another run: {', '.join(told)}. Go on as it began, or in another folder.")
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
    return [Epoch(*row) for row in about["history"]]


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
