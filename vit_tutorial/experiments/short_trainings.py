"""Small trainings: to look for a learning rate, for a task that needs positions, and at another size."""

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import torch
from jaxtyping import Int, UInt8
from torch import Tensor
from torch.nn.functional import cross_entropy, max_pool2d
from torch.nn.utils import clip_grad_norm_, parameters_to_vector

from ..data import ImageSet, Shapes
from ..errors import require_choice
from ..model import VisionTransformer
from ..pretrained import load_checkpoint
from ..training import PRESETS, Recipe, TrainingAlarm, evaluate, fit

STEPS, BATCH = 500, 32
OWN_SCENES = 10  # added to a seed: the shipped model was trained on the scenes of seed 0 and tested on those of seed 1
QUARTERS = ("top left", "top right", "bottom left", "bottom right")


@cache
def scenes() -> tuple[ImageSet, ImageSet]:
    """Return the scenes to train on, and new ones."""
    return Shapes(4_000, 16, seed=0), Shapes(2_000, 16, seed=3)


@cache  # the check, or a cell that runs again, may ask for the same run
def short_run(learning_rate: float, seed: int = 0) -> float:
    """Train a small model for 500 steps; return the share of 2,000 new scenes that it gets right, from 0 to 1.

    It has two blocks of width 32 and sees `Shapes` of 16×16 pixels. `learning_rate` is the peak, after 50 steps of
    warm-up. The rest of the recipe is that of PRESETS["shapes"]. Raises FloatingPointError if the model breaks.
    """
    train, new = scenes()
    epochs = STEPS * BATCH // len(train)
    config, recipe = PRESETS["shapes"]
    config = replace(config, image_size=16, embed_dim=32, depth=2, mlp_dim=64)
    changes = {"epochs": epochs, "warmup_epochs": 0.1 * epochs, "learning_rate": learning_rate, "seed": seed}
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
        warnings.simplefilter("ignore", TrainingAlarm)  # what it warns of is what the run returns
        torch.manual_seed(seed)
        model = VisionTransformer(config)
        fit(model, train, replace(recipe, **changes))
    return evaluate(model, new).accuracy


@torch.random.fork_rng(devices=[])
def first_steps(seed: int, count: int = 100, rate: float = 1e-4) -> tuple[list[float], int]:
    """Train a new Shapes model for `count` steps at one rate, and measure how its weights move.

    Return how far they moved in each step, as a multiple of `rate`, and how many gradients were clipped to length 1.
    """
    torch.manual_seed(seed)
    model, images = VisionTransformer(PRESETS["shapes"][0]), Shapes(count * BATCH, 28, OWN_SCENES + seed)
    pixels = load_checkpoint("shapes").card.normalise(images.pixels)
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, betas=(0.9, 0.95), weight_decay=0.0)
    moved, clipped = [], 0
    for batch, labels in zip(pixels.split(BATCH), images.labels.split(BATCH), strict=True):
        before = parameters_to_vector(model.parameters()).detach().clone()
        loss = cross_entropy(model(batch), labels)
        optimizer.zero_grad()
        loss.backward()
        clipped += clip_grad_norm_(model.parameters(), 1.0).item() > 1
        optimizer.step()
        moved.append((parameters_to_vector(model.parameters()) - before).norm().item() / rate)
    return moved, clipped


def with_dabs(
    images: ImageSet, which: Sequence[int] | Int[Tensor, " n"], count: int, side: int = 4, shift: int = 0
) -> UInt8[Tensor, "n 3 H W"]:
    """Return some of the scenes with paint in `count` patches of 4×4 pixels, those farthest from the object first.

    The middle of each, side×side pixels, gets the median colour of the object; no painted patch touches the object.
    `shift` moves the paint by so many pixels to the right and down.
    """
    painted, edge = images.pixels[which].clone(), (4 - side) // 2 + shift
    for scene, mask in zip(painted, images.masks[which], strict=True):
        paint = scene[:, mask].float().median(dim=1).values.byte()
        free = ~max_pool2d(mask[None].float(), 4)[0].bool()  # the patches without a piece of it: (h, w)
        centre = mask.nonzero().float().mean(dim=0)
        away = sorted(free.nonzero().tolist(), key=lambda patch: -(4 * torch.tensor(patch) + 1.5 - centre).norm())
        for row, column in away[:count]:
            top, left = 4 * row + edge, 4 * column + edge
            scene[:, top : top + side, left : left + side] = paint[:, None, None]
    return painted


def quarters(count: int, seed: int = 0) -> ImageSet:
    """Draw `Shapes` of 28×28 pixels, labelled by the quarter in which the centre of the object's pixels lies."""
    drawn = Shapes(count, 28, seed)
    rows, columns = (drawn.masks.sum(dim=axis) @ torch.arange(28) / drawn.masks.sum(dim=(1, 2)) for axis in (2, 1))
    labels = 2 * (rows > 13.5).long() + (columns > 13.5).long()
    return replace(drawn, labels=labels, classes=QUARTERS)


def model_with_positions(kind: str, size: float) -> VisionTransformer:
    """Build the small model for `quarters` with a table of positions of a kind and a size.

    "grid" is a table of sines and cosines. In "shuffled" its rows belong to other patches, by chance. Both stay as they
    are; "learned" starts from small random numbers, and is trained. The size is the root mean square of the values
    around the patches' mean.
    """
    require_choice("kind", kind, ("grid", "shuffled", "learned"))
    config, _ = PRESETS["shapes"]
    position = "learned" if kind == "learned" else "sincos"
    model = VisionTransformer(replace(config, num_classes=len(QUARTERS), position=position))
    table = model.embeddings.position.table.data
    if kind == "shuffled":
        table[1:] = table[1 + torch.randperm(len(table) - 1)]
    table *= size / (table[1:] - table[1:].mean(dim=0)).square().mean().sqrt()
    return model


def tune(model: VisionTransformer, trained: str, seed: int, rate: float = 1e-2, scenes: int = 1600) -> None:
    """Train the parameters with `trained` in their names on scenes of the model's size, each shown once.

    The others are frozen meanwhile; afterwards nothing is frozen. `rate` is the peak of the learning rate: the default
    is the best, or nearly so, for the "head" and for every "norm".
    """
    images = Shapes(scenes, model.config.image_size, OWN_SCENES + seed)
    recipe = Recipe(epochs=1, batch_size=32, learning_rate=rate, warmup_epochs=0.05, seed=seed)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(trained in name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TrainingAlarm)  # of a low first loss: the head was trained before
            fit(model, images, recipe)
    finally:  # a reader may have stopped it
        model.requires_grad_(True)
