"""Let an interrupted run go on: all that it needs is in one file, which is replaced after every epoch."""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict
from pathlib import Path

from torch import nn
from torch.optim import Optimizer

from ..data import ImageSet
from ..files import as_path, write_atomically
from ..model_card import STARTED_FROM, ModelCard
from ..saving import read, write
from .progress import Epoch
from .recipe import Recipe

CHECKPOINT, METRICS = "checkpoint.safetensors", "metrics.csv"


class Checkpoint:
    """Keep a run in a folder: its weights, AdamW's moments and its epochs.

    No random state is kept: what an epoch draws comes from the recipe's seed and the epoch's number.
    """

    def __init__(self, folder: str | Path, run: dict, model: nn.Module, optimizer: Optimizer):
        self.folder, self.run, self.model, self.optimizer = as_path("folder", folder), run, model, optimizer
        self.folder.mkdir(parents=True, exist_ok=True)

    def save(self, history: list[Epoch]) -> None:
        """Replace the table of the epochs, and then the checkpoint. Raises OSError if that fails; the old one stays."""
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        for name, weight in self.model.named_parameters():
            tensors |= {f"{moment}.{name}": tensor for moment, tensor in self.optimizer.state.get(weight, {}).items()}
        write_table(self.folder / METRICS, history)
        write(self.folder / CHECKPOINT, tensors, {"run": self.run, "history": history})

    def load(self) -> list[Epoch]:
        """Load the checkpoint, if there is one, into model and optimizer; return its epochs.

        Raises ValueError, before a weight is changed, if the folder belongs to another run.
        """
        path, weights = self.folder / CHECKPOINT, {}
        if not path.exists():
            return []
        tensors, about = read(path)
        require_same_run(path, about.get("run", {}), self.run)
        for key, tensor in tensors.items():
            kind, name = key.split(".", 1)
            if kind == "model":
                weights[name] = tensor
            else:
                weight = self.model.get_parameter(name)
                self.optimizer.state[weight][kind] = tensor.to(weight.device)
        self.model.load_state_dict(weights)
        return [Epoch(*row) for row in about["history"]]


def describe_run(
    recipe: Recipe, model: nn.Module, card: ModelCard, images: ImageSet, validation: ImageSet | None
) -> dict[str, object]:
    """Return what must stay the same for a run to go on, by name, as JSON gives it back."""
    trained = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    facts = {
        **asdict(recipe),
        **(asdict(model.config) if hasattr(model, "config") else {}),
        "weights": f"{trained:,} of {sum(weight.numel() for weight in model.parameters()):,} trained",
        "images": describe_images(images),
        "validation": validation and describe_images(validation),
        "classes": images.classes,
        "mean and std of the pixels": [round(value, 6) for value in (*card.mean, *card.std)],
        STARTED_FROM: card.about.get(STARTED_FROM),
    }
    return json.loads(json.dumps(facts, default=str))


def describe_images(images: ImageSet) -> str:
    pixels, labels = (tensor.contiguous().cpu().numpy() for tensor in (images.pixels, images.labels))
    return f"{len(images)} with checksum {zlib.crc32(labels, zlib.crc32(pixels)):08x}"


def require_same_run(path: Path, there: dict, here: dict) -> None:
    names = [name for name in {**here, **there} if there.get(name) != here.get(name)]
    if names:
        differing = ", ".join(f"{name} {there.get(name)!r:.80} there, {here.get(name)!r:.80} here" for name in names)
        raise ValueError(f"{path} is of another run: {differing}. Use another folder, or delete it to begin anew.")


def write_table(path: Path, history: list[Epoch]) -> None:
    """Write the epochs as CSV, with an empty place for what was not measured."""
    rows = [["" if value is None else str(value) for value in row] for row in (Epoch._fields, *history)]
    write_atomically(path, "".join(",".join(row) + "\n" for row in rows).encode())
