"""Train a Vision Transformer from the command line, with the same loop as the notebooks.

    python -m vit_tutorial.train --dataset shapes                (two minutes on one core)
    python -m vit_tutorial.train --dataset cifar10 --download    (hours on a GPU, days without)
    torchrun --nproc-per-node=4 -m vit_tutorial.train ...        (several GPUs or CPU cores share every batch)

Your own pictures lie in a folder for each class, in train and in test; or only in folders of classes, and --split 0.2
takes a fifth of each for the test:

    my_pictures/train/cat/1.jpg           my_pictures/cat/1.jpg
    my_pictures/train/dog/2.jpg           my_pictures/cat/2.jpg
    my_pictures/test/cat/3.jpg            my_pictures/dog/3.jpg
    my_pictures/test/dog/4.jpg            my_pictures/dog/4.jpg

If you have few, begin with weights that ship with the package, and train the head alone. With 50 pictures this takes a
minute on two cores:

    python -m vit_tutorial.train --data my_pictures --split 0.2 --weights dinov2-s14 --image-size 224 --trained head

Then ask the model, in Python, about a new picture, and see which patches make it say so:

    from vit_tutorial import analysis, load_photo, predict
    from vit_tutorial.plotting import show_seen
    from vit_tutorial.saving import load_model

    model = load_model("runs/folder/model.safetensors")
    best = predict(model, "new.jpg", top=1)[0]
    photo, label = load_photo("new.jpg", 224), [model.card.classes.index(best.name)]
    seen = analysis.class_attention(model, model.card.normalise(photo[None]), label)
    show_seen(photo, seen, [best.name], "What makes it say so").savefig("seen.png")

A run lives in a folder (--out), with checkpoint.safetensors, metrics.csv (a line for each epoch) and model.safetensors.
Interrupted at any moment, the same command goes on after the last whole epoch. Choose with --validate, which holds out
training images and leaves the test set alone; then train once without it, in another folder, to be tested once.
With --weights, positions are interpolated for --image-size, pictures are prepared as the model's card asks, and the
head is new unless the classes are the same: so --trained head can come first, and its model.safetensors next.
"""

from __future__ import annotations

import argparse
import math
import shlex
import sys
import time
from collections.abc import Iterable
from dataclasses import Field, asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .adapting import change_resolution, replace_head
from .config import POOLS, POSITIONS, Size, ViTConfig
from .data import ImageSet, Shapes, cifar10
from .data.picture_folder import train_and_test
from .errors import require_choice
from .inference import eval_mode, fit_picture
from .model import VisionTransformer
from .model_card import ModelCard
from .pretrained import CHECKPOINTS, load_checkpoint
from .saving import build_model, load_model, save_model
from .training import FINE_TUNING, PRESETS, Progress, Recipe, evaluate, fit, print_progress
from .training.distributed import is_first, process_group
from .training.recipe import PRECISIONS, SCHEDULES

CHANGEABLE = ("image_size", "dropout", "attention_dropout", "drop_path")  # in a model that is trained already
FIXED = ("in_channels", "num_classes", "representation_size", "norm_eps", "gelu")  # no options
MODEL_OPTIONS = [field for field in fields(ViTConfig) if field.name not in FIXED]
AUGMENTATION = ("crop", "flip", "randaugment", "mixup", "cutmix")
CHOICES = {"position": POSITIONS, "pool": POOLS, "schedule": SCHEDULES, "precision": PRECISIONS}
WEIGHTS = sorted(path.stem for path in CHECKPOINTS.glob("*.safetensors"))
TEST_SCENES = 6400  # of Shapes, but no more than for training


