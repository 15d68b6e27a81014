"""Everything that decides a training run besides the images, and what is chosen for each data set."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from ..config import ViTConfig
from ..errors import check_fields, require_choice, require_number, require_rate, require_whole
from .optimizer import warmup_cosine

SCHEDULES = ("cosine", "constant")
PRECISIONS = ("fp32", "bf16")


def setting(default: object, help: str):
    """Return a field of a recipe; `help` is what the command's `--help` says of it."""
    return field(default=default, metadata={"help": help})


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a run: same recipe, same model, same images, same weights at the end (on one CPU).

    For a short run set `beta2` below the usual 0.999: AdamW averages over about 1 / (1 - beta2) steps.

    Raises ValueError for a value of the wrong type or out of range.
    Sources: AdamW, Loshchilov & Hutter 2017 (arXiv 1711.05101); the recipe, appendix B.1 of the paper, and for
    small data Touvron et al. 2020 (arXiv 2012.12877), Table 9; beta2 of 0.95, He et al. 2021 (arXiv 2111.06377),
    Table 8.
    """

    epochs: int = setting(10, "how often every image is seen")
    batch_size: int = setting(128, "images in a step, over all processes")
    learning_rate: float = setting(1e-3, "the peak, which is reached after warm-up")
    beta2: float = setting(0.999, "share of AdamW's mean of squared gradients kept per step")
    weight_decay: float = setting(0.05, "of the matrices; biases and norms do not decay")
    warmup_epochs: float = setting(1.0, "epochs of linear warm-up")
    schedule: str = setting("cosine", "the learning rate after warm-up: down to 0 (cosine), or constant")
    label_smoothing: float = setting(0.0, "share of the target that all classes divide")
    clip_norm: float = setting(1.0, "longest gradient of a step")
    crop: int = setting(0, "shift an image by up to so many pixels; its edge is reflected")
    flip: bool = setting(False, "mirror half of the images")
    randaugment: bool = setting(False, "two random operations on each image (RandAugment)")
    mixup: float = setting(0.0, "alpha of mixup's Beta distribution; 0 for no mixup")
    cutmix: float = setting(0.0, "alpha of cutmix's Beta distribution; 0 for no cutmix")
    precision: str = setting("fp32", "what the layers compute in, fp32 or bf16; the weights stay fp32")
    seed: int = setting(0, "decides everything random")

    def __post_init__(self):
        check_fields(self, require_whole, "epochs", "batch_size")
        check_fields(self, require_whole, "crop", "seed", least=0)
        check_fields(self, require_rate, "beta2", "label_smoothing")
        check_fields(self, require_number, "learning_rate", "clip_norm", positive=True)
        check_fields(self, require_number, "weight_decay", "warmup_epochs", "mixup", "cutmix")
        require_choice("schedule", self.schedule, SCHEDULES)
        require_choice("precision", self.precision, PRECISIONS)
        for name in ("flip", "randaugment"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}")
        if self.warmup_epochs > self.epochs:
            raise ValueError(f"warmup_epochs {self.warmup_epochs} is more than all epochs, {self.epochs}")

    def steps_per_epoch(self, num_images: int) -> int:
        """Return how many batches to cut, as evenly as possible, so that none is larger than `batch_size`."""
        return math.ceil(num_images / self.batch_size)

    def learning_rate_at(self, step: int, steps_per_epoch: int) -> float:
        """Return the learning rate of a step, counted from 0 over the whole run."""
        warmup_steps = round(self.warmup_epochs * steps_per_epoch)
        if self.schedule == "constant" and step >= warmup_steps:
            return self.learning_rate
        return self.learning_rate * warmup_cosine(step, warmup_steps, self.epochs * steps_per_epoch)

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
FINE_TUNING = Recipe(30, 32, learning_rate=1e-4, warmup_epochs=3.0, flip=True)  # for trained weights
