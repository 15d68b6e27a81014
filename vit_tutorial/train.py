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
import platform
import shlex
import sys
from collections.abc import Iterable
from dataclasses import Field, asdict, fields, replace
from functools import partial
from pathlib import Path

import torch

from .adapting import change_resolution, replace_head
from .config import POOLS, POSITIONS, ViTConfig
from .data import ImageSet, Shapes, cifar10
from .data.photo import read_picture
from .data.picture_folder import train_and_test
from .inference import read_fitted
from .model import VisionTransformer
from .pretrained import CHECKPOINTS, load_checkpoint, load_pretrained
from .pretrained.torchvision_models import PUBLISHED
from .saving import load_model, read, save_model, write
from .training import FINE_TUNING, PRESETS, Progress, Recipe, evaluate, fit, print_progress
from .training.distributed import is_first, process_group, rank_and_world
from .training.progress import Watch

PROGRAM = "python -m vit_tutorial.train"
CHANGEABLE = ("image_size", "dropout", "attention_dropout", "drop_path")  # in a model that is trained already
FIXED = ("in_channels", "num_classes", "representation_size", "norm_eps", "gelu")  # no options
MODEL_OPTIONS = [field for field in fields(ViTConfig) if field.name not in FIXED]
SHIPPED = sorted(path.stem for path in CHECKPOINTS.glob("*.safetensors"))
TRAINING_SCENES, TEST_SCENES = 28_000, 6400  # of Shapes; a run on fewer is a trial, and tested on as many


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    asked = parse(arguments)
    try:
        with process_group(asked.device) as device:
            carry_out(asked, device, shlex.join(arguments))
    except KeyboardInterrupt:
        print("\nstopped. The same command goes on after the last whole epoch.")
        return 130
    except (ValueError, OSError, FloatingPointError) as error:  # a mistake of the user; a bug raises others
        print(f"{PROGRAM}: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    return 0


def carry_out(asked: argparse.Namespace, device: torch.device, options: str) -> None:
    """Train, then validate, or test once and save."""
    out = Path(asked.out or f"runs/{asked.dataset}").expanduser()
    usual = FINE_TUNING if asked.weights else PRESETS[asked.dataset].recipe
    recipe = choose_recipe(usual, chosen(asked, fields(Recipe)))  # mistakes are found before images are read
    model, images, test = adapt_model(asked) if asked.weights else new_model(asked, recipe.seed)
    images, validation = (images, None) if asked.validate is None else images.split(asked.validate)
    print(f"{images!r}, on {device}, in {out}")

    watch = [print_progress, save_positions(model, out / "positions.safetensors")]
    history = fit(model.to(device), images, recipe, validation=validation, folder=out, watch=watch)
    score = evaluate(model, validation or test)
    low, high = score.interval()
    right = f"{score.accuracy:.2%} of {score.confusion.sum():,} images right (95 % interval {low:.2%} to {high:.2%})"
    if validation:
        print(f"validation: {right}. The test set was not looked at.")
        return
    processor = torch.cuda.get_device_name(device) if device.type == "cuda" else f"{platform.machine()} {device.type}"
    about = {
        "command": f"{PROGRAM} {options}",
        "training images": len(images),
        "test images": len(test),
        "test accuracy": score.accuracy,
        "95 % interval": [low, high],
        "accuracy by class": dict(zip(images.classes, score.per_class, strict=True)),
        "recipe": asdict(recipe),
        "seconds": sum(epoch.seconds for epoch in history),
        "torch": torch.__version__,
        "hardware": f"{rank_and_world()[1]} × {processor}, {torch.get_num_threads()} threads",
    }
    model.card = replace(model.card, about={**model.card.about, **about})
    if is_first():
        save_model(model, out / "model.safetensors")
    print(f"test: {right}. The model is in {out / 'model.safetensors'}")


def new_model(asked: argparse.Namespace, seed: int) -> tuple[VisionTransformer, ImageSet, ImageSet]:
    """Return a model that knows nothing yet, its training images and its test images."""
    config = replace(PRESETS[asked.dataset].config, **chosen(asked, MODEL_OPTIONS))
    images, test = load_images(asked, config)
    torch.manual_seed(seed)
    return VisionTransformer(replace(config, num_classes=len(images.classes))), images, test


def adapt_model(asked: argparse.Namespace) -> tuple[VisionTransformer, ImageSet, ImageSet]:
    """Return the model that --weights names, adapted to its training images, and these and its test images.

    Raises ValueError for options that would not fit the weights.
    """
    model, changes = load_weights(asked), chosen(asked, MODEL_OPTIONS)
    for name in set(changes) - set(CHANGEABLE):
        option, there = "--" + name.replace("_", "-"), getattr(model.config, name)
        raise ValueError(f"{option} cannot be chosen with --weights: these are of a model with {name} {there}")
    size = changes.pop("image_size", model.config.image_size)
    model.config = replace(model.config, **changes)
    model = change_resolution(model, size)
    images, test = load_images(asked, model.config, partial(read_fitted, card=model.card))
    if model.card is None or model.card.classes != images.classes:
        print(f"a new head for {len(images.classes)} classes")
        model = replace_head(model, len(images.classes))
    return model, images, test


class Parser(argparse.ArgumentParser):
    """A parser that explains a mistake in one line, without the long usage."""

    def error(self, message: str):
        self.exit(2, f"{self.prog}: error: {message} (--help lists the options)\n")


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = Parser(prog=PROGRAM, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--dataset", choices=PRESETS, help="what to train on (default: shapes; with --data, folder)")
    add("--data", help="where the images are: a folder with train/ and test/, or CIFAR-10's folder")
    add("--scenes", type=int, metavar="N", default=TRAINING_SCENES, help="how many Shapes (default: 28000)")
    add("--weights", metavar="NAME", help=f"start from {', '.join([*PUBLISHED, *SHIPPED])} or a model.safetensors")
    add("--download", action="store_true", help="fetch CIFAR-10, or published weights, if they are not there")
    add("--out", help="the run's folder (default: runs/DATASET)")
    add("--device", choices=devices(), help="where to compute (default: the best there is)")
    add("--validate", type=int, metavar="N", help="hold out N training images, and never test")
    add_options(parser.add_argument_group("the model (default: the data set's preset)"), MODEL_OPTIONS)
    add_options(parser.add_argument_group("the recipe (default: the data set's preset)"), fields(Recipe))
    asked = parser.parse_args(arguments)
    if asked.dataset is None:
        asked.dataset = "shapes" if asked.data is None else "folder"
    if asked.dataset == "folder" and asked.data is None:
        parser.error("--dataset folder needs --data: a folder with train/ and test/, a folder for each class in both")
    return asked


def add_options(group: argparse._ArgumentGroup, options: Iterable[Field]) -> None:
    """Add an option for each of these fields of a dataclass, of the type of its default; `--no-flip` for a switch."""
    for field in options:
        choices = {"position": POSITIONS, "pool": POOLS}.get(field.name, field.metadata.get("choices"))
        kind = {"type": type(field.default), "choices": choices}
        if isinstance(field.default, bool):
            kind = {"action": argparse.BooleanOptionalAction, "default": None}
        group.add_argument("--" + field.name.replace("_", "-"), help=field.metadata.get("help"), **kind)


def devices() -> list[str]:
    """Return what --device may name on this machine."""
    return ["cpu", *["cuda"] * torch.cuda.is_available(), *["mps"] * torch.backends.mps.is_available()]


def chosen(asked: argparse.Namespace, options: Iterable[Field]) -> dict:
    """Return those of the options that were given."""
    return {field.name: value for field in options if (value := getattr(asked, field.name)) is not None}


def choose_recipe(preset: Recipe, given: dict) -> Recipe:
    """Return the preset with the options that were given. In a shorter run, its warm-up takes half at most."""
    warmup = min(preset.warmup_epochs, given.get("epochs", preset.epochs) / 2)
    return replace(preset, **{"warmup_epochs": warmup, **given})


def load_weights(asked: argparse.Namespace) -> VisionTransformer:
    """Return the model that --weights names."""
    if asked.weights in PUBLISHED:
        return load_pretrained(asked.weights, download=asked.download)
    if asked.weights in SHIPPED:
        return load_checkpoint(asked.weights)
    if asked.weights.endswith(".safetensors"):
        return load_model(asked.weights)
    names = ", ".join([*PUBLISHED, *SHIPPED])
    raise ValueError(f"unknown weights {asked.weights!r}: there are {names}, and files that end in .safetensors")


def load_images(asked: argparse.Namespace, config: ViTConfig, read_image=read_picture) -> tuple[ImageSet, ImageSet]:
    """Return the training images and the test images. Shapes draws its test scenes from another seed.

    `read_image` fits a picture of a folder to the size.
    """
    size = config.image_size
    if asked.dataset == "shapes":
        return Shapes(asked.scenes, size, seed=0), Shapes(min(asked.scenes, TEST_SCENES), size, seed=1)
    if asked.dataset == "cifar10":
        if size != 32:
            raise ValueError(f"CIFAR-10's images are 32×32: --image-size {size} does not fit")
        return tuple(cifar10(asked.data, train, asked.download) for train in (True, False))
    return train_and_test(asked.data, size, read_image)


def save_positions(model: VisionTransformer, path: Path) -> Watch:
    """Return a `watch` for `fit` that saves the position embeddings after up to nine epochs, most of them early ones.

    The file names them by the number of epochs that the model has seen; "0" is the model as it is now.
    """
    untrained = model.embeddings.position().detach().clone()

    def watch(progress: Progress) -> None:
        if progress.finished and progress.epoch in {round(progress.epochs ** (i / 8)) for i in range(9)}:
            before = read(path)[0] if progress.epoch > 1 and path.is_file() else {"0": untrained}
            write(path, {**before, str(progress.epoch): model.embeddings.position()}, {})

    return watch


if __name__ == "__main__":
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # older terminals on Windows have no "×"
    sys.exit(main())
