"""Measure what each head is worth: the images that a model gets wrong without it."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from ..data import ImageSet
from ..errors import require_same_classes
from ..inference import card_of, logits_of
from ..model import VisionTransformer
from .recording import mask_heads, self_attentions


class HeadCosts(NamedTuple):
    """Per head: answers that masking it breaks (`lost`), and answers it fixes (`gained`); `right` without masking."""

    images: int
    right: int
    lost: Int64[Tensor, "L h"]
    gained: Int64[Tensor, "L h"]

    @property
    def cost(self) -> Float[Tensor, "L h"]:
        """The accuracy that is missing without a head, from -1 to 1."""
        return (self.lost - self.gained) / self.images

    @property
    def spread(self) -> Float[Tensor, "L h"]:
        """Half the width of the cost's 95 % interval. The images are the same ones, so only those that change count."""
        return 1.96 * ((self.lost + self.gained) / self.images - self.cost.square()).sqrt() / self.images**0.5


def head_costs(model: VisionTransformer, images: ImageSet) -> HeadCosts:
    """Mask one head after the other and count right answers.

    Raises ValueError for a model without a card, or with other classes.
    """
    require_same_classes(card_of(model).classes, images.classes)
    before = right_answers(model, images)
    layers = self_attentions(model)
    changed = torch.zeros(2, len(layers), layers[0].num_heads, dtype=torch.int64, device="cpu")
    for layer, head in product(*map(range, changed.shape[1:])):
        with mask_heads(model, {layer: head}):
            after = right_answers(model, images)
        changed[:, layer, head] = torch.stack([(before & ~after).sum(), (after & ~before).sum()])
    return HeadCosts(len(images), int(before.sum()), lost=changed[0], gained=changed[1])


@torch.no_grad()
def right_answers(model: VisionTransformer, images: ImageSet) -> Bool[Tensor, " N"]:
    """Return which images the model calls by their name, without dropout."""
    return logits_of(model, images.pixels).argmax(dim=1).cpu() == images.labels.cpu()
