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
    model.safetensors        the trained model with its card, for vit_tutorial.saving.load_model

With --weights, the run starts from a trained model: one that torchvision publishes (B/16, B/32, L/16, L/32), one that
ships with this package (cifar10, shapes, dinov2-s14), or a model.safetensors. Positions are interpolated for
--image-size (default: the model's own), pictures are prepared as the model's card asks, and the head is new unless the
classes are the same. So the head can be trained alone first, in a folder of its own, and then everything:

    python -m vit_tutorial.train --data my_pictures --weights B/16 --trained head --out runs/head
    python -m vit_tutorial.train --data my_pictures --weights runs/head/model.safetensors --out runs/all
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterable
from dataclasses import Field, asdict, fields, replace
from functools import partial
from pathlib import Path

import torch

from .adapting import change_resolution, replace_head
from .config import POOLS, POSITIONS, Size, ViTConfig
from .data import ImageSet, Shapes, cifar10
from .data.picture_folder import train_and_test
from .errors import require_choice
from .inference import read_fitted
from .model import VisionTransformer
from .model_card import ModelCard
from .pretrained import CHECKPOINTS, load_checkpoint, load_pretrained
from .pretrained.torchvision_models import PUBLISHED
from .saving import build_model, load_model, save_model
from .training import FINE_TUNING, PRESETS, Recipe, evaluate, fit, print_progress
from .training.distributed import is_first, process_group

CHANGEABLE = ("image_size", "dropout", "attention_dropout", "drop_path")  # in a model that is trained already
FIXED = ("in_channels", "num_classes", "representation_size", "norm_eps", "gelu")  # no options
MODEL_OPTIONS = [field for field in fields(ViTConfig) if field.name not in FIXED]
WEIGHTS = [*PUBLISHED, *sorted(path.stem for path in CHECKPOINTS.glob("*.safetensors"))]
TEST_SCENES = 6400  # of Shapes, but no more than for training


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = make_parser()
    asked = parser.parse_args(arguments)
    asked.dataset = asked.dataset or ("shapes" if asked.data is None else "folder")
    try:
        if asked.data and asked.dataset == "shapes":
            raise ValueError(f"Shapes are drawn, not read: what is --data {asked.data} for?")
        if asked.trained == "head" and asked.weights is None:
            raise ValueError("--trained head needs --weights: a head cannot learn from a body that never trained")
        with process_group(asked.device) as device:
            carry_out(asked, device, f"{parser.prog} {shlex.join(arguments)}")
    except KeyboardInterrupt:
        print("\nstopped. The same command goes on after the last whole epoch.")
        return 130
    except (ValueError, OSError, FloatingPointError) as error:  # a mistake of the user; a bug raises others
        parser.error(" ".join(str(error).split()))
    return 0


def carry_out(asked: argparse.Namespace, device: torch.device, command: str) -> None:
    """Train, then validate, or test once and save."""
    out = Path(asked.out or f"runs/{asked.dataset}").expanduser()
    usual = FINE_TUNING if asked.weights else PRESETS[asked.dataset].recipe
    recipe = choose_recipe(usual, chosen(asked, fields(Recipe)))  # mistakes are found before images are read
    model, images, test = load_model_and_images(asked, recipe.seed)
    if asked.trained == "head":
        model.requires_grad_(False).head.requires_grad_(True)
    images, validation = (images, None) if asked.validate is None else images.split(asked.validate)
    print(f"{images!r}, on {device}, in {out}")

    history = fit(model.to(device), images, recipe, validation=validation, folder=out, watch=[print_progress])
    score = evaluate(model, validation or test)
    low, high = score.interval()
    right = f"{score.accuracy:.2%} of {score.confusion.sum():,} images right (95 % interval {low:.2%} to {high:.2%})"
    if validation:
        print(f"validation: {right}. The test set was not looked at.")
        return
    about = {
        "command": command,
        "test images": len(test),
        "test accuracy": score.accuracy,
        "95 % interval": [low, high],
        "recipe": asdict(recipe),
        "seconds": sum(epoch.seconds for epoch in history),
        "hardware": f"{device}, {torch.get_num_threads()} threads",
    }
    model.card = replace(model.card, about={**model.card.about, **about})
    if is_first():
        save_model(model, out / "model.safetensors")
    print(f"test: {right}. The model is in {out / 'model.safetensors'}")


def load_model_and_images(asked: argparse.Namespace, seed: int) -> tuple[VisionTransformer, ImageSet, ImageSet]:
    """Return the model, a new one or that of --weights made fit for its images, the training and the test images."""
    changes = chosen(asked, MODEL_OPTIONS)
    if asked.weights is None:
        config = replace(PRESETS[asked.dataset].config, **changes)
        images, test = load_images(asked, config.image_size)
        torch.manual_seed(seed)
        return VisionTransformer(replace(config, num_classes=len(images.classes))), images, test
    model = load_weights(asked.weights, asked.download)
    for name in changes:
        if name not in CHANGEABLE:
            there = getattr(model.config, name)
            raise ValueError(f"{name} cannot be chosen with --weights: these have a {name} of {there}")
    size = changes.pop("image_size", model.config.image_size)
    model = build_model(replace(model.config, **changes), model.state_dict(), model.card)  # with other rates of dropout
    model = change_resolution(model, size)
    images, test = load_images(asked, size, model.card)
    if model.card is None or model.card.classes != images.classes:
        print(f"a new head for {len(images.classes)} classes")
        model = replace_head(model, len(images.classes))
    return model, images, test


def load_weights(name: str, download: bool) -> VisionTransformer:
    """Return the model that --weights names."""
    if name.endswith(".safetensors"):
        return load_model(name)
    require_choice("weights", name, [*WEIGHTS, "a file that ends in .safetensors"])
    return load_pretrained(name, download=download) if name in PUBLISHED else load_checkpoint(name)


def load_images(asked: argparse.Namespace, size: Size, card: ModelCard | None = None) -> tuple[ImageSet, ImageSet]:
    """Return the training images and the test images; pictures of a folder are fitted as the model's card asks."""
    if asked.dataset == "shapes":
        return Shapes(asked.scenes, size, seed=0), Shapes(min(asked.scenes, TEST_SCENES), size, seed=1)
    if asked.dataset == "cifar10":
        return tuple(cifar10(asked.data, train, asked.download) for train in (True, False))
    return train_and_test(asked.data, size, partial(read_fitted, card=card))


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the options: those of model and recipe come from the fields of the two dataclasses."""
    parser = argparse.ArgumentParser(
        "python -m vit_tutorial.train",
        "%(prog)s [options]",
        __doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--dataset", choices=PRESETS, help="what to train on (default: shapes; with --data, folder)")
    add("--data", help="where the images are: a folder with train/ and test/, or CIFAR-10's folder")
    add("--scenes", type=int, metavar="N", default=28_000, help="how many Shapes (default: 28000)")
    add("--weights", metavar="NAME", help=f"start from {', '.join(WEIGHTS)} or a model.safetensors")
    add("--trained", choices=("all", "head"), default="all", help="the part of the model that is trained")
    add("--download", action="store_true", help="fetch CIFAR-10, or published weights, if they are not there")
    add("--out", help="the run's folder (default: runs/DATASET)")
    devices = ["cpu", *["cuda"] * torch.cuda.is_available(), *["mps"] * torch.backends.mps.is_available()]
    add("--device", choices=devices, help="where to compute (default: the best there is)")
    add("--validate", type=int, metavar="N", help="hold out N training images, and never test")
    add_options(parser.add_argument_group("the model (default: the data set's preset)"), MODEL_OPTIONS)
    add_options(parser.add_argument_group("the recipe (default: the data set's preset)"), fields(Recipe))
    return parser


def add_options(group: argparse._ArgumentGroup, options: Iterable[Field]) -> None:
    """Add an option for each of these fields of a dataclass, of the type of its default; `--no-flip` for a switch."""
    for field in options:
        choices = {"position": POSITIONS, "pool": POOLS}.get(field.name, field.metadata.get("choices"))
        kind = {"type": type(field.default), "choices": choices}
        if isinstance(field.default, bool):
            kind = {"action": argparse.BooleanOptionalAction, "default": None}
        group.add_argument("--" + field.name.replace("_", "-"), help=field.metadata.get("help"), **kind)


def chosen(asked: argparse.Namespace, options: Iterable[Field]) -> dict:
    """Return those of the options that were given."""
    return {field.name: value for field in options if (value := getattr(asked, field.name)) is not None}


def choose_recipe(preset: Recipe, given: dict) -> Recipe:
    """Return the preset with the options that were given. In a shorter run, its warm-up takes half at most."""
    warmup = min(preset.warmup_epochs, given.get("epochs", preset.epochs) / 2)
    return replace(preset, **{"warmup_epochs": warmup, **given})


if __name__ == "__main__":
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # older terminals on Windows have no "×"
    sys.exit(main())
