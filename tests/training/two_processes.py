"""What each of two processes does that train together: it writes down what it saw.

They are started with the environment that `torchrun` gives its processes.
"""

import json
import os
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

from vit_tutorial import train
from vit_tutorial.model_card import ModelCard
from vit_tutorial.training.distributed import distribute, process_group, seed_process
from vit_tutorial.training.loop import train_epoch
from vit_tutorial.training.progress import Reporter

from .toys import SMALL, bright_or_dark, float64, short, small_vit

COMMAND = f"{SMALL} --scenes 61 --epochs 1 --batch-size 16 --crop 2 --flip --randaugment --label-smoothing 0.1"


def one_step() -> dict[str, torch.Tensor]:
    """The gradients, in float64, of one step with all 7 images: 4 for one process and 3 for the other."""
    images, recipe = bright_or_dark(7), short(batch_size=7, epochs=1, label_smoothing=0.1, crop=2, clip_norm=1e9)
    with float64():
        model = ready(small_vit())
        optimizer = torch.optim.SGD([{"params": model.parameters(), "lr_scale": 1}], lr=0.0)
        train_epoch(distribute(model), model.card, optimizer, images, recipe, 0, Reporter((), recipe, images, 0))
    return {name: parameter.grad for name, parameter in model.named_parameters()}


def command(out: Path) -> int:
    """The command, in float64: Adam makes a whole step of a gradient that is nothing but float32's rounding."""
    with float64():
        return train.main([*COMMAND.split(), "--out", str(out)])


def ready(model: nn.Module) -> nn.Module:
    """With a head that is no longer zero (through which no gradient comes), and a card."""
    nn.init.normal_(model.head.weight, std=0.1, generator=torch.Generator().manual_seed(0))
    model.card = ModelCard(("dark", "bright"), (0.5, 0.5, 0.5), (0.2, 0.2, 0.2))
    return model.train()


def main(folder: Path, rank: int, ports: list[int]) -> int:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(ports[0])}
    with process_group("cpu"):
        save_file(one_step(), folder / f"gradients-{rank}.safetensors")
        seed_process(0)
        seen = {"drawn": torch.rand(3).tolist(), "written": []}
    os.environ["MASTER_PORT"] = str(ports[1])  # at the first, this one could meet a store that the other is closing
    put = os.replace
    os.replace = lambda part, path: seen["written"].append(Path(path).name) or put(part, path)
    status = command(folder / "run")
    (folder / f"seen-{rank}.json").write_text(json.dumps(seen), encoding="utf-8")
    return status
