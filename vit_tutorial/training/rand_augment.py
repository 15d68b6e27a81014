"""RandAugment: each image changed by operations that are chosen at random."""

import math

import torch
from jaxtyping import Float, UInt8
from torch import Tensor
from torchvision.transforms.v2 import functional as F

STRENGTH = 0.3  # magnitude 9 of 30
SLANT = math.degrees(math.atan(0.3 * STRENGTH))  # pixels across for each pixel down, as an angle
SHIFT = 150 / 331 * STRENGTH  # share of a side
CHANGE = 0.9 * STRENGTH  # of a brightness, colour, contrast or sharpness of 1

# What torchvision's `v2.RandAugment(magnitude=9)` does, and as often. A `sign` of -1 or 1 is the direction.
OPERATIONS = {
    "Identity": lambda x, sign: x,
    "ShearX": lambda x, sign: F.affine(x, 0.0, [0, 0], 1.0, [sign * SLANT, 0.0], center=[0.0, 0.0]),
    "ShearY": lambda x, sign: F.affine(x, 0.0, [0, 0], 1.0, [0.0, sign * SLANT], center=[0.0, 0.0]),
    "TranslateX": lambda x, sign: F.affine(x, 0.0, [sign * int(SHIFT * x.shape[-1]), 0], 1.0, [0.0, 0.0]),
    "TranslateY": lambda x, sign: F.affine(x, 0.0, [0, sign * int(SHIFT * x.shape[-2])], 1.0, [0.0, 0.0]),
    "Rotate": lambda x, sign: F.rotate(x, sign * 30 * STRENGTH),
    "Brightness": lambda x, sign: F.adjust_brightness(x, 1 + sign * CHANGE),
    "Color": lambda x, sign: F.adjust_saturation(x, 1 + sign * CHANGE),
    "Contrast": lambda x, sign: F.adjust_contrast(x, 1 + sign * CHANGE),
    "Sharpness": lambda x, sign: F.adjust_sharpness(x, 1 + sign * CHANGE),
    "Posterize": lambda x, sign: F.posterize(x, 8 - round(4 * STRENGTH)),
    "Solarize": lambda x, sign: F.solarize(x, 255 * (1 - STRENGTH)),
    "AutoContrast": lambda x, sign: F.autocontrast(x),
    "Equalize": lambda x, sign: F.equalize(x),
}


def rand_augment(pixels: UInt8[Tensor, "B C H W"], draws: Float[Tensor, "B n"]) -> UInt8[Tensor, "B C H W"]:
    """Change each image by one operation for each of its draws, which are in [0, 1).

    Images that drew the same operation are changed together. Source: Cubuk et al. 2019 (arXiv 1909.13719).
    """
    numbers = (draws * 2 * len(OPERATIONS)).long()  # an operation and its sign
    for column in numbers.unbind(dim=1):
        changed = torch.empty_like(pixels)
        for number in column.unique().tolist():
            chosen = (column == number).nonzero()[:, 0].to(pixels.device)
            operation = list(OPERATIONS.values())[number // 2]
            changed[chosen] = operation(pixels[chosen], sign=2 * (number % 2) - 1)
        pixels = changed
    return pixels
