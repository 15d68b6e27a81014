"""Train a Vision Transformer from the command line, with the same loop as the notebooks.

    python -m vit_tutorial.train --dataset shapes
    python -m vit_tutorial.train --dataset cifar10 --download
    python -m vit_tutorial.train --data my_pictures --image-size 64

A run lives in a folder (`--out`). Interrupted at any moment, the same command goes on after the last whole
epoch. Choose with `--validate`, which holds training images out and leaves the test set alone; then train once
without it, in another folder: on all training images, the last weights, tested once. A mistake is told in one line,
with exit status 2. What is left in the folder:

    checkpoint.safetensors   to go on from
    metrics.csv              a line for each epoch
    positions.safetensors    the position embeddings at about ten moments
    model.safetensors        the trained model with its card, for vit_tutorial.load_checkpoint
"""

from __future__ import annotations

import argparse
import io
import math
import platform
import shlex
import signal
import sys
import threading
from collections.abc import Iterable
from dataclasses import asdict, fields, replace

import torch

from .config import POOLS, POSITIONS, ViTConfig
from .data import ImageSet, Shapes, cifar10, image_folder
from .data.download import as_path
from .data.image_set import memory
from .model import VisionTransformer
from .saving import save_model
from .training import PRESETS, Epoch, Recipe, Score, distributed, evaluate, fit, print_progress
from .training.distributed import leave_processes, rank_and_world, start_processes
from .training.evaluation import check_classes
from .training.optimizer import SCHEDULES
from .training.position_snapshots import PositionSnapshots
from .training.presets import TEST_SCENES, TRAINING_SCENES
from .training.recipe import PRECISIONS, TRAINED
from .training.resuming import CHECKPOINT, hold

PROGRAM = "python -m vit_tutorial.train"

