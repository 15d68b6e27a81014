"""Train the head alone, fast: what the body makes of an image never changes, so it is computed once."""

import time
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..data import ImageSet
from ..model import VisionTransformer
from ..model_card import ModelCard
from .distributed import say


@dataclass(frozen=True, eq=False, repr=False)
class FeatureSet(ImageSet):
    """Hold the features of N images, (N, D, 1, 1), instead of their pixels."""

    pixels: Float[Tensor, "N D 1 1"]

    def __post_init__(self):  # nothing to check: these are not typed by a reader
        pass


@torch.no_grad()
def head_alone(model: VisionTransformer, images: ImageSet) -> tuple[nn.Module, FeatureSet]:
    """Freeze the body of a model in eval mode; return its head as a network, and what the body makes of the images.

    To `fit` the network to these features is to fit the model to the images, each as it is. Says how long it takes.
    """
    model.requires_grad_(False).head.requires_grad_(True)
    D, device = model.config.embed_dim, next(model.parameters()).device
    network = nn.Sequential(nn.Flatten(), model.head)
    network.card = ModelCard((), [0.0] * D, [1.0] * D)  # features are not normalised
    features, start = [], time.perf_counter()
    for pixels in images.pixels.split(8):
        features.append(model.features(model.card.normalise(pixels.to(device))).cpu())
        if len(features) == 1:
            seconds = (time.perf_counter() - start) * len(images) / len(pixels)
            say(f"the body, which stays, looks once at {len(images):,} images as they are: about {seconds:.0f} s")
    return network, FeatureSet(torch.cat(features)[:, :, None, None], images.labels, images.classes)
