"""Adapt a trained model to new classes or to a new resolution (section 3.2). The old model stays as it was."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import partial

import torch

from .config import Size
from .embeddings import Embeddings
from .model import VisionTransformer, make_head
from .positions import resize_position_embedding
from .saving import as_vit, build_model


def replace_head(model: VisionTransformer, num_classes: int) -> VisionTransformer:
    """Copy the model with a new head of zeros, for which every class is equally likely.

    A representation layer belongs to the old task and goes too. Classes get placeholder names until `fit` sees the new
    images. Raises ValueError for a number of classes that cannot be. Source: section 3.2.
    """
    model = as_vit(model)
    new = deepcopy(model)
    new.config = replace(model.config, num_classes=num_classes, representation_size=None)
    with torch.random.fork_rng(devices=[]):  # the reader's random numbers stay
        new.head = make_head(new.config).to(next(model.parameters())).train(model.training)
    if model.card:
        new.card = model.card.with_classes(tuple(f"class {number}" for number in range(num_classes)))
    return new


def change_resolution(
    model: VisionTransformer, image_size: Size, antialias: bool = True, resize: Callable | None = None
) -> VisionTransformer:
    """Copy the model for images of another size, with interpolated positions.

    Learned and sin-cos positions are resized like a picture, factorized ones along each side. What is frozen stays
    frozen. timm resizes with `antialias`, transformers and Meta's code for DINOv2 without. `resize` is another function
    than `resize_position_embedding`, such as the reader's own. Embeddings that a reader wrote are replaced by ours.
    Raises ValueError for a size that is not a whole number of patches. Source: section 3.2.
    """
    model, resize = as_vit(model), resize or partial(resize_position_embedding, antialias=antialias)
    config = replace(model.config, image_size=image_size)
    moved, old = deepcopy(model), model.embeddings
    if type(old) is not Embeddings:  # a reader's, into which the size is written: ours do it
        moved.embeddings = build_model(model.config, model.state_dict(), None).embeddings.train(old.training)
        for name, weight in moved.embeddings.named_parameters():
            weight.requires_grad_(old.get_parameter(name).requires_grad)
    (h, w), (new_h, new_w) = model.config.grid, config.grid
    moved.config, moved.embeddings.patches.image_size = config, config.image_size
    position = moved.embeddings.position
    if config.position == "factorized":
        rows, columns = position.rows.detach()[:, 0], position.columns.detach()[0]  # (h, D) and (w, D)
        position.rows.data = resize(rows, (h, 1), (new_h, 1), 0)[:, None]
        position.columns.data = resize(columns, (1, w), (1, new_w), 0)[None]
    else:
        position.table.data = resize(position.table.detach(), (h, w), (new_h, new_w), 1)
    moved.card = moved.card and moved.card.with_classes(moved.card.classes)
    return moved
