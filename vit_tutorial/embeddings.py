"""Equation 1: z₀ = [x_class; x₁E; …; x_N E] + E_pos. From pixels to the tokens of the encoder."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .config import Size, ViTConfig, to_pair
from .patchify import validate_images
from .positions import POSITIONS
from .validation import check_feature_map, check_positive, check_size, check_stride


class PatchEmbedding(nn.Module):
    """One linear map, the same for every patch: (B, C, H, W) → (B, N, D).

    A convolution whose stride is its kernel size is that map: `projection.weight.flatten(1)` is the
    matrix E (transposed) of Eq. 1 for patches flattened by `patchify`.

    Raises ValueError if the images do not fit (rank, channels, integers, a broken patch), or, where
    `image_size` is given, are of another size.
    """

    def __init__(self, patch_size: Size, in_channels: int, embed_dim: int, image_size: Size | None = None):
        super().__init__()
        check_size("patch_size", patch_size)
        check_positive("in_channels", in_channels)
        check_positive("embed_dim", embed_dim)
        self.patch_size, self.in_channels, self.image_size = to_pair(patch_size), in_channels, image_size
        self.projection = nn.Conv2d(in_channels, embed_dim, kernel_size=self.patch_size, stride=self.patch_size)
        nn.init.normal_(self.projection.weight, std=self.projection.weight[0].numel() ** -0.5)
        nn.init.zeros_(self.projection.bias)

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B N D"]:
        validate_images(images, self.patch_size, self.in_channels, self.image_size)
        return self.projection(images).flatten(2).transpose(1, 2)  # (B, D, h, w) → (B, D, N) → (B, N, D)


class Backbone(nn.Module):
    """A network in front of the ViT: images (B, C, H, W) to a feature map (B, channels, H/stride, W/stride).

    Raises ValueError if the feature map is not what `channels` and `stride` promise.
    """

    def __init__(self, network: nn.Module, channels: int, stride: int):
        super().__init__()
        check_positive("channels", channels)
        check_positive("stride", stride)
        self.network, self.channels, self.stride = network, channels, stride

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D h w"]:
        features = self.network(images)
        check_feature_map(features, tuple(images.shape[2:]), self.channels, self.stride)
        return features


class FeaturePatches(PatchEmbedding):
    """Patches of a backbone's feature map in place of the image: (B, C, H, W) → (B, N, D). The hybrid, section 3.1.

    The config's `patch_size` stays in pixels of the image; on the feature map a patch is `stride` times
    smaller, a single place where the two are equal. Raises ValueError if the stride does not divide it.
    """

    def __init__(self, backbone: Backbone, config: ViTConfig):
        patch_size, image_size = to_pair(config.patch_size), to_pair(config.image_size)
        check_stride(backbone.stride, patch_size)
        on_map = [tuple(side // backbone.stride for side in size) for size in (patch_size, image_size)]
        super().__init__(on_map[0], backbone.channels, config.embed_dim, on_map[1])
        self.backbone, self.of_image = backbone, (patch_size, config.in_channels, image_size)

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B N D"]:
        validate_images(images, *self.of_image)
        return super().forward(self.backbone(images))


class Embeddings(nn.Module):
    """Patches, class token first, and positions: (B, C, H, W) → (B, 1+N, D). Eq. 1.

    The position is added after the class token is prepended, so the class token has one too.
    Dropout follows the positions (appendix B.1). With a `backbone` the patches are those of its feature map.
    Raises ValueError as `PatchEmbedding` does.
    """

    def __init__(self, config: ViTConfig, backbone: Backbone | None = None):
        super().__init__()
        self.patches = make_patches(config, backbone)
        self.class_token = nn.Parameter(torch.zeros(1, 1, config.embed_dim))
        self.position = POSITIONS[config.position](config.grid, config.embed_dim)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B T D"]:
        patches = self.patches(images)  # (B, N, D)
        class_token = self.class_token.expand(len(images), -1, -1)  # (B, 1, D)
        tokens = torch.cat([class_token, patches], dim=1)  # (B, 1+N, D)
        return self.dropout(tokens + self.position())


def make_patches(config: ViTConfig, backbone: Backbone | None) -> PatchEmbedding:
    """Patches of the image, or of a backbone's feature map."""
    if backbone is None:
        return PatchEmbedding(config.patch_size, config.in_channels, config.embed_dim, config.image_size)
    if not isinstance(backbone, Backbone):
        raise ValueError(f"a backbone is a Backbone(network, channels, stride), got {type(backbone).__name__}")
    return FeaturePatches(backbone, config)
