"""Refuse values that cannot be: each function raises one ValueError that shows what was given and what would fit."""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable


def require_positive(name: str, value: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")


def require_size(name: str, value: object) -> None:
    sides = value if isinstance(value, (tuple, list)) and len(value) == 2 else (value,)
    if not all(isinstance(side, int) and not isinstance(side, bool) and side > 0 for side in sides):
        raise ValueError(f"{name} must be a positive whole number or a pair (height, width) of them, got {value!r}")


def require_rate(name: str, value: float) -> None:
    if not isinstance(value, (int, float)) or not 0 <= value < 1:
        raise ValueError(f"{name} is a probability in [0, 1), got {value!r}")


def require_eps(name: str, value: float) -> None:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < math.inf:
        raise ValueError(f"{name} must be a finite number above 0, got {value!r}")


def require_names(name: str, value: object) -> None:
    if not isinstance(value, (tuple, list)) or not all(isinstance(each, str) for each in value):
        raise ValueError(f"{name} are names, one for each class, got {value!r:.80}")


def require_choice(name: str, value: str, choices: Iterable[str]) -> None:
    if value not in (choices := list(choices)):
        lower = {choice.lower(): choice for choice in choices}
        near = [lower[match] for match in difflib.get_close_matches(str(value).lower(), lower)]
        hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"there are {', '.join(map(repr, choices))}"
        raise ValueError(f"unknown {name} {value!r}: {hint}")


def require_heads(embed_dim: int, num_heads: int) -> None:
    require_positive("embed_dim", embed_dim)
    require_positive("num_heads", num_heads)
    if embed_dim % num_heads:
        raise ValueError(
            f"embed_dim {embed_dim} cannot be split over {num_heads} heads: "
            f"{embed_dim} = {embed_dim // num_heads}·{num_heads} + {embed_dim % num_heads}"
        )


def require_sincos(dim: int) -> None:
    if dim % 4:
        raise ValueError(
            f"sin-cos positions need a dimension divisible by 4 (sine and cosine of row and column), got {dim}"
        )


def require_feature_map(features: object, image: tuple[int, int], channels: int, stride: int) -> None:
    expected = (channels, image[0] // stride, image[1] // stride)
    given = tuple(features.shape[1:]) if hasattr(features, "shape") else f"of type {type(features).__name__}"
    if given != expected:
        raise ValueError(
            f"the backbone makes a feature map {given} of a {image[0]}×{image[1]} image: "
            f"{channels} channels and stride {stride} promise {expected}"
        )


def require_whole_patches(image: tuple[int, int], patch: tuple[int, int]) -> None:
    remainders = [
        f"{side} = {side // step}·{step} + {side % step}"
        for side, step in zip(image, patch, strict=True)
        if side % step
    ]
    if remainders or 0 in image:
        raise ValueError(
            f"image {image[0]}×{image[1]} is not a whole number of {patch[0]}×{patch[1]} patches: "
            + (", ".join(remainders) or "it is empty")
        )
