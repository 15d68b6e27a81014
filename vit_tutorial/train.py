"""Train a Vision Transformer from the command line, with the same loop as the notebooks.

    python -m vit_tutorial.train --dataset shapes
    python -m vit_tutorial.train --dataset cifar10 --download
    python -m vit_tutorial.train --data my_pictures --image-size 64
    python -m vit_tutorial.train --data my_pictures --weights B/16 --download
    torchrun --nproc-per-node=4 -m vit_tutorial.train ...    (several GPUs or CPU cores share every batch)

A run lives in a folder (`--out`). Interrupted at any moment, the same command goes on after the last whole
epoch. Choose with `--validate`, which holds out training images and leaves the test set alone; then train once
without it, in another folder: on all training images, the last weights, tested once. The folder then has

    checkpoint.safetensors   to go on from
    metrics.csv              a line for each epoch
    positions.safetensors    the position embeddings at about ten moments
    model.safetensors        the trained model with its card, for vit_tutorial.saving.load_model

With --weights, the run starts from a trained model: one that torchvision publishes (B/16, B/32, L/16, L/32), one that
ships with this package (cifar10, shapes), or a model.safetensors. Positions are interpolated for --image-size (default:
the model's own), pictures are prepared as the model's card asks, and the head is new unless the classes are the same.
So the head can be trained alone first, in a folder of its own, and then everything:

    python -m vit_tutorial.train --data my_pictures --weights B/16 --trained head --out runs/head
    python -m vit_tutorial.train --data my_pictures --weights runs/head/model.safetensors --out runs/all
"""

from __future__ import annotations

import argparse
import math
import platform
import shlex
import signal
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import Field, asdict, fields, replace
from functools import partial
from pathlib import Path

import torch

from .adapting import change_resolution, replace_head
from .config import POOLS, POSITIONS, ViTConfig
from .data import ImageSet, Shapes, cifar10
from .data.image_set import require_memory
from .data.photo import read_picture
from .data.picture_folder import train_and_test
from .errors import require_choice
from .files import as_path
from .inference import read_fitted
from .model import VisionTransformer
from .pretrained import CHECKPOINTS, load_checkpoint, load_pretrained
from .pretrained.torchvision_models import PUBLISHED
from .saving import load_model, save_model
from .training import FINE_TUNING, PRESETS, Recipe, TrainingAlarm, evaluate, fit, print_progress
from .training.distributed import process_group, rank_and_world
from .training.progress import save_positions

PROGRAM = "python -m vit_tutorial.train"
FIXED = ("in_channels", "num_classes", "representation_size", "norm_eps", "gelu")  # of the model: no options
MODEL_OPTIONS = [field for field in fields(ViTConfig) if field.name not in FIXED]
CHOICES = {"position": POSITIONS, "pool": POOLS}
CHANGEABLE = ("image_size", "dropout", "attention_dropout", "drop_path")  # in a model that is trained already
SHIPPED = sorted(path.stem for path in CHECKPOINTS.glob("*.safetensors"))
TRAINING_SCENES, TEST_SCENES = 28_000, 6400  # of Shapes; a run on fewer is a trial, and tested on as many


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    asked = parse(arguments)
    with process_group(asked.device) as device:
        try:
            run(asked, device, shlex.join(arguments))
        except KeyboardInterrupt:
            say("\nstopped. The same command goes on after the last whole epoch.")
            return 130
        except (ValueError, OSError, FloatingPointError) as error:  # a mistake of the user; a bug raises others
            print(f"{PROGRAM}: error: {' '.join(str(error).split())}", file=sys.stderr)
            return 2
    return 0


