"""What a training run is, besides the model and the images."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ..validation import check_choice, check_positive, check_rate
from .optimizer import SCHEDULES

PRECISIONS = ("fp32", "bf16")
TRAINED = ("all", "head")


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
        check_positive("epochs", self.epochs)
        check_positive("batch_size", self.batch_size)
        check_rate("label_smoothing", self.label_smoothing)
        check_choice("schedule", self.schedule, SCHEDULES)
        check_choice("precision", self.precision, PRECISIONS)
        check_choice("trained", self.trained, TRAINED)
        if not 0 <= self.beta2 < 1:
            raise ValueError(f"beta2 must be at least 0 and below 1, got {self.beta2!r}")
        if not 0 < self.layer_decay <= 1:
            raise ValueError(f"layer_decay must be above 0 and at most 1, got {self.layer_decay!r}")
        for name in ("learning_rate", "clip_norm"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)!r}")
        for name in ("weight_decay", "warmup_epochs", "crop", "mixup", "cutmix"):
            if not getattr(self, name) >= 0:
                raise ValueError(f"{name} cannot be negative, got {getattr(self, name)!r}")
        if self.warmup_epochs > self.epochs:
            raise ValueError(f"warmup_epochs {self.warmup_epochs} is more than all epochs, {self.epochs}")
        for name, limit in (("crop", 2**15), ("seed", 2**30)):
            if not isinstance(getattr(self, name), int) or not 0 <= getattr(self, name) < limit:
                raise ValueError(f"{name} must be a whole number from 0 to {limit - 1}, got {getattr(self, name)!r}")

    def steps_per_epoch(self, num_images: int) -> int:
        """Batches are cut as evenly as can be, none larger than `batch_size`: every image once, no short last batch."""
        return math.ceil(num_images / self.batch_size)

    def epoch_seed(self, index: int) -> int:
        """What everything random in epoch `index` starts from, so that a run can go on at any epoch."""
        return 1_000_003 * self.seed + index
