"""Train a Vision Transformer from the command line, with the same loop as the notebooks.

    python -m vit_tutorial.train --dataset shapes                (two minutes on one core)
    python -m vit_tutorial.train --dataset cifar10 --download    (hours on a GPU, days without)
    torchrun --nproc-per-node=4 -m vit_tutorial.train ...        (several GPUs or CPU cores share every batch)

Your own pictures lie in a folder for each class, in train and in test; or only in folders of classes, and --split 0.2
takes a fifth of each for the test:

    my_pictures/train/cat/1.jpg           my_pictures/cat/1.jpg
    my_pictures/train/dog/2.jpg           my_pictures/dog/2.jpg
    my_pictures/test/cat/3.jpg            my_pictures/cat/3.jpg

If you have few, begin with weights that ship with the package, and train the head alone (50 pictures: a minute):

    python -m vit_tutorial.train --data my_pictures --split 0.2 --weights dinov2-s14 --image-size 224 --trained head

A run lives in a folder (--out), with checkpoint.safetensors, metrics.csv (a line for each epoch) and model.safetensors.
Interrupted at any moment, the same command goes on after the last whole epoch.
"""

import argparse
import math
import shlex
import sys
import time
from dataclasses import asdict, replace
from functools import partial

import torch

from .adapting import change_resolution, replace_head
from .data import ImageSet, Shapes, cifar10, image_folder
from .data.picture_folder import train_and_test
from .files import as_path
from .inference import resize_as_trained
from .model import VisionTransformer
from .model_card import ModelCard
from .pretrained import load_checkpoint
from .saving import load_model, save_model
from .training import FINE_TUNING, HEAD_ALONE, PRESETS, Progress, Recipe, evaluate, fit, print_progress
from .training.distributed import is_first, process_group, say
from .training.head_alone import head_alone

SCENES, TEST_SCENES = 28_000, 6_400  # of Shapes


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return its exit status."""
    arguments = sys.argv[1:] if arguments is None else arguments
    parser = make_parser()
    asked = parser.parse_args(arguments)
    try:
        with process_group(asked.device) as device:
            carry_out(asked, device, f"{parser.prog} {shlex.join(arguments)}")
    except KeyboardInterrupt:
        print("\nstopped. The same command goes on after the last whole epoch.")
        return 130
    except (ValueError, OSError, FloatingPointError) as error:  # a mistake of the user; a bug raises others
        parser.error(" ".join(str(error).split()))
    return 0


def make_parser() -> argparse.ArgumentParser:
    """Return the parser; the recipe has more fields than there are options, and Python reaches them all."""
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser("python -m vit_tutorial.train", "%(prog)s [options]", __doc__, formatter_class=raw)
    add = parser.add_argument
    add("--dataset", choices=PRESETS, help="what to train on (default: shapes; with --data, folder)")
    add("--data", help="where the images are: a folder as above, or CIFAR-10's")
    add("--split", type=float, metavar="SHARE", help="of each class in --data, kept for the test: 0.2")
    add("--download", action="store_true", help="fetch CIFAR-10 if it is not there")
    add("--weights", metavar="NAME", help="start from shapes, cifar10, dinov2-s14 or a model.safetensors")
    add("--trained", choices=("all", "head"), default="all", help="the part of the model that is trained")
    add("--image-size", type=int, metavar="PIXELS", help="of a side (default: that of the weights or the preset)")
    add("--out", help="the run's folder (default: runs/DATASET)")
    add("--device", choices=("cpu", "cuda", "mps"), help="where to compute (default: the best there is)")
    recipe = parser.add_argument_group("the recipe (default: the data set's)", argument_default=argparse.SUPPRESS)
    add = recipe.add_argument
    add("--epochs", type=int, help="how often every image is seen")
    add("--batch-size", type=int, help="images in a step, over all processes")
    add("--learning-rate", type=float, help="the peak, which is reached after warm-up")
    add("--warmup-epochs", type=float, help="epochs of linear warm-up")
    add("--cutmix", type=float, help="alpha of cutmix's Beta distribution; 0 for no cutmix")
    add("--seed", type=int, help="decides everything random")
    return parser


def choose_recipe(asked: argparse.Namespace) -> Recipe:
    """Return the preset with the options that were given. In a shorter run, its warm-up takes half at most."""
    trained = HEAD_ALONE if asked.trained == "head" else FINE_TUNING  # which needs weights
    preset = trained if asked.weights else PRESETS[asked.dataset].recipe
    given = {name: value for name, value in vars(asked).items() if name in asdict(preset)}
    warmup = min(preset.warmup_epochs, given.get("epochs", preset.epochs) / 2)
    return replace(preset, **{"warmup_epochs": warmup, **given})


def load_images(asked: argparse.Namespace, size: int, card: ModelCard | None = None) -> tuple[ImageSet, ImageSet]:
    """Return the training images and the test images; pictures of a folder are fitted as the model's card asks."""
    if asked.dataset == "shapes":
        say(f"drawing {SCENES:,} Shapes to train on, and {TEST_SCENES:,} for the test")
        return Shapes(SCENES, size, seed=0), Shapes(TEST_SCENES, size, seed=1)
    if asked.dataset == "cifar10":
        say("reading CIFAR-10")
        return tuple(cifar10(asked.data, train, asked.download) for train in (True, False))
    folder = as_path("--data", asked.data)
    say(f"reading {folder}")
    resize = partial(resize_as_trained, card=card)
    if asked.split is None:
        return train_and_test(folder, size, resize)
    images, test = image_folder(folder, size, resize).split(asked.split)
    say(f"of each class {asked.split:.0%} are kept for the test, {len(test):,} pictures")
    return images, test


