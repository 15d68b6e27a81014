"""What is trained on each data set unless somebody asks for something else."""

from __future__ import annotations

from dataclasses import dataclass

from ..config import ViTConfig
from .recipe import Recipe


@dataclass(frozen=True)
class Preset:
    """What the command trains on a data set unless its options say otherwise."""

    config: ViTConfig
    recipe: Recipe


PRESETS = {
    "shapes": Preset(
        ViTConfig(image_size=28, patch_size=4, num_classes=8, embed_dim=48, depth=4, num_heads=3, mlp_dim=96),
        Recipe(epochs=2, batch_size=32, learning_rate=3e-3, beta2=0.95, warmup_epochs=0.1),
    ),
    "cifar10": Preset(
        ViTConfig(image_size=32, patch_size=4, embed_dim=128, depth=6, num_heads=4, mlp_dim=256),
        Recipe(
            epochs=36, batch_size=64, learning_rate=1.5e-3, warmup_epochs=2.0, label_smoothing=0.1, crop=4, flip=True
        ),
    ),
}
PRESETS["folder"] = PRESETS["cifar10"]