@dataclass(frozen=True, eq=False, repr=False)
class FeatureSet(ImageSet):
    """What the frozen part of a model makes of images: for `fit`, pictures of one pixel with D channels."""

    pixels: Float[Tensor, "N D 1 1"]

    def __post_init__(self):
        """Check nothing: these are no bytes."""


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = make_parser()
    asked = parser.parse_args(arguments)
    asked.dataset = asked.dataset or ("shapes" if asked.data is None else "folder")
    try:
        if asked.data and asked.dataset == "shapes":
            raise ValueError(f"Shapes are drawn, not read: what is --data {asked.data} for?")
        if asked.split is not None and asked.dataset != "folder":
            raise ValueError(f"--split is for --data with a folder for each class, and not for {asked.dataset}")
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
    if asked.dataset == "shapes" and asked.weights is None:
        torch.set_num_threads(1)  # in a model this small several threads would wait for each other
    out = Path(asked.out or f"runs/{asked.dataset}").expanduser()
    recipe = choose_recipe(asked)  # mistakes are found before images are read
    model, images, test = load_model_and_images(asked, recipe.seed)
    images, validation = (images, None) if asked.validate is None else images.split(asked.validate)
    card = model.card or ModelCard((), *images.mean_std())
    model.card = card.with_classes(images.classes)
    print(f"{images!r}, on {device}, in {out}", model.config, recipe, sep="\n")
    print("If it takes too long: fewer --epochs, a smaller --image-size; with --weights, --trained head", flush=True)
    about = {"command": command, "recipe": asdict(recipe), "hardware": f"{device}, {torch.get_num_threads()} threads"}
    saved = -math.inf

    def save(**more: object) -> None:
        nonlocal saved
        model.card = replace(model.card, about={**model.card.about, **about, **more})
        save_model(model, out / "model.safetensors")
        saved = time.perf_counter()

    def save_epoch(progress: Progress) -> None:
        """Save the model after each epoch; while epochs are short, every ten seconds."""
        if progress.finished and asked.validate is None and time.perf_counter() - saved > 10:
            save(**{"epochs done": progress.epoch})

    watch = [print_progress, save_epoch]
    network, sets = model.to(device), [images, validation]
    if asked.trained == "head":
        network, sets = head_alone(model, sets)
    history = fit(network, sets[0], recipe, validation=sets[1], folder=out, watch=watch)
    score = evaluate(model, validation or test)
    if validation:
        print(f"validation: {score.told()}. The test set was not looked at.")
        return
    tested = {"test images": len(test), "test accuracy": score.accuracy, "95 % interval": list(score.interval())}
    if is_first():
        save(**tested, seconds=sum(epoch.seconds for epoch in history))
    print(f"test: {score.told()}. The model is in {out / 'model.safetensors'}; --help shows how to ask it")


def head_alone(
    model: VisionTransformer, image_sets: list[ImageSet | None]
) -> tuple[nn.Module, list[FeatureSet | None]]:
    """Return the head as a network of its own, and what the rest of the model, which stays, makes of the images."""
    print("the body stays: what it makes of each image is computed once, without augmentation and dropout", flush=True)
    network = nn.Sequential(nn.Flatten(), model.requires_grad_(False).head.requires_grad_(True))
    network.card = ModelCard((), [0.0] * model.config.embed_dim, [1.0] * model.config.embed_dim)  # changes nothing
    return network, [images and features_of(model, images) for images in image_sets]


@torch.no_grad()
def features_of(model: VisionTransformer, images: ImageSet) -> FeatureSet:
    """Compute what the head is given for each image, and tell how long it takes."""
    device, features, start = next(model.parameters()).device, [], time.perf_counter()
    with eval_mode(model):
        for pixels in images.pixels.split(8):
            features.append(model.features(model.card.normalise(pixels.to(device))).cpu())
            if len(features) == 1:
                seconds = (time.perf_counter() - start) * len(images) / len(pixels)
                print(f"{len(images):,} images, about {seconds:.0f} seconds", flush=True)
    return FeatureSet(torch.cat(features)[:, :, None, None], images.labels, images.classes)


def load_model_and_images(asked: argparse.Namespace, seed: int) -> tuple[VisionTransformer, ImageSet, ImageSet]:
    """Return the model, a new one or that of --weights made fit for its images, the training and the test images."""
    changes = chosen(asked, MODEL_OPTIONS)
    if asked.weights is None:
        config = replace(PRESETS[asked.dataset].config, **changes)
        images, test = load_images(asked, config.image_size)
        torch.manual_seed(seed)
        return VisionTransformer(replace(config, num_classes=len(images.classes))), images, test
    model = load_weights(asked.weights)
    for name in set(changes).difference(CHANGEABLE):
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


