"""What a training run is, besides the model and the images."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from ..errors import require_choice
from .optimizer import SCHEDULES

PRECISIONS = ("fp32", "bf16")
TRAINED = ("all", "head")

# What each number of a recipe can be, and the sentence that says so.
LIMITS = {
    "epochs": (lambda n: n >= 1, "must be at least 1"),
    "batch_size": (lambda n: n >= 1, "must be at least 1"),
    "learning_rate": (lambda x: x > 0, "must be above 0"),
    "beta2": (lambda x: 0 <= x < 1, "must be at least 0 and below 1"),
    "weight_decay": (lambda x: x >= 0, "cannot be negative"),
    "warmup_epochs": (lambda x: x >= 0, "cannot be negative"),
    "label_smoothing": (lambda x: 0 <= x < 1, "must be at least 0 and below 1"),
    "clip_norm": (lambda x: x > 0, "must be above 0"),
    "crop": (lambda n: 0 <= n < 2**15, "must be from 0 to 32767"),
    "mixup": (lambda x: x >= 0, "cannot be negative"),
    "cutmix": (lambda x: x >= 0, "cannot be negative"),
    "layer_decay": (lambda x: 0 < x <= 1, "must be above 0 and at most 1"),
    "seed": (lambda n: 0 <= n < 2**30, "must be from 0 to 1073741823"),
}
CHOICES = {"schedule": SCHEDULES, "precision": PRECISIONS, "trained": TRAINED}
KINDS = {
    "int": (int, "a whole number"),
    "float": ((int, float), "a finite number"),
    "bool": (bool, "True or False"),
    "str": (str, "a string"),
}


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a run: same recipe, same model, same images, same weights at the end (on one CPU).

    `learning_rate` is the peak: reached after `warmup_epochs` of linear warm-up, left along a cosine that ends at
    0, or kept ("constant"). `beta2` is how much of AdamW's mean of squared gradients a step keeps: it looks back
    over about 1 / (1 - beta2) steps, and for a short run the usual 1,000 are long. `crop` is by how many pixels an
    image may be shifted, its edge reflected; `mixup` and `cutmix` are the α of their Beta distribution, 0 for none.
    For a model that was trained before: `trained="head"` leaves everything else as it is, and `layer_decay` below 1
    makes the steps of a layer smaller by that factor for each layer above it.

    Raises ValueError for what cannot be.
    Sources: AdamW, Loshchilov & Hutter 2017 (arXiv 1711.05101); the recipe, appendix B.1 of the paper, and for
    small data Touvron et al. 2020 (arXiv 2012.12877), Table 9; beta2 of 0.95, He et al. 2021 (arXiv 2111.06377),
    Table 8.
    """

    epochs: int = 10
    batch_size: int = 128
    learning_rate: float = 1e-3
    beta2: float = 0.999
    weight_decay: float = 0.05
    warmup_epochs: float = 1.0
    schedule: str = "cosine"
    label_smoothing: float = 0.0
    clip_norm: float = 1.0
    crop: int = 0
    flip: bool = False
    randaugment: bool = False
    mixup: float = 0.0
    cutmix: float = 0.0
    trained: str = "all"
    layer_decay: float = 1.0
    precision: str = "fp32"
    compile: bool = False
    seed: int = 0

    def __post_init__(self):
        for field in fields(self):
            check_kind(field.name, getattr(self, field.name), field.type)
        for name, (fits, rule) in LIMITS.items():
            if not fits(getattr(self, name)):
                raise ValueError(f"{name} {rule}, got {getattr(self, name)!r}")
        for name, choices in CHOICES.items():
            require_choice(name, getattr(self, name), choices)
        if self.warmup_epochs > self.epochs:
            raise ValueError(f"warmup_epochs {self.warmup_epochs} is more than all epochs, {self.epochs}")

    def steps_per_epoch(self, num_images: int) -> int:
        """Batches are cut as evenly as can be, none larger than `batch_size`: every image once, no short last batch."""
        return math.ceil(num_images / self.batch_size)

    def epoch_seed(self, index: int) -> int:
        """What everything random in epoch `index` starts from, so that a run can go on at any epoch."""
        return 1_000_003 * self.seed + index


def check_kind(name: str, value: object, kind: str) -> None:
    """Raise ValueError unless the value of field `name` is an "int", "float", "bool" or "str", and finite."""
    types, described = KINDS[kind]
    fits = isinstance(value, types) and isinstance(value, bool) == (kind == "bool")  # True is an int to Python
    if not fits or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"{name} must be {described}, got {value!r}")
