"""The Vision Transformer, one equation to a file. Start with `config.py` and read down to `model.py`."""

from .attention import SelfAttention, attend
from .checks import check
from .config import VARIANTS, ViTConfig
from .data import ImageSet, Shapes, cifar10, image_folder, load_photo
from .embeddings import Embeddings, PatchEmbedding, sincos_position_embedding
from .encoder import Encoder, EncoderBlock, Mlp
from .model import VisionTransformer
from .patchify import patchify, unpatchify
from .pretrained import load_checkpoint, predict

__all__ = [
    "VARIANTS",
    "Embeddings",
    "Encoder",
    "EncoderBlock",
    "ImageSet",
    "Mlp",
    "PatchEmbedding",
    "SelfAttention",
    "Shapes",
    "ViTConfig",
    "VisionTransformer",
    "attend",
    "check",
    "cifar10",
    "image_folder",
    "load_checkpoint",
    "load_photo",
    "patchify",
    "predict",
    "sincos_position_embedding",
    "unpatchify",
]
