"""How good a model is: counted, image by image."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Int64
from torch import Tensor, nn

from ..data import ImageSet
from .alarms import check_width
from .distributed import rank_and_world, sum_over_processes


class Score(NamedTuple):
    """`confusion[i, j]` counts the images of class i that the model calls j; `loss` is the mean cross-entropy."""

    confusion: Int64[Tensor, "K K"]
    loss: float

    @property
    def accuracy(self) -> float:
        """The share of images called by their own name: all right answers over all images."""
        return self.confusion.trace().item() / self.confusion.sum().item()

    @property
    def per_class(self) -> list[float]:
        """The accuracy within each class."""
        return (self.confusion.diagonal() / self.confusion.sum(dim=1)).tolist()

    def interval(self) -> tuple[float, float]:
        """The accuracy's 95 % interval (Wilson 1927): what so many images can and cannot tell."""
        n, p, z = self.confusion.sum().item(), self.accuracy, 1.96
        middle, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)


@torch.no_grad()
def evaluate(model: nn.Module, images: ImageSet, batch_size: int = 500) -> Score:
    """Show the model every image once, without dropout, and count.

    The model's card says how pixels are scaled. The model is left in the mode that it was in. Several
    processes share the images, and all get the score of all of them. Raises ValueError for a model without
    a card, or with another number of classes.
    """
    if getattr(model, "card", None) is None:
        raise ValueError("the model has no card to say how pixels are scaled: `fit` gives it one, or set model.card")
    rank, world = rank_and_world()
    device, K = next(model.parameters()).device, len(images.classes)
    confusion, loss = torch.zeros(K * K, dtype=torch.int64, device=device), torch.zeros((), device=device)
    training = model.training
    model.eval()
    for batch in torch.arange(len(images))[rank::world].split(batch_size):
        pixels, labels = images.pixels[batch].to(device), images.labels[batch].to(device)
        logits = model(model.card.normalise(pixels)).float()
        check_width(logits, K)
        confusion += torch.bincount(labels * K + logits.argmax(dim=1), minlength=K * K)
        loss += F.cross_entropy(logits, labels, reduction="sum")
    model.train(training)
    total_loss = sum_over_processes(loss).item() / len(images)
    return Score(sum_over_processes(confusion).view(K, K).cpu(), total_loss)
