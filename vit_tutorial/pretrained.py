"""Trained models: the ones that ship with the package, and what a model says of a photo."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from .data import load_photo
from .model import VisionTransformer
from .validation import check_choice, check_positive
from .weights import load_model, read

CHECKPOINTS = Path(__file__).with_name("checkpoints")


def load_checkpoint(name: str) -> VisionTransformer:
    """A trained model that ships with the package, with its card, ready to predict: "shapes" or "cifar10".

    `model.card.about` says how it was trained, on what, and how good it is. Raises ValueError for another name.
    """
    check_choice("checkpoint", name, (path.stem for path in sorted(CHECKPOINTS.glob("*.safetensors"))))
    return load_model(CHECKPOINTS / f"{name}.safetensors")


def load_positions(name: str) -> dict[int, Float[Tensor, "T D"]]:
    """The position embeddings of a shipped model on their way: {epochs of training: (1+N, D)}, from 0 to the last.

    Raises ValueError for a name that has none.
    """
    folder = CHECKPOINTS / "positions"
    check_choice("checkpoint", name, (path.stem for path in sorted(folder.glob("*.safetensors"))))
    tensors, _ = read(folder / f"{name}.safetensors")
    return {int(epoch): tensors[epoch] for epoch in sorted(tensors, key=int)}


class Prediction(NamedTuple):
    """A class and how probable the model finds it, from 0 to 1."""

    name: str
    probability: float


@torch.no_grad()
def predict(model: VisionTransformer, photo: str | Path | Float[Tensor, "3 H W"], top: int = 5) -> list[Prediction]:
    """The `top` most probable classes of a photo, the most probable first.

    A photo is a name or a path for `load_photo`, fitted to the model's size; or a tensor of floats in [0, 1]
    that has that size. Raises ValueError for a model without a card, since nobody knows then what its
    numbers mean.
    """
    check_positive("top", top)
    if model.card is None:
        raise ValueError(
            "this model has no card: it does not know the names of its classes, nor how its pixels were scaled"
        )
    image = photo if isinstance(photo, Tensor) else load_photo(photo, model.config.image_size)
    device, training = next(model.parameters()).device, model.training
    probabilities = model.eval()(model.card.normalise(image[None].to(device)))[0].softmax(dim=0)
    model.train(training)
    values, classes = probabilities.topk(min(top, len(probabilities)))
    return [Prediction(model.card.classes[i], p) for p, i in zip(values.tolist(), classes.tolist(), strict=True)]
