"""The Vision Transformer, one equation to a file. Start with `config.py` and read down to `model.py`."""

from .adapting import change_resolution, replace_head
from .attention import SelfAttention, attend
from .config import VARIANTS, ViTConfig
from .data import ImageSet, Shapes, cifar10, image_folder, load_photo
from .embeddings import Embeddings, PatchEmbedding
from .encoder import Encoder, EncoderBlock, Mlp
from .hybrid import Backbone, conv_stem, small_cnn
from .inference import predict
from .live import play
from .model import VisionTransformer
from .own import assemble, check, take
from .patchify import patchify, unpatchify
from .positions import resize_position_embedding, sincos_position_embedding
from .pretrained import from_timm, from_torchvision, from_transformers, load_checkpoint