def run(asked: argparse.Namespace, device: torch.device, options: str) -> None:
    """Train, then validate, or test once and save."""
    preset = PRESETS[asked.dataset]
    out = as_path("--out", f"runs/{asked.dataset}" if asked.out is None else asked.out)
    if out.is_file():
        raise ValueError(f"--out {out} is a file: a run needs a folder")
    usual = preset.recipe if asked.weights is None else FINE_TUNING
    recipe = choose_recipe(usual, chosen(asked, fields(Recipe)))  # mistakes are found before images are read
    start = None if asked.weights is None else load_weights(asked)
    config = replace(start.config if start else preset.config, **chosen(asked, MODEL_OPTIONS))
    D = config.embed_dim
    parameters = config.depth * (4 * D * D + 2 * D * config.mlp_dim) + D * config.patch_dim
    require_memory(f"{parameters:,} parameters, their gradients and AdamW's moments", 16 * parameters)
    if start:
        start = prepare(start, config)
        images, test = load_images(asked, config.image_size, partial(read_fitted, card=start.card))
    else:
        images, test = load_images(asked, preset.config.image_size)
    config = replace(config, num_classes=len(images.classes))
    images, validation = (images, None) if asked.validate is None else images.split(asked.validate)

    torch.manual_seed(recipe.seed)
    model = (give_classes(start, images.classes) if start else VisionTransformer(config)).to(device)
    say(f"{images!r}, on {device}, in {out}")
    watch = [print_progress, save_positions(model, out / "positions.safetensors")]
    history = fit(model, images, recipe, validation=validation, folder=out, watch=watch)
    score = evaluate(model, validation or test)
    low, high = score.interval()
    right = f"{score.accuracy:.2%} of {score.confusion.sum():,} images right (95 % interval {low:.2%} to {high:.2%})"
    if validation:
        say(f"validation: {right}. The test set was not looked at.")
        return
    (rank, processes), gpu = rank_and_world(), device.type == "cuda"
    launcher = "python" if processes == 1 else f"torchrun --nproc-per-node={processes}"
    processor = torch.cuda.get_device_name(device) if gpu else f"{platform.machine()} {device.type}"
    by_class = zip(images.classes, score.per_class, strict=True)
    about = {
        "command": f"{launcher} -m vit_tutorial.train {options}",
        "training images": len(images),
        "test images": len(test),
        "test accuracy": score.accuracy,
        "95 % interval": [low, high],
        "accuracy by class": {name: share for name, share in by_class if not math.isnan(share)},
        "recipe": asdict(recipe),
        "seconds": sum(epoch.seconds for epoch in history),
        "torch": torch.__version__,
        "hardware": f"{processes} × {processor}, {torch.get_num_threads()} threads",
    }
    model.card = replace(model.card, about={**model.card.about, **about})
    if rank == 0:
        save_model(model, out / "model.safetensors")
    say(f"test: {right}. The model is in {out / 'model.safetensors'}")


