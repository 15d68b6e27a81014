"""Convolutional networks: one in front of a ViT (the hybrid of section 3.1), and a small one to compare with."""

from torch import nn

from .embeddings import make_projection


class Backbone(nn.Sequential):
    """Run a network in front of the ViT: images (B, C, H, W) → feature map (B, channels, H/stride, W/stride)."""

    def __init__(self, network: nn.Module, channels: int, stride: int):
        super().__init__(network)
        self.channels, self.stride = channels, stride

    def make_projection(self, in_channels: int, embed_dim: int, patch_size: tuple[int, int]) -> nn.Sequential:
        """Build the projection of a hybrid's `PatchEmbedding`: this network, then the patch projection of its map.

        `patch_size` is in pixels: on the map a patch is `stride` times smaller. Raises ValueError if it cannot be.
        """
        (P, Q), stride = patch_size, self.stride
        if P % stride or Q % stride:
            raise ValueError(f"patch_size {P}×{Q}, in pixels, must be a multiple of the backbone's stride, {stride}")
        return nn.Sequential(self, make_projection(self.channels, embed_dim, (P // stride, Q // stride)))


def is_hybrid(model: nn.Module) -> bool:
    return any(isinstance(module, Backbone) for module in model.modules())


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
