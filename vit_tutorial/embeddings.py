"""Equation 1: z₀ = [x_class; x₁E; …; x_N E] + E_pos. From pixels to the tokens of the encoder."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .config import Size, ViTConfig, to_pair
from .patchify import require_images
from .positions import POSITION_CLASSES


class PatchEmbedding(nn.Module):
    """Map every patch to a token with the same linear layer: (B, C, H, W) → (B, N, D).

    A convolution whose stride is its kernel size is that layer: `projection.weight.flatten(1)` is the
    matrix E (transposed) of Eq. 1 for patches flattened by `patchify`.

    With a `backbone` (see `hybrid.py`) the patches are those of its feature map. If `image_size` is given, images must
    have it; otherwise any whole number of patches will do. Raises ValueError for images and backbones that do not fit.
    """

    def __init__(
        self, patch_size: Size, in_channels: int, embed_dim: int, image_size: Size | None = None, backbone=None
    ):
        super().__init__()
        self.patch_size, self.image_size = to_pair(patch_size), image_size
        if backbone is not None and not hasattr(backbone, "make_projection"):
            raise ValueError(f"a backbone is a `Backbone(network, channels, stride)`, got a {type(backbone).__name__}")
        make = make_projection if backbone is None else backbone.make_projection
        self.projection = make(in_channels, embed_dim, self.patch_size)

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B N D"]:
        require_images(images, self.patch_size, self.image_size, floats=True)
        return self.projection(images).flatten(2).transpose(1, 2)  # (B, D, h, w) → (B, D, N) → (B, N, D)


def make_projection(in_channels: int, embed_dim: int, patch_size: tuple[int, int]) -> nn.Conv2d:
    """Build the linear layer of all patches as a convolution, with outputs of variance 1 for inputs of variance 1."""
    projection = nn.Conv2d(in_channels, embed_dim, kernel_size=patch_size, stride=patch_size)
    nn.init.normal_(projection.weight, std=projection.weight[0].numel() ** -0.5)
    nn.init.zeros_(projection.bias)
    return projection


class Embeddings(nn.Module):
    """Embed the patches, put the class token first, add the positions: (B, C, H, W) → (B, 1+N, D). Eq. 1.

    The class token has a position too. Dropout follows the positions (appendix B.1). `backbone` and errors are those of
    `PatchEmbedding`.
    """

    def __init__(self, config: ViTConfig, backbone: nn.Module | None = None):
        super().__init__()
        sizes = (config.patch_size, config.in_channels, config.embed_dim, config.image_size)
        self.patches = PatchEmbedding(*sizes, backbone)
        self.class_token = nn.Parameter(torch.zeros(1, 1, config.embed_dim))
        self.position = POSITION_CLASSES[config.position](config.grid, config.embed_dim)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B T D"]:
        patches = self.patches(images)  # (B, N, D)
        class_token = self.class_token.expand(len(images), -1, -1)  # (B, 1, D)
        tokens = torch.cat([class_token, patches], dim=1)  # (B, 1+N, D)
        return self.dropout(tokens + self.position())
