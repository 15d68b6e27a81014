"""Equation 4, and the whole Vision Transformer."""

from collections import OrderedDict

from jaxtyping import Float
from torch import Tensor, nn

from .config import ViTConfig
from .embeddings import Embeddings
from .encoder import Encoder


class VisionTransformer(nn.Module):
    """Turn images into logits: (B, C, H, W) → (B, K). The softmax is left to the loss.

    The weights start as in the authors' code (google-research/vision_transformer), except that the biases of the MLPs
    are zero, the representation layer is Xavier, and the patch projection keeps large values. The head is zero, so an
    untrained model finds every class equally likely. With a `backbone` (see `hybrid.py`) the patches are those of a
    feature map.

    Raises ValueError if the images do not fit the configuration.
    Source: Dosovitskiy et al. 2020 (arXiv 2010.11929), Eqs. 1–4 and Figure 1.
    """

    def __init__(self, config: ViTConfig, backbone: nn.Module | None = None):
        super().__init__()
        if not isinstance(config, ViTConfig):
            raise ValueError(f"a model is built from a ViTConfig, such as ViTConfig.named('B/16'), got {config!r:.80}")
        self.config = config
        self.card = None  # what logits and pixels mean, a `ModelCard`: None until somebody knows
        self.embeddings = Embeddings(config, backbone)
        self.encoder = Encoder(config)
        self.norm = nn.LayerNorm(config.embed_dim, eps=config.norm_eps)
        self.pool = POOL_CLASSES[config.pool]()
        self.head = make_head(config)

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B K"]:
        z = self.embeddings(images)  # Eq. 1: (B, 1+N, D)
        z = self.encoder(z)  # Eqs. 2–3: (B, 1+N, D)
        y = self.pool(self.norm(z))  # Eq. 4: (B, D)
        return self.head(y)  # (B, K)

    def positions(self) -> Float[Tensor, "T D"]:
        """Return the position embeddings of all tokens, that of the class token first: (1+N, D)."""
        return self.embeddings.position()

    def forward_features(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B T D"]:
        """Return the normalised tokens that the pooling gets: (B, C, H, W) → (B, 1+N, D)."""
        return self.norm(self.encoder(self.embeddings(images)))

    def forward_head(self, tokens: Float[Tensor, "B T D"]) -> Float[Tensor, "B K"]:
        """Return the logits for the tokens of `forward_features`: (B, 1+N, D) → (B, K)."""
        return self.head(self.pool(tokens))

    def features(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D"]:
        """Return what the head sees, one vector y for each image: (B, C, H, W) → (B, D). Eq. 4."""
        return self.pool(self.forward_features(images))


class ClassTokenPool(nn.Module):
    """Take the class token for the whole image: (B, 1+N, D) → (B, D)."""

    def forward(self, tokens: Float[Tensor, "B T D"]) -> Float[Tensor, "B D"]:
        return tokens[:, 0]


class MeanPool(nn.Module):
    """Take the mean of the patch tokens for the whole image: (B, 1+N, D) → (B, D). Appendix D.3."""

    def forward(self, tokens: Float[Tensor, "B T D"]) -> Float[Tensor, "B D"]:
        return tokens[:, 1:].mean(dim=1)


POOL_CLASSES = {"cls": ClassTokenPool, "mean": MeanPool}


def make_head(config: ViTConfig) -> nn.Module:
    """Build a linear layer (B, D) → (B, K), after a linear layer and a tanh if there is a `representation_size`.

    Source: section 3.1, "a MLP with one hidden layer at pre-training time and … a single linear layer at fine-tuning".
    """
    if config.num_classes == 0:
        return nn.Identity()
    classifier = nn.Linear(config.representation_size or config.embed_dim, config.num_classes)
    nn.init.zeros_(classifier.weight)
    nn.init.zeros_(classifier.bias)
    if config.representation_size is None:
        return classifier
    representation = nn.Linear(config.embed_dim, config.representation_size)
    nn.init.xavier_uniform_(representation.weight)
    nn.init.zeros_(representation.bias)
    return nn.Sequential(OrderedDict(representation=representation, activation=nn.Tanh(), classifier=classifier))
