"""A small convolutional network, to compare with."""

from __future__ import annotations

from torch import nn


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


def conv_block(in_channels: int, out_channels: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(in_channels, out_channels, kernel_size=3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(out_channels),
        nn.ReLU(),
    )
