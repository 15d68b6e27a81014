"""Let an interrupted run go on: all that it needs is in one file, which is replaced after every epoch.

No random state is kept: what an epoch draws comes from the recipe's seed and the epoch's number.
"""

import json
import zlib
from dataclasses import asdict
from pathlib import Path
from weakref import WeakKeyDictionary

from torch import nn
from torch.optim import Optimizer

from ..data import ImageSet
from ..files import as_path, write_atomically
from ..model_card import ModelCard
from ..saving import read_tensors, unwrapped, write_tensors
from .progress import Epoch
from .recipe import Recipe

CHECKPOINT, METRICS, FIRST_NORM = "checkpoint.safetensors", "metrics.csv", "norm of the first weights"
# A run is recognised by the norm of its first weights. After an interruption in the same process these are gone, so
# they are remembered here: {model: {file: norm}}.
first_norms: WeakKeyDictionary[nn.Module, dict[Path, str]] = WeakKeyDictionary()


def save_run(folder: str | Path, run: dict, model: nn.Module, optimizer: Optimizer, history: list[Epoch]) -> None:
    """Replace the table of the epochs, and then the checkpoint: the weights, AdamW's moments and the epochs."""
    folder = as_path("folder", folder)
    rows = [",".join(map(str, row)) + "\n" for row in (Epoch._fields, *history)]
    write_atomically(folder / METRICS, "".join(rows).encode())
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for name, weight in model.named_parameters():
        tensors |= {f"{moment}.{name}": tensor for moment, tensor in optimizer.state.get(weight, {}).items()}
    write_tensors(folder / CHECKPOINT, tensors, {"run": run, "history": history})


def load_run(folder: str | Path, run: dict, model: nn.Module, optimizer: Optimizer) -> list[Epoch]:
    """Load the checkpoint, if there is one, into model and optimizer; return its epochs. Make the folder if it is new.

    Raises ValueError, before a weight is changed, if the folder belongs to another run.
    """
    folder = as_path("folder", folder)
    folder.mkdir(parents=True, exist_ok=True)
    begun, path = first_norms.setdefault(model, {}), folder.resolve() / CHECKPOINT
    if not path.exists():
        begun[path] = run[FIRST_NORM]
        return []
    run[FIRST_NORM] = begun.setdefault(path, run[FIRST_NORM])
    tensors, about = read_tensors(path)
    there = about.get("run", {})
    if names := [name for name in run if there.get(name) != run[name]]:
        differing = ", ".join(f"{name} {there.get(name)!r:.80} there, {run[name]!r:.80} here" for name in names)
        raise ValueError(f"{path} is of another run: {differing}. Use another folder, or delete it to begin anew.")
    model.load_state_dict({name: tensors.pop(f"model.{name}") for name in model.state_dict()})
    for key, tensor in tensors.items():
        moment, name = key.split(".", 1)
        weight = model.get_parameter(name)
        optimizer.state[weight][moment] = tensor.to(weight.device)
    return [Epoch(*row) for row in about["history"]]


def describe_run(recipe: Recipe, model: nn.Module, card: ModelCard, images: ImageSet) -> dict[str, object]:
    """Return what must stay the same for a run to go on, by name, as JSON gives it back."""
    inner, weights = unwrapped(model), dict(model.named_parameters())
    norm = nn.utils.get_total_norm([weight.detach().cpu().double() for weight in weights.values()])
    pixels, labels = (tensor.contiguous().cpu().numpy() for tensor in (images.pixels, images.labels))
    facts = {
        **asdict(recipe),
        **(asdict(inner.config) if hasattr(inner, "config") else {"network": str(inner)}),
        "frozen": [name for name, weight in weights.items() if not weight.requires_grad],
        FIRST_NORM: f"{norm.item():.8g}",  # eight digits: another seed's weights have another one
        "images": f"{len(images)} with checksum {zlib.crc32(labels, zlib.crc32(pixels)):08x}",
        "classes": images.classes,
        "mean and std of the pixels": [round(value, 6) for value in (*card.mean, *card.std)],
    }
    return json.loads(json.dumps(facts, default=str))
