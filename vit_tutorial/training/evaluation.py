"""Measure how good a model is: count its answers, image by image."""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Int64
from torch import Tensor, nn

from ..data import ImageSet
from ..data.image_set import require_image_set
from ..errors import require_same_classes
from ..inference import logits_of, require_card


class Score(NamedTuple):
    """`confusion[i, j]` counts the images of class i that the model calls j; `loss` is the mean cross-entropy."""

    confusion: Int64[Tensor, "K K"]
    loss: float

    @property
    def accuracy(self) -> float:
        """The share of right answers among all images, from 0 to 1."""
        return self.confusion.trace().item() / self.confusion.sum().item()

    def interval(self) -> tuple[float, float]:
        """Return the 95 % confidence interval of the accuracy (Wilson 1927)."""
        n, p, z = self.confusion.sum().item(), self.accuracy, 1.96
        centre, half = p + z * z / (2 * n), z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return max(0.0, (centre - half) / (1 + z * z / n)), min(1.0, (centre + half) / (1 + z * z / n))

    def told(self) -> str:
        """Say in words how many answers are right, and whether the commonest class alone would do as well."""
        images, answers = self.confusion.sum(dim=1), self.confusion.sum(dim=0)  # of each class
        low, high = self.interval()
        share = f"{self.accuracy:.2%} of {images.sum():,} images right (95 % interval {low:.2%} to {high:.2%})"
        commonest = f"the commonest class is {images.max() / images.sum():.2%} of them"
        one_answer = answers.count_nonzero() == 1 and images.count_nonzero() > 1
        return f"{share}; {commonest}{', and the model gives one answer to all images' if one_answer else ''}"


def evaluate(model: nn.Module, images: ImageSet) -> Score:
    """Show the model every image once, without dropout and scaled as its card says, and count its answers.

    Raises ValueError for a model without a card or with other classes, FloatingPointError for logits that are nan.
    """
    require_image_set(images)
    require_same_classes(require_card(model).classes, images.classes)
    labels, K = images.labels.cpu(), len(images.classes)
    logits = logits_of(model, images.pixels).float().cpu()
    loss = F.cross_entropy(logits, labels).item()
    if not math.isfinite(loss):
        raise FloatingPointError(f"the loss is {loss}: some weights or logits of the model are not finite")
    confusion = torch.bincount(labels * K + logits.argmax(dim=1), minlength=K * K)  # one number for each pair
    return Score(confusion.view(K, K), loss)
