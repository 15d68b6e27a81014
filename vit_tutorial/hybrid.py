"""Convolutional networks: one in front of a ViT (the hybrid of section 3.1), and a small one to compare with."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from .config import ViTConfig, to_pair
from .embeddings import make_projection
from .patchify import require_images


class Backbone(nn.Module):
    """Run a network in front of the ViT: images (B, C, H, W) → feature map (B, channels, H/stride, W/stride)."""

    def __init__(self, network: nn.Module, channels: int, stride: int):
        super().__init__()
        self.network, self.channels, self.stride = network, channels, stride

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B D h w"]:
        return self.network(images)

    def make_patch_embedding(self, config: ViTConfig) -> FeaturePatches:
        """Build the layer that replaces `PatchEmbedding` in a model with this backbone."""
        return FeaturePatches(self, config)


class FeaturePatches(nn.Module):
    """Embed the patches of a backbone's feature map: (B, C, H, W) → (B, N, D). The hybrid of section 3.1.

    `patch_size` is in pixels of the image: on the feature map a patch is `stride` times smaller.
    Raises ValueError if the stride does not divide it.
    """

    def __init__(self, backbone: Backbone, config: ViTConfig):
        super().__init__()
        (P, Q), stride = to_pair(config.patch_size), backbone.stride
        if P % stride or Q % stride:
            raise ValueError(f"patch_size {P}×{Q}, in pixels, must be a multiple of the backbone's stride, {stride}")
        self.patch_size, self.image_size, self.backbone = (P, Q), config.image_size, backbone
        self.projection = make_projection(backbone.channels, config.embed_dim, (P // stride, Q // stride))

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B N D"]:
        require_images(images, self.patch_size, self.image_size, floats=True)
        features = self.backbone(images)  # (B, channels, H/stride, W/stride)
        return self.projection(features).flatten(2).transpose(1, 2)  # (B, D, h, w) → (B, D, N) → (B, N, D)


def conv_stem() -> Backbone:
    """Build three 3×3 convolutions with batch norm, two of stride 2: (B, 3, H, W) → (B, 52, H/4, W/4).

    They cost as much as one block of the Shapes model. Source: Xiao et al. 2021 (arXiv 2106.14881), section 4.
    """
    network = nn.Sequential(conv_block(3, 26, stride=2), conv_block(26, 26), conv_block(26, 52, stride=2))
    return Backbone(network, channels=52, stride=4)


def small_cnn(num_classes: int) -> nn.Sequential:
    """Build five 3×3 convolutions with batch norm (two of stride 2), a mean over the image, and a linear layer.

    (B, 3, H, W) → logits (B, num_classes), for any H and W. It has as many parameters as the Shapes model.
    """
    sizes = [(3, 32, 1), (32, 32, 2), (32, 64, 1), (64, 64, 2), (64, 128, 1)]  # channels in and out, stride
    convolutions = [conv_block(*size) for size in sizes]
    return nn.Sequential(*convolutions, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, num_classes))


def conv_block(in_channels: int, out_channels: int, stride: int = 1) -> nn.Sequential:
    """Build a 3×3 convolution, batch norm and ReLU."""
    convolution = nn.Conv2d(in_channels, out_channels, kernel_size=3, stride=stride, padding=1, bias=False)
    return nn.Sequential(convolution, nn.BatchNorm2d(out_channels), nn.ReLU())