def load_weights(name: str) -> VisionTransformer:
    """Return the model that --weights names."""
    if name.endswith(".safetensors"):
        return load_model(name)
    require_choice("weights", name, [*WEIGHTS, "a file that ends in .safetensors"])
    return load_checkpoint(name)


def load_images(asked: argparse.Namespace, size: Size, card: ModelCard | None = None) -> tuple[ImageSet, ImageSet]:
    """Return the training images and the test images; pictures of a folder are fitted as the model's card asks."""
    if asked.dataset == "shapes":
        tests = min(asked.scenes, TEST_SCENES)
        print(f"drawing {asked.scenes:,} Shapes to train on, and {tests:,} for the test", flush=True)
        return Shapes(asked.scenes, size, seed=0), Shapes(tests, size, seed=1)
    print(f"reading {asked.data or 'CIFAR-10'}", flush=True)
    if asked.dataset == "cifar10":
        return tuple(cifar10(asked.data, train, asked.download) for train in (True, False))
    images, test = train_and_test(asked.data, size, asked.split, partial(fit_picture, card=card))
    if asked.split is not None:
        print(f"of each class {asked.split:.0%} are kept for the test, {len(test):,} pictures")
    return images, test


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the options: those of model and recipe are the fields of the two dataclasses."""
    parser = argparse.ArgumentParser(
        "python -m vit_tutorial.train",
        "%(prog)s [options]",
        __doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--dataset", choices=PRESETS, help="what to train on (default: shapes; with --data, folder)")
    add("--data", help="where the images are: a folder as above, or CIFAR-10's")
    add("--split", type=float, metavar="SHARE", help="of each class in --data, kept for the test: 0.2")
    add("--scenes", type=int, metavar="N", default=28_000, help="how many Shapes (default: 28000)")
    add("--weights", metavar="NAME", help=f"start from {', '.join(WEIGHTS)} or a model.safetensors")
    add("--trained", choices=("all", "head"), default="all", help="the part of the model that is trained")
    add("--download", action="store_true", help="fetch CIFAR-10 if it is not there")
    add("--out", help="the run's folder (default: runs/DATASET)")
    devices = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    devices += ["mps"] if torch.backends.mps.is_available() else []
    add("--device", choices=devices, help="where to compute (default: the best there is)")
    add("--validate", type=int, metavar="N", help="hold out N training images, and never test")
    add_options(parser.add_argument_group("the model (default: the data set's preset)"), MODEL_OPTIONS)
    add_options(parser.add_argument_group("the recipe (default: the data set's preset)"), fields(Recipe))
    return parser


def add_options(group: argparse._ArgumentGroup, options: Iterable[Field]) -> None:
    """Add an option for each of these fields of a dataclass, of the type of its default; `--no-flip` for a switch."""
    for field in options:
        kind = {"type": type(field.default), "choices": CHOICES.get(field.name)}
        if isinstance(field.default, bool):
            kind = {"action": argparse.BooleanOptionalAction, "default": None}
        group.add_argument("--" + field.name.replace("_", "-"), help=field.metadata.get("help"), **kind)


def chosen(asked: argparse.Namespace, options: Iterable[Field]) -> dict:
    """Return those of the options that were given."""
    return {field.name: value for field in options if (value := getattr(asked, field.name)) is not None}


def choose_recipe(asked: argparse.Namespace) -> Recipe:
    """Return the preset with the options that were given. In a shorter run, its warm-up takes half at most."""
    preset, given = PRESETS[asked.dataset].recipe, chosen(asked, fields(Recipe))
    if asked.weights:
        preset = FINE_TUNING
    if asked.trained == "head":
        preset = replace(FINE_TUNING, learning_rate=1e-3, flip=False)
        if changes := [name for name in AUGMENTATION if given.get(name)]:
            raise ValueError(f"--trained head looks at each picture once, as it is, without {' or '.join(changes)}")
    warmup = min(preset.warmup_epochs, given.get("epochs", preset.epochs) / 2)
    return replace(preset, **{"warmup_epochs": warmup, **given})


if __name__ == "__main__":
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # older terminals on Windows have no "×"
    sys.exit(main())
