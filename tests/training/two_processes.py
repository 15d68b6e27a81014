"""What `torchrun` starts twice: two processes train together, and each writes down what it saw.

python -m torch.distributed.run --nproc-per-node=2 --standalone tests/training/two_processes.py FOLDER
"""

import json
import sys
import warnings
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1]))

from training.toys import bright_or_dark, float64, short, small_vit
from vit_tutorial import train, weights
from vit_tutorial.card import Card
from vit_tutorial.training import evaluate
from vit_tutorial.training.alarms import alarm
from vit_tutorial.training.distributed import distribute, rank_and_world, start_processes
from vit_tutorial.training.loop import train_epoch
from vit_tutorial.training.progress import Epoch, Reporter

COMMAND = (
    "--scenes 61 --image-size 16 --patch-size 8 --embed-dim 8 --depth 2 --num-heads 2 --mlp-dim 16 --device cpu "
    "--epochs 1 --batch-size 16 --crop 2 --flip --label-smoothing 0.1"
)


def one_step() -> tuple[dict[str, torch.Tensor], Epoch]:
    """The gradients, in float64, of one step with all 7 images: 4 for one process and 3 for the other."""
    images, recipe = bright_or_dark(7), short(batch_size=7, epochs=1, label_smoothing=0.1, crop=2, clip_norm=1e9)
    with float64():
        model = ready(small_vit())
        optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
        reporter = Reporter((), recipe, len(images), images.classes)
        epoch = train_epoch(distribute(model), model.card, optimizer, images, recipe, 0, reporter)
    return {name: parameter.grad for name, parameter in model.named_parameters()}, epoch


def count() -> list[list[int]]:
    """An odd number of images, so that the processes count unequal parts."""
    return evaluate(ready(small_vit()), bright_or_dark(13), batch_size=3).confusion.tolist()


def alarms() -> int:
    """How many warnings this process shows of an alarm that both raise."""
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        alarm("the loss is still ln K")
    return len(shown)


def ready(model: nn.Module) -> nn.Module:
    """With a head that is no longer zero (through which no gradient comes), and a card."""
    nn.init.normal_(model.head.weight, std=0.1, generator=torch.Generator().manual_seed(0))
    model.card = Card(("dark", "bright"), (0.5, 0.5, 0.5), (0.2, 0.2, 0.2))
    return model.train()


def main(folder: Path) -> int:
    start_processes("cpu")
    rank, world = rank_and_world()
    gradients, epoch = one_step()
    save_file(gradients, folder / f"gradients-{rank}.safetensors")
    seen = {"world": world, "confusion": count(), "loss": epoch.loss, "alarms": alarms(), "written": []}
    put = weights.os.replace
    weights.os.replace = lambda part, path: seen["written"].append(Path(path).name) or put(part, path)
    status = train.main([*COMMAND.split(), "--out", str(folder / "run")])
    (folder / f"seen-{rank}.json").write_text(json.dumps(seen), encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