class Parser(argparse.ArgumentParser):
    """A parser that explains a mistake in one line, without the long usage."""

    def error(self, message: str):
        self.exit(2, f"{self.prog}: error: {message} (--help lists the options)\n")


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(prog=PROGRAM, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--dataset", choices=PRESETS, help="what to train on (default: shapes; with --data, folder)")
    add("--data", help="where the images are: a folder with train/ and test/, or CIFAR-10's folder")
    add("--scenes", type=int, metavar="N", help="train on N Shapes (default: 28000), test on 6400 at most")
    add("--weights", metavar="NAME", help=f"start from {', '.join([*PUBLISHED, *SHIPPED])} or a model.safetensors")
    add("--download", action="store_true", help="fetch CIFAR-10, or published weights, if they are not there")
    add("--out", help="the run's folder (default: runs/DATASET)")
    add("--device", choices=devices(), metavar="NAME", help="cpu, cuda, cuda:1 or mps (default: the best there is)")
    add("--validate", type=int, metavar="N", help="hold out N training images, and never test")
    add_options(parser.add_argument_group("the model (default: the data set's preset)"), MODEL_OPTIONS)
    add_options(parser.add_argument_group("the recipe (default: the data set's preset)"), fields(Recipe))
    asked = parser.parse_args(arguments)
    if asked.dataset is None:
        asked.dataset = "shapes" if asked.data is None else "folder"
    if asked.dataset == "folder" and asked.data is None:
        parser.error("--dataset folder needs --data: a folder with train/ and test/, a folder for each class in both")
    uses = {"data": ("folder", "cifar10"), "scenes": ("shapes",), "weights": ("folder",), "download": ("cifar10",)}
    if asked.weights in PUBLISHED:
        uses["download"] = ("folder",)
    notes = {"weights": " (your pictures, named with --data)", "download": f" and --weights {', '.join(PUBLISHED)}"}
    for option, users in uses.items():
        if getattr(asked, option) not in (None, False) and asked.dataset not in users:
            usual = " and ".join(users) + notes.get(option, "")
            parser.error(f"--{option} is for {usual}, and this would train on {asked.dataset}")
    return asked


def add_options(group: argparse._ArgumentGroup, options: Iterable[Field]) -> None:
    """Add an option for each of these fields of a dataclass, of the type of its default; `--no-flip` for a switch."""
    for field in options:
        kind = {"type": type(field.default), "choices": field.metadata.get("choices") or CHOICES.get(field.name)}
        if isinstance(field.default, bool):
            kind = {"action": argparse.BooleanOptionalAction, "default": None}
        group.add_argument("--" + field.name.replace("_", "-"), help=field.metadata.get("help"), **kind)


def devices() -> list[str]:
    """Return what --device may name on this machine."""
    cuda = [f"cuda:{i}" for i in range(torch.cuda.device_count())] if torch.cuda.is_available() else []
    return ["cpu", *["cuda"] * bool(cuda), *cuda, *["mps"] * torch.backends.mps.is_available()]


def chosen(asked: argparse.Namespace, options: Iterable[Field]) -> dict:
    """Return those of the options that were given."""
    return {field.name: value for field in options if (value := getattr(asked, field.name)) is not None}


def choose_recipe(preset: Recipe, given: dict) -> Recipe:
    """Return the preset with the options that were given. In a shorter run, its warm-up takes half at most."""
    warmup = min(preset.warmup_epochs, given.get("epochs", preset.epochs) / 2)
    return replace(preset, **{"warmup_epochs": warmup, **given})


def load_weights(asked: argparse.Namespace) -> VisionTransformer:
    """Return the model that --weights names. A name comes before a file or a folder that is called the same."""
    if asked.weights in PUBLISHED:
        return load_pretrained(asked.weights, download=asked.download)
    if asked.weights in SHIPPED:
        return load_checkpoint(asked.weights)
    if not asked.weights.endswith(".safetensors") and not Path(asked.weights).exists():
        require_choice("weights", asked.weights, [*PUBLISHED, *SHIPPED, "a file that ends in .safetensors"])
    return load_model(asked.weights)


def prepare(model: VisionTransformer, config: ViTConfig) -> VisionTransformer:
    """Return a trained model with the image size and the rates of `config`. Raises ValueError for other changes."""
    for field in fields(ViTConfig):
        asked, there = getattr(config, field.name), getattr(model.config, field.name)
        if field.name not in CHANGEABLE and asked != there:
            option = "--" + field.name.replace("_", "-")
            raise ValueError(f"{option} {asked} does not fit: the weights are of a model with {field.name} {there}")
    if config.in_channels != 3:
        raise ValueError(f"pictures have 3 channels, the weights are for {config.in_channels}")
    model.config = replace(config, image_size=model.config.image_size)
    return change_resolution(model, config.image_size)


def give_classes(model: VisionTransformer, classes: tuple[str, ...]) -> VisionTransformer:
    """Return a trained model with a new head, unless its own is for the same classes."""
    if model.card and model.card.classes == classes:
        say("the head stays: it is for the same classes")
        warnings.filterwarnings("ignore", "the first loss is", TrainingAlarm)  # it is low, as it should be
        return model
    say(f"a new head for {len(classes)} classes")
    return replace_head(model, len(classes))


def load_images(
    asked: argparse.Namespace, preset_size: int, read: Callable[..., torch.Tensor] = read_picture
) -> tuple[ImageSet, ImageSet]:
    """Return the training images and the test images. Shapes draws its test scenes from another seed.

    `read` fits a picture of a folder to the size.
    """
    size = asked.image_size or preset_size
    if asked.dataset == "shapes":
        count = TRAINING_SCENES if asked.scenes is None else asked.scenes
        return Shapes(count, size, seed=0), Shapes(min(count, TEST_SCENES), size, seed=1)
    if asked.dataset == "cifar10":
        if size != preset_size:
            raise ValueError(f"CIFAR-10's images are {preset_size}×{preset_size}: --image-size {size} does not fit")
        train = cifar10(asked.data, train=True, download=asked.download)
        return train, cifar10(asked.data, train=False)
    return train_and_test(asked.data, size, read)


def say(line: str) -> None:
    if rank_and_world()[0] == 0:
        print(line, flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # a polite kill ends a run as Ctrl-C does
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # older terminals on Windows have no "×"
    sys.exit(main())
