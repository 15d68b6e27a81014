"""Load trained models: those that ship with the package, and those of other libraries."""

from .converting import fold_layer_scale
from .libraries import from_timm, from_torchvision, from_transformers
from .shipped import CHECKPOINTS, dinov2_tensors, load_checkpoint, load_positions
