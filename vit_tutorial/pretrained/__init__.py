"""Load trained models: those that ship with the package, and those of other libraries."""

from .converting import fold_layer_scale
from .shipped import CHECKPOINTS, compare_with_meta, dinov2_tensors, load_checkpoint, load_positions
from .timm_models import from_timm, to_timm
from .torchvision_models import from_torchvision, load_pretrained
from .transformers_models import from_transformers

__all__ = [
    "CHECKPOINTS",
    "compare_with_meta",
    "dinov2_tensors",
    "fold_layer_scale",
    "from_timm",
    "from_torchvision",
    "from_transformers",
    "load_checkpoint",
    "load_positions",
    "load_pretrained",
    "to_timm",
]
