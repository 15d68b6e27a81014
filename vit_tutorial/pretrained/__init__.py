"""Load trained models: those that ship with the package, and those of other libraries."""

from .converting import fold_layer_scale as fold_layer_scale
from .libraries import from_timm as from_timm
from .libraries import from_torchvision as from_torchvision
from .libraries import from_transformers as from_transformers
from .shipped import CHECKPOINTS as CHECKPOINTS
from .shipped import dinov2_tensors as dinov2_tensors
from .shipped import load_checkpoint as load_checkpoint
from .shipped import load_positions as load_positions
