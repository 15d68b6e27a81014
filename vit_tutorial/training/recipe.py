"""Everything that decides a training run besides the images, and what is chosen for each data set."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from numbers import Integral
from typing import NamedTuple

from ..config import ViTConfig
from ..errors import is_number, require_choice
from .optimizer import SCHEDULES

RULES = {
    "at least 0": lambda x: x >= 0,
    "at least 1": lambda x: x >= 1,
    "above 0": lambda x: x > 0,
    "at least 0 and below 1": lambda x: 0 <= x < 1,
    "above 0 and at most 1": lambda x: 0 < x <= 1,
    "at least 0 and below 2**63": lambda x: 0 <= x < 2**63,  # what PyTorch's generators take
}
TYPES = {int: "a whole number", float: "a finite number", bool: "True or False", str: "a string"}


def setting(default, help: str, rule: str | None = None, choices: Iterable[str] | None = None):
    """Return a field of a recipe. `help` is what `--help` says; the default's type is the type of its values."""
    return field(default=default, metadata={"help": help, "rule": rule, "choices": choices})


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a run: same recipe, same model, same images, same weights at the end (on one CPU).

    For a short run set `beta2` below the usual 0.999: AdamW averages over about 1 / (1 - beta2) steps.
    `layer_decay` is for a model that was trained before.

    Raises ValueError for a value of the wrong type or out of range.
    Sources: AdamW, Loshchilov & Hutter 2017 (arXiv 1711.05101); the recipe, appendix B.1 of the paper, and for
    small data Touvron et al. 2020 (arXiv 2012.12877), Table 9; beta2 of 0.95, He et al. 2021 (arXiv 2111.06377),
    Table 8.
    """

    epochs: int = setting(10, "how often every image is seen", "at least 1")
    batch_size: int = setting(128, "images in a step, over all processes", "at least 1")
    learning_rate: float = setting(1e-3, "the peak, which is reached after warm-up", "above 0")
    beta2: float = setting(0.999, "share of AdamW's mean of squared gradients kept per step", "at least 0 and below 1")
    weight_decay: float = setting(0.05, "of the matrices; biases and norms do not decay", "at least 0")
    warmup_epochs: float = setting(1.0, "epochs of linear warm-up", "at least 0")
    schedule: str = setting("cosine", "the learning rate after warm-up: down to 0, or constant", choices=SCHEDULES)
    label_smoothing: float = setting(0.0, "share of the target that all classes divide", "at least 0 and below 1")
    clip_norm: float = setting(1.0, "longest gradient of a step", "above 0")
    crop: int = setting(0, "shift an image by up to so many pixels; its edge is reflected", "at least 0")
    flip: bool = setting(False, "mirror half of the images")
    randaugment: bool = setting(False, "two random operations on each image (RandAugment)")
    mixup: float = setting(0.0, "alpha of mixup's Beta distribution; 0 for no mixup", "at least 0")
    cutmix: float = setting(0.0, "alpha of cutmix's Beta distribution; 0 for no cutmix", "at least 0")
    layer_decay: float = setting(1.0, "a layer's learning rate, as a share of the next one's", "above 0 and at most 1")
    precision: str = setting("fp32", "what the layers compute in; the weights stay fp32", choices=("fp32", "bf16"))
    seed: int = setting(0, "decides everything random", "at least 0 and below 2**63")

    def __post_init__(self):
        for option in fields(self):
            name, value, kind = option.name, getattr(self, option.name), type(option.default)
            if is_number(value) and not isinstance(value, (int, float)):  # NumPy's could not be written as JSON
                value = int(value) if isinstance(value, Integral) else float(value)
                object.__setattr__(self, name, value)
            fits = isinstance(value, (int, float) if kind is float else kind)
            fits = fits and isinstance(value, bool) == (kind is bool)  # to Python, True is an int
            if not fits or (kind is float and not math.isfinite(value)):
                raise ValueError(f"{name} must be {TYPES[kind]}, got {value!r}")
            if choices := option.metadata["choices"]:
                require_choice(name, value, choices)
            if (rule := option.metadata["rule"]) and not RULES[rule](value):
                raise ValueError(f"{name} must be {rule}, got {value!r}")
        if self.warmup_epochs > self.epochs:
            raise ValueError(f"warmup_epochs {self.warmup_epochs} is more than all epochs, {self.epochs}")

    def steps_per_epoch(self, num_images: int) -> int:
        """Return how many batches to cut, as evenly as possible, so that none is larger than `batch_size`."""
        return math.ceil(num_images / self.batch_size)

    def learning_rate_at(self, step: int, steps_per_epoch: int) -> float:
        """Return the learning rate of a step, counted from 0 over the whole run."""
        warmup_steps = round(self.warmup_epochs * steps_per_epoch)
        return self.learning_rate * SCHEDULES[self.schedule](step, warmup_steps, self.epochs * steps_per_epoch)

    def epoch_seed(self, index: int) -> int:
        """Return the seed of everything random in epoch `index`, so that a run can go on at any epoch."""
        return (1_000_003 * self.seed + index) % 2**50  # PyTorch takes 64 bits


class Preset(NamedTuple):
    """What is trained on a data set unless somebody asks for something else."""

    config: ViTConfig
    recipe: Recipe


PRESETS = {
    "shapes": Preset(
        ViTConfig(image_size=28, patch_size=4, num_classes=8, embed_dim=64, depth=4, num_heads=4, mlp_dim=128),
        Recipe(epochs=2, batch_size=32, learning_rate=2e-3, beta2=0.95, warmup_epochs=0.1),
    ),
    "cifar10": Preset(
        ViTConfig(image_size=32, patch_size=4, embed_dim=128, depth=6, num_heads=4, mlp_dim=256),
        Recipe(180, 256, learning_rate=2e-3, warmup_epochs=5.0, label_smoothing=0.1, crop=4, flip=True, cutmix=1.0),
    ),
}
PRESETS["folder"] = PRESETS["cifar10"]
# For a model that starts from trained weights: the lower a layer, the less it moves. The share of 0.75 is that of
# He et al. 2021 (arXiv 2111.06377), Table 9.
FINE_TUNING = Recipe(30, 32, learning_rate=1e-3, warmup_epochs=3.0, flip=True, layer_decay=0.75)
