"""Trained models: those that ship, those that others trained, and what a model says of a photo."""

from .checkpoints import CHECKPOINTS, load_checkpoint, load_positions
from .downloading import load_pretrained
from .google import from_google
from .predicting import Prediction, predict
from .timm import from_timm, to_timm
from .torchvision import from_torchvision
from .transformers import from_transformers

__all__ = [
    "CHECKPOINTS",
    "Prediction",
    "from_google",
    "from_timm",
    "from_torchvision",
    "from_transformers",
    "load_checkpoint",
    "load_positions",
    "load_pretrained",
    "predict",
    "to_timm",
]
