"""Adapt a trained model to new classes or to a new resolution (section 3.2). The old model stays as it was."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial

import torch

from .config import Size
from .model import VisionTransformer, make_head
from .positions import resize_position_embedding
from .saving import as_vit


def replace_head(model: VisionTransformer, num_classes: int) -> VisionTransformer:
    """Copy the model with a new head of zeros, for which every class is equally likely.

    A representation layer belongs to the old task and goes too. Classes get placeholder names until `fit` sees the new
    images. Raises ValueError for a number of classes that cannot be. Source: section 3.2.
    """
    model = as_vit(model)
    new = deepcopy(model)
    new.config = replace(model.config, num_classes=num_classes, representation_size=None)
    with torch.random.fork_rng(devices=[]):  # the reader's random numbers stay
        new.head = make_head(new.config).to(next(model.parameters()))
    if model.card:
        new.card = model.card.with_classes(tuple(f"class {number}" for number in range(num_classes)))
    return new


def change_resolution(
    model: VisionTransformer, image_size: Size, antialias: bool = True, resize: Callable | None = None
) -> VisionTransformer:
    """Copy the model for images of another size, with interpolated positions.

    Learned and sin-cos positions are resized like a picture, factorized ones along each side. What is frozen stays
    frozen. timm resizes with `antialias`, transformers and Meta's code for DINOv2 without. `resize` is another function
    than `resize_position_embedding`, such as the reader's own.
    Raises ValueError for a size that is not a whole number of patches. Source: section 3.2.
    """
    model, resize = as_vit(model), resize or partial(resize_position_embedding, antialias=antialias)
    if hasattr(model, "rebuilt"):  # parts of a reader's: only they know where the size is written into them
        return model.rebuilt(change_resolution(model.ours(), image_size, resize=resize))
    moved, config = deepcopy(model), replace(model.config, image_size=image_size)
    (h, w), (new_h, new_w) = moved.config.grid, config.grid
    moved.config, moved.embeddings.patches.image_size = config, config.image_size
    # The tensors that positions are made of: old grid, new grid, how many rows come before the grid's, new shape.
    for name, old_grid, new_grid, num_prefix_tokens, shape in (
        ("table", (h, w), (new_h, new_w), 1, (config.num_tokens, -1)),
        ("rows", (h, 1), (new_h, 1), 0, (new_h, 1, -1)),
        ("columns", (1, w), (1, new_w), 0, (1, new_w, -1)),
    ):
        tensor = getattr(moved.embeddings.position, name, None)
        if tensor is not None:
            vectors = tensor.detach().flatten(0, -2)  # (T, D)
            tensor.data = resize(vectors, old_grid, new_grid, num_prefix_tokens).view(shape)
    moved.card = moved.card and moved.card.with_classes(moved.card.classes)
    return moved
