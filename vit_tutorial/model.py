"""Equation 4, and the whole Vision Transformer."""

from __future__ import annotations

from collections import OrderedDict

from jaxtyping import Float
from torch import Tensor, nn

from .config import ViTConfig
from .embeddings import Backbone, Embeddings
from .encoder import Encoder


class VisionTransformer(nn.Module):
    """Images to logits: (B, C, H, W) → (B, K). Softmax is left to the loss.

    The weights start as in the authors' published code: Xavier for the encoder, 0.02 for positions,
    zero for biases, class token and head, so that an untrained model finds every class equally likely.
    With a `backbone` it is the hybrid of section 3.1: patches of a feature map in place of the image.

    Raises ValueError if the images do not fit the configuration.
    Source: Dosovitskiy et al. 2020 (arXiv 2010.11929), Eqs. 1–4 and Figure 1.
    """

    def __init__(self, config: ViTConfig, backbone: Backbone | None = None):
        super().__init__()
        self.config = config
        self.card = None  # what logits and pixels mean, a `Card`: None until somebody knows
        self.embeddings = Embeddings(config, backbone)
        self.encoder = Encoder(config)
        self.norm = nn.LayerNorm(config.embed_dim, eps=config.norm_eps)
        self.pool = POOLS[config.pool]()
        self.head = make_head(config)

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B K"]:
        z = self.embeddings(images)  # Eq. 1     (B, 1+N, D)
        z = self.encoder(z)  #         Eqs. 2–3  (B, 1+N, D)
        y = self.pool(self.norm(z))  # Eq. 4     (B, D)
        return self.head(y)  #                   (B, K)

    def features(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D"]:
        """What the head sees: one vector y for each image (Eq. 4)."""
        return self.pool(self.norm(self.encoder(self.embeddings(images))))


class ClassTokenPool(nn.Module):
    """The image is what its class token has become: (B, 1+N, D) → (B, D)."""

    def forward(self, tokens: Float[Tensor, "B T D"]) -> Float[Tensor, "B D"]:
        return tokens[:, 0]


class MeanPool(nn.Module):
    """The image is the mean of its patch tokens: (B, 1+N, D) → (B, D). Appendix D.3."""

    def forward(self, tokens: Float[Tensor, "B T D"]) -> Float[Tensor, "B D"]:
        return tokens[:, 1:].mean(dim=1)


POOLS = {"cls": ClassTokenPool, "mean": MeanPool}


def make_head(config: ViTConfig) -> nn.Module:
    """A linear layer (B, D) → (B, K); with `representation_size`, a linear layer and a tanh before it (section 3.1)."""
    classifier = nn.Linear(config.representation_size or config.embed_dim, config.num_classes)
    nn.init.zeros_(classifier.weight)
    nn.init.zeros_(classifier.bias)
    if config.representation_size is None:
        return classifier
    representation = nn.Linear(config.embed_dim, config.representation_size)
    nn.init.xavier_uniform_(representation.weight)
    nn.init.zeros_(representation.bias)
    return nn.Sequential(OrderedDict(representation=representation, activation=nn.Tanh(), classifier=classifier))
