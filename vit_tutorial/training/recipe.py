"""Everything that decides a training run besides the images, and what is chosen for each data set."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from torch import nn

from ..config import ViTConfig
from ..errors import check_fields, require_choice, require_number, require_rate, require_whole


@dataclass(frozen=True)
class Recipe:
    """Everything that decides a run: same recipe, same model, same images, same weights at the end (on one CPU).

    For a short run set `beta2` below the usual 0.999: AdamW averages over about 1 / (1 - beta2) steps.
    Sources: AdamW, Loshchilov & Hutter 2017 (arXiv 1711.05101); the recipe, appendix B.1 of the paper, and for small
    data Touvron et al. 2020 (arXiv 2012.12877), Table 9; beta2 of 0.95, He et al. 2021 (arXiv 2111.06377), Table 8.
    """

    epochs: int = 10  # how often every image is seen
    batch_size: int = 128  # images in a step, over all processes
    learning_rate: float = 1e-3  # the peak, which is reached after warm-up
    beta2: float = 0.999  # share of AdamW's mean of squared gradients kept per step
    weight_decay: float = 0.05  # of the matrices
    warmup_epochs: float = 1.0  # epochs of linear warm-up
    schedule: str = "cosine"  # the learning rate after warm-up: down to 0, or "constant"
    label_smoothing: float = 0.0  # share of the target that all classes divide
    clip_norm: float = 1.0  # longest gradient of a step
    crop: int = 0  # shift an image by up to so many pixels; its edge is reflected
    flip: bool = False  # mirror half of the images
    randaugment: bool = False  # two random operations on each image
    mixup: float = 0.0  # alpha of mixup's Beta distribution; 0 for no mixup
    cutmix: float = 0.0  # alpha of cutmix's Beta distribution; 0 for no cutmix
    precision: str = "fp32"  # what the layers compute in, or "bf16"; the weights stay fp32
    seed: int = 0  # decides everything random

    def __post_init__(self):
        check_fields(self, require_whole, "epochs", "batch_size")
        check_fields(self, require_number, "learning_rate", "clip_norm", positive=True)
        check_fields(self, require_number, "weight_decay", "warmup_epochs", "mixup", "cutmix")
        check_fields(self, require_rate, "beta2", "label_smoothing")
        check_fields(self, require_whole, "crop", "seed", least=0)
        require_choice("schedule", self.schedule, ("cosine", "constant"))
        require_choice("precision", self.precision, ("fp32", "bf16"))
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


def warmup_cosine(step: int, warmup_steps: int, total_steps: int) -> float:
    """Return the learning rate of a step (from 0) as a share of its peak: a straight line up, then half a cosine down.

    The first step is 1/warmup_steps of the peak, not zero, and the cosine would reach zero one step after the last.
    Source: appendix B.1 (linear warm-up of 10k steps; cosine decay in Table 3).
    """
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    return (1 + math.cos(math.pi * (step - warmup_steps) / max(total_steps - warmup_steps, 1))) / 2


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict]:
    """Return two groups for AdamW: matrices of linear layers and convolutions decay, everything else does not.

    Norms, biases, class token and position embeddings do not: pulling them towards zero does not make the
    function simpler, it only moves it. Frozen parameters are left out.
    """
    matrices = {layer.weight for layer in model.modules() if isinstance(layer, (nn.Linear, nn.Conv2d))}
    matrices |= {layer.in_proj_weight for layer in model.modules() if isinstance(layer, nn.MultiheadAttention)}
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    decaying = {"params": [weight for weight in trained if weight in matrices], "weight_decay": weight_decay}
    return [decaying, {"params": [weight for weight in trained if weight not in matrices], "weight_decay": 0.0}]


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
HEAD_ALONE = Recipe(30, 32, learning_rate=1e-3, warmup_epochs=3.0)