def load_model_and_images(asked: argparse.Namespace, seed: int) -> tuple[VisionTransformer, ImageSet, ImageSet]:
    """Return the model, a new one or that of --weights made fit for its images, the training and the test images."""
    if asked.weights is None:
        config = PRESETS[asked.dataset].config
        if asked.image_size is not None:
            config = replace(config, image_size=asked.image_size)
        images, test = load_images(asked, config.image_size)
        torch.manual_seed(seed)
        return VisionTransformer(replace(config, num_classes=len(images.classes))), images, test
    load = load_model if asked.weights.endswith(".safetensors") else load_checkpoint
    model = load(asked.weights)
    if asked.image_size is not None:
        model = change_resolution(model, asked.image_size)
    images, test = load_images(asked, model.config.image_size, model.card)
    if model.card is None or model.card.classes != images.classes:
        say(f"a new head for {len(images.classes)} classes")
        model = replace_head(model, len(images.classes))
    return model, images, test


def carry_out(asked: argparse.Namespace, device: torch.device, command: str) -> None:
    """Train, test once and save."""
    asked.dataset = asked.dataset or ("shapes" if asked.data is None else "folder")
    if (asked.split is not None and asked.dataset != "folder") or (asked.data and asked.dataset == "shapes"):
        raise ValueError("--split is for a folder of your own in --data, and the built-in shapes need neither")
    if asked.trained == "head" and (asked.weights is None or "cutmix" in asked):
        raise ValueError("--trained head needs --weights and no --cutmix: the body sees each picture once, as it is")
    if asked.dataset == "shapes" and asked.weights is None:
        torch.set_num_threads(1)  # in a model this small several threads would wait for each other
    recipe = choose_recipe(asked)  # mistakes are found before images are read
    model, images, test = load_model_and_images(asked, recipe.seed)
    model.card = (model.card or ModelCard((), *images.mean_std())).with_classes(images.classes)
    model.to(device)
    out = as_path("--out", asked.out or f"runs/{asked.dataset}")
    say(f"{images!r}, on {device}, in {out}", model.config, recipe)
    say("If it takes too long: fewer --epochs, a smaller --image-size; with --weights, --trained head")
    about = {"command": command, "recipe": asdict(recipe), "hardware": f"{device}, {torch.get_num_threads()} threads"}
    saved = -math.inf

    def save(**more: object) -> None:
        nonlocal saved
        model.card = replace(model.card, about={**model.card.about, **about, **more})
        save_model(model, out / "model.safetensors")
        saved = time.perf_counter()

    def save_epoch(progress: Progress) -> None:
        """Save the model after each epoch; while epochs are short, every ten seconds, since it takes one or two."""
        if progress.finished and time.perf_counter() - saved > 10:
            save(**{"epochs done": progress.epoch})

    network, shown = head_alone(model, images) if asked.trained == "head" else (model, images)
    history = fit(network, shown, recipe, folder=out, watch=[print_progress, save_epoch])
    score = evaluate(model, test)
    if is_first():
        tested = {"test images": len(test), "test accuracy": score.accuracy, "95 % interval": score.interval()}
        save(**tested, seconds=sum(epoch.seconds for epoch in history), **{"epochs done": len(history)})
    say(f"test: {score.told()}. The model is in {out / 'model.safetensors'}; the README shows how to ask it")


if __name__ == "__main__":
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # a file that Windows writes may have no "×"
    sys.exit(main())
