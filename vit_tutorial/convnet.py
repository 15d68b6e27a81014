"""Small convolutional networks: one to compare with, and one in front of a ViT."""

from __future__ import annotations

from torch import nn

from .embeddings import Backbone


def small_cnn(num_classes: int, width: int = 24) -> nn.Sequential:
    """Five 3×3 convolutions with batch norm, two of them of stride 2; the mean over the picture; a linear layer.

    (B, 3, H, W) → logits (B, num_classes), for any H and W. What it is told beforehand, and a ViT is not:
    neighbours belong together, and a thing is the same thing wherever it is.
    """
    return nn.Sequential(
        conv_block(3, width),
        conv_block(width, width, stride=2),
        conv_block(width, 2 * width),
        conv_block(2 * width, 2 * width, stride=2),
        conv_block(2 * width, 4 * width),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4 * width, num_classes),
    )


def conv_stem(width: int = 20) -> Backbone:
    """Three 3×3 convolutions with batch norm, two of them of stride 2: (B, 3, H, W) → (B, 2·width, H/4, W/4).

    In front of a ViT with patches of 4×4 pixels, which are then single places of its feature map. At the default
    width it costs as much as a block of the Shapes model. Source: Xiao et al. 2021 (arXiv 2106.14881), section 4.
    """
    network = nn.Sequential(
        conv_block(3, width, stride=2),
        conv_block(width, width),
        conv_block(width, 2 * width, stride=2),
    )
    return Backbone(network, channels=2 * width, stride=4)


def conv_block(in_channels: int, out_channels: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, kernel_size=3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(out_channels),
        nn.ReLU(),
    )