MODEL_OPTIONS = (
    "image_size", "patch_size", "embed_dim", "depth", "num_heads", "mlp_dim",
    "dropout", "attention_dropout", "drop_path", "position", "pool",
)  # fmt: skip
RECIPE_OPTIONS = tuple(field.name for field in fields(Recipe))
CHOICES = {"position": POSITIONS, "pool": POOLS, "schedule": SCHEDULES, "precision": PRECISIONS, "trained": TRAINED}


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    print_on_any_terminal()
    arguments = sys.argv[1:] if arguments is None else arguments
    asked = parse(arguments)
    handler = None
    if threading.current_thread() is threading.main_thread():  # no other may handle signals
        handler = signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite kill ends a run as Ctrl-C does
    try:
        device = start_processes(asked.device)
        run(asked, device, shlex.join([*launcher(), "-m", "vit_tutorial.train", *arguments]))
    except KeyboardInterrupt:
        say("\nstopped. The same command goes on after the last whole epoch.")
        return 130
    except (ValueError, OSError, FloatingPointError) as error:  # what was given does not fit; a bug raises others
        print(f"{PROGRAM}: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    finally:
        leave_processes()
        if handler is not None:
            signal.signal(signal.SIGTERM, handler)
    return 0


def print_on_any_terminal() -> None:
    """Show "?" for a character that a terminal lacks: older ones on Windows have no "×"."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def run(asked: argparse.Namespace, device: torch.device, command: str) -> None:
    """Train, then validate, or test once and save."""
    preset = PRESETS[asked.dataset]
    out = as_path("--out", f"runs/{asked.dataset}" if asked.out is None else asked.out)
    recipe = choose_recipe(preset.recipe, chosen(asked, RECIPE_OPTIONS))
    config = replace(preset.config, **chosen(asked, MODEL_OPTIONS))  # a mistake is told before images are read
    check_model_size(config)
    images, test = load_images(asked, preset.config.image_size)
    check_classes(images.classes, test.classes)
    config = replace(config, num_classes=len(images.classes))
    images, validation = (images, None) if asked.validate is None else images.split(asked.validate)

    torch.manual_seed(recipe.seed)
    model = VisionTransformer(config).to(device)
    say(f"{images!r}, on {device}, in {out}")
    with hold(out):
        positions = PositionSnapshots(model, out / "positions.safetensors", asked.snapshots)
        if rank_and_world()[0] == 0 and not (out / CHECKPOINT).is_file():
            positions.start()
        history = fit(model, images, recipe, validation=validation, folder=out, watch=[print_progress, positions])
        if validation:
            say(f"validation: {describe(evaluate(model, validation))}. The test set was not looked at.")
            return
        score = evaluate(model, test)
        about = {"command": command, **provenance(images, recipe, history, score), "hardware": hardware(device)}
        model.card = replace(model.card, about=about)
        if rank_and_world()[0] == 0:
            save_model(model, out / "model.safetensors")
        say(f"test: {describe(score)}. The model is in {out / 'model.safetensors'}")


class Parser(argparse.ArgumentParser):
    """Tells a mistake in one line, without the usage, which is thirty."""

    def error(self, message: str):
        self.exit(2, f"{self.prog}: error: {message} (--help lists the options)\n")


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser(
        prog=PROGRAM,
        description=__doc__,
        epilog=distributed.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--dataset", choices=PRESETS, help="what to train on (default: shapes; with --data, folder)")
    parser.add_argument("--data", help="where the images are: a folder with train/ and test/, or CIFAR-10's folder")
    parser.add_argument(
        "--scenes", type=positive, metavar="N", help="train on N Shapes (default: 28000), test on 6400 at most"
    )
    parser.add_argument("--download", action="store_true", help="fetch CIFAR-10 if it is not there")
    parser.add_argument("--out", help="the run's folder (default: runs/DATASET)")
    parser.add_argument(
        "--device", choices=devices(), metavar="NAME", help="cpu, cuda, cuda:1 or mps (default: the best there is)"
    )
    parser.add_argument("--validate", type=int, metavar="N", help="hold out N training images, and never test")
    parser.add_argument("--snapshots", type=positive, default=10, metavar="N", help="keep the positions N times")
    model = parser.add_argument_group("the model (default: the data set's preset)")
    for name in MODEL_OPTIONS:
        add_option(model, name, ViTConfig)
    recipe = parser.add_argument_group("the recipe (default: the data set's preset)")
    for name in RECIPE_OPTIONS:
        add_option(recipe, name, Recipe)
    asked = parser.parse_args(arguments)
    if asked.dataset is None:
        asked.dataset = "shapes" if asked.data is None else "folder"
    if asked.dataset == "folder" and asked.data is None:
        parser.error("--dataset folder needs --data: a folder with train/ and test/, a folder for each class in both")
    for option, users in {"data": ("folder", "cifar10"), "scenes": ("shapes",), "download": ("cifar10",)}.items():
        if getattr(asked, option) not in (None, False) and asked.dataset not in users:
            parser.error(f"--{option} is for {' and '.join(users)}, and this would train on {asked.dataset}")
    return asked


def positive(text: str) -> int:
    if (value := int(text)) < 1:
        raise ValueError(text)  # argparse's own sentence: "invalid positive value: '0'"
    return value


def devices() -> list[str]:
    """What --device may name on this machine."""
    cuda = [f"cuda:{i}" for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    return ["cpu", *["cuda"] * bool(cuda), *cuda, *["mps"] * torch.backends.mps.is_available()]


def add_option(group: argparse._ArgumentGroup, name: str, owner: type) -> None:
    """An option for a field of a dataclass, of the type that the field's default has; `--no-flip` for a switch."""
    default = next(field.default for field in fields(owner) if field.name == name)
    flag = "--" + name.replace("_", "-")
    if isinstance(default, bool):
        group.add_argument(flag, action=argparse.BooleanOptionalAction, default=None)
    else:
        group.add_argument(flag, type=type(default), choices=CHOICES.get(name))


def chosen(asked: argparse.Namespace, names: Iterable[str]) -> dict:
    """The options that somebody gave."""
    return {name: getattr(asked, name) for name in names if getattr(asked, name) is not None}


def choose_recipe(preset: Recipe, given: dict) -> Recipe:
    """The preset with what somebody asked for. Its warm-up takes at most half of a run that is made shorter."""
    warmup = min(preset.warmup_epochs, given.get("epochs", preset.epochs) / 2)
    return replace(preset, **{"warmup_epochs": warmup, **given})


def check_model_size(config: ViTConfig) -> None:
    """Raises ValueError for weights, gradients and two moments that do not fit into memory, before they are built."""
    D = config.embed_dim
    parameters = config.depth * (4 * D * D + 2 * D * config.mlp_dim) + D * config.patch_dim
    if 16 * parameters > memory():
        raise ValueError(
            f"a model of {parameters:,} parameters takes {16 * parameters / 1e9:,.0f} GB to train, and this machine "
            f"has {memory() / 1e9:,.0f} GB of memory"
        )


def load_images(asked: argparse.Namespace, image_size: int) -> tuple[ImageSet, ImageSet]:
    """The training images and the test images. A test scene of Shapes is never one of training: another seed."""
    size = asked.image_size or image_size
    if asked.dataset == "shapes":
        count = asked.scenes or TRAINING_SCENES
        return Shapes(count, size, seed=0), Shapes(min(count, TEST_SCENES), size, seed=1)
    if asked.dataset == "cifar10":
        if size != image_size:
            raise ValueError(f"CIFAR-10's images are {image_size}×{image_size}: --image-size {size} does not fit")
        train = cifar10(asked.data, train=True, download=asked.download)
        return train, cifar10(asked.data, train=False)
    return image_folder(asked.data, size, split="train"), image_folder(asked.data, size, split="test")


def provenance(images: ImageSet, recipe: Recipe, history: list[Epoch], score: Score) -> dict:
    """What the card says of where the weights come from."""
    low, high = score.interval()
    by_class = zip(images.classes, score.per_class, strict=True)
    return {
        "training images": len(images),
        "test images": int(score.confusion.sum()),
        "test accuracy": score.accuracy,
        "95 % interval": [low, high],
        "accuracy by class": {name: share for name, share in by_class if not math.isnan(share)},
        "recipe": asdict(recipe),
        "seconds": sum(epoch.seconds for epoch in history),
        "torch": torch.__version__,
    }


def hardware(device: torch.device) -> str:
    """What a process ran on, and how many there were."""
    kind = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{platform.machine()} {device.type}"
    return f"{rank_and_world()[1]} × {kind}, {torch.get_num_threads()} threads"


def launcher() -> list[str]:
    """How the processes of this run were started."""
    world = rank_and_world()[1]
    return ["python"] if world == 1 else ["torchrun", f"--nproc-per-node={world}"]


def describe(score: Score) -> str:
    low, high = score.interval()
    return f"{score.accuracy:.2%} of {score.confusion.sum():,} images right (95 % interval {low:.2%} to {high:.2%})"


def say(line: str) -> None:
    if rank_and_world()[0] == 0:
        print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
