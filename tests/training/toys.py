"""Images and models so small that a training run takes a moment, and processes that can be killed while they train."""

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from vit_tutorial import ImageSet, VisionTransformer, ViTConfig, train
from vit_tutorial.model_card import ModelCard
from vit_tutorial.training import PRESETS, Recipe
from vit_tutorial.training.recipe import Preset

CLASSES = ("dark", "bright")

# Everything that draws random numbers at once.
RESTLESS = {"crop": 2, "flip": True, "randaugment": True, "mixup": 0.4, "cutmix": 1.0}
RESTLESS_MODEL = {"dropout": 0.1, "attention_dropout": 0.1, "drop_path": 0.2}


def shrink(put: Callable = setattr, scenes: int = 60, dropout: bool = True, **recipe) -> None:
    """Give the command a small model, few scenes and this recipe; `put` may be the `setattr` of a monkeypatch."""
    sizes = {"image_size": 16, "patch_size": 8, "embed_dim": 8, "depth": 2, "num_heads": 2, "mlp_dim": 16}
    config = ViTConfig(**sizes, **(RESTLESS_MODEL if dropout else {}))
    preset = Preset(config, replace(PRESETS["shapes"].recipe, batch_size=16, **recipe))
    put(train, "PRESETS", {**PRESETS, "shapes": preset})
    for name in ("SCENES", "TEST_SCENES"):
        put(train, name, scenes)


def bright_or_dark(count: int = 24, seed: int = 0) -> ImageSet:
    """Noise of 8×8 pixels, on a dark ground and on a bright one, in turn."""
    labels = torch.arange(count) % 2
    noise = torch.randint(100, (count, 3, 8, 8), generator=torch.Generator().manual_seed(seed))
    return ImageSet((noise + 150 * labels[:, None, None, None]).to(torch.uint8), labels, CLASSES)


def small_vit(**options) -> VisionTransformer:
    """Two blocks, four patches; the same weights every time."""
    torch.manual_seed(0)
    small = {"image_size": 8, "patch_size": 4, "embed_dim": 8, "depth": 2, "num_heads": 2, "mlp_dim": 16}
    return VisionTransformer(ViTConfig(**{**small, "num_classes": 2, **options}))


def short(**options) -> Recipe:
    return Recipe(**{"epochs": 3, "batch_size": 8, "learning_rate": 1e-2, **options})


class Copycat(nn.Module):
    """Answers with the class that the first byte of an image names: its mistakes are chosen by who draws the image."""

    def __init__(self, classes: tuple[str, ...]):
        super().__init__()
        self.card = ModelCard(classes, mean=(0.0,) * 3, std=(1 / 255,) * 3)  # leaves bytes as they are
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, images):
        return self.scale * nn.functional.one_hot(images[:, 0, 0, 0].round().long(), len(self.card.classes)).float()


def answered(answers: list[int], labels: list[int]) -> ImageSet:
    """Images of one colour to which a `Copycat` gives these answers."""
    pixels = torch.tensor(answers, dtype=torch.uint8)[:, None, None, None].expand(-1, 3, 1, 1).clone()
    return ImageSet(pixels, torch.tensor(labels), ("ant", "bee", "cow"))


@contextmanager
def float64() -> Iterator[None]:
    """Rounding out of the way: Adam makes whole steps of it where a gradient is zero, as for the bias of the keys."""
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


def weights_of(model: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def differing(here: dict[str, torch.Tensor], there: dict[str, torch.Tensor]) -> list[str]:
    """The names of the tensors that are not the same to the last bit."""
    assert here.keys() == there.keys()
    return [name for name in here if not torch.equal(here[name], there[name])]


def start(function: Callable, *arguments, output: Path) -> multiprocessing.Process:
    """Call the function in a process of its own, its output in a file. Where there is fork, they share one import."""
    context = multiprocessing.get_context("forkserver" if hasattr(os, "fork") else "spawn")
    if hasattr(os, "fork"):
        context.set_forkserver_preload(["torchvision", "vit_tutorial.train", "training.toys"])
    process = context.Process(target=redirected, args=(output, function, *arguments))
    process.start()
    return process


def redirected(output: Path, function: Callable, *arguments) -> None:
    with open(output, "ab") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    torch.set_num_threads(1)
    sys.exit(function(*arguments))
