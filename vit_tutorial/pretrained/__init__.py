"""Load trained models: those that ship with the package, and those of other libraries."""

from .shipped import CHECKPOINTS, load_checkpoint, load_positions
from .timm_models import from_timm, to_timm
from .torchvision_models import from_torchvision, load_pretrained
from .transformers_models import from_transformers

__all__ = [
    "CHECKPOINTS",
    "from_timm",
    "from_torchvision",
    "from_transformers",
    "load_checkpoint",
    "load_positions",
    "load_pretrained",
    "to_timm",
]
