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

from ..config import ViTConfig
from ..data import ImageSet
from ..files import write_atomically
from ..model_card import ModelCard
from ..saving import read_tensors, unwrapped, write_tensors
from .progress import Epoch
from .recipe import Recipe

CHECKPOINT, METRICS = "checkpoint.safetensors", "metrics.csv"
# {model: {checkpoint: norm of the model's weights when that run began}}, for as long as the model is there. If a cell
# with `fit` is stopped and run again, the model no longer has its first weights, and the run is still the same.
first_norms: WeakKeyDictionary[nn.Module, dict[Path, str]] = WeakKeyDictionary()


def save_run(folder: Path, run: dict, model: nn.Module, optimizer: Optimizer, history: list[Epoch]) -> None:
    """Replace the table of the epochs, and then the checkpoint: the weights, AdamW's moments and the epochs."""
    rows = [",".join(map(str, row)) + "\n" for row in (Epoch._fields, *history)]
    write_atomically(folder / METRICS, "".join(rows).encode())
    tensors = {f"model.{name}": tensor for name, tensor in model.state_dict().items()}
    for name, weight in model.named_parameters():
        tensors |= {f"{moment}.{name}": tensor for moment, tensor in optimizer.state.get(weight, {}).items()}
    write_tensors(folder / CHECKPOINT, tensors, {"run": run, "history": history})


def load_run(folder: Path, run: dict, model: nn.Module, optimizer: Optimizer) -> list[Epoch]:
    """Load the checkpoint, if there is one, into model and optimizer; return its epochs. Make the folder if it is new.

    Raises ValueError, before a weight is changed, if the folder belongs to another run.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / CHECKPOINT
    if not path.exists():
        return []
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


def describe_run(folder: Path, recipe: Recipe, model: nn.Module, card: ModelCard, images: ImageSet) -> dict:
    """Return what must stay the same for the run in this folder to go on, by name, as JSON gives it back."""
    inner = unwrapped(model)
    config = getattr(inner, "config", None)  # of another library it may be anything
    # Other images have another checksum, be they pictures (bytes) or what a frozen body makes of them (floats).
    pixels, labels = (tensor.contiguous().cpu().numpy() for tensor in (images.pixels, images.labels))
    facts = {
        **asdict(recipe),
        **(asdict(config) if isinstance(config, ViTConfig) else {"network": str(inner)}),
        "frozen": [name for name, weight in model.named_parameters() if not weight.requires_grad],
        "norm of the first weights": first_norm(model, folder.resolve() / CHECKPOINT),
        "images": f"{len(images)} with checksum {zlib.crc32(labels, zlib.crc32(pixels)):08x}",
        "classes": images.classes,
        "mean and std of the pixels": [round(value, 6) for value in (*card.mean, *card.std)],
    }
    return json.loads(json.dumps(facts, default=str))


def first_norm(model: nn.Module, path: Path) -> str:
    """Return the norm of the model's weights when it began the run of this checkpoint, which may be now."""
    norms = first_norms.setdefault(model, {})
    if path not in norms or not path.exists():
        norm = nn.utils.get_total_norm([weight.detach().cpu().double() for weight in model.parameters()])
        norms[path] = f"{norm.item():.8g}"  # eight digits: another seed's weights have another one
    return norms[path]
