"""Move a trained model to another size. Which positions does it need there, and what does a short fine-tune repair?"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cache
from itertools import product
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..adapting import change_resolution
from ..analysis.heads import right_answers
from ..config import Size
from ..data import Shapes
from ..errors import require_choice
from ..model import VisionTransformer
from ..pretrained import load_checkpoint
from ..training import TrainingAlarm, fit
from .rows import FINE_TUNING, OWN_SCENES, train_model, train_with

SIZES = {"44×44": 44, "20×20": 20, "28×28": 28}
WAYS = ("interpolated", "in old order", "at random", "zero", "without positions")
# The learning rate for each part of the model that is trained. For each, several were tried at 44×44 on scenes of other
# seeds (for the norms only this one), and this is the best, or nearly so, for all of WAYS, with one exception:
# "everything" after "in old order" does two points better with 1e-3.
RATES = {
    "nothing": None,
    "head": 1e-2,
    "one vector": 3e-2,  # the same for all patches: the control for positions
    "positions": 3e-2,
    "norms": 1e-2,
    "everything": FINE_TUNING.learning_rate,
}


class SizeRun(NamedTuple):
    """Count the test scenes, those that the model gets right, and where it differs from another model.

    The other one has interpolated positions, and the same size, seed and training. `gained` counts the scenes that only
    this model gets right, `lost` those that only the other one gets right.
    """

    scenes: int
    right: int
    gained: int
    lost: int

    @property
    def accuracy(self) -> float:
        return self.right / self.scenes

    @property
    def lead(self) -> float:
        """The accuracy minus that of the other model, from -1 to 1."""
        return (self.gained - self.lost) / self.scenes

    @property
    def spread(self) -> float:
        """Half the width of the lead's 95 % interval. Both saw the same scenes, so only those that differ count."""
        return 1.96 * (((self.gained + self.lost) / self.scenes - self.lead**2) / self.scenes) ** 0.5


@cache
def model_at_28(position: str, seed: int) -> VisionTransformer:
    """Train on 28×28 as in lesson 06, with "learned" positions or "none". The shipped model is the first, of seed 0."""
    shipped = (position, seed) == ("learned", 0)
    return load_checkpoint("shapes") if shipped else train_model(train_with(position=position), seed)


def move(way: str, size: Size, seed: int) -> VisionTransformer:
    """Return the model of a seed for scenes of another size, before any training there.

    `way` says what becomes of its positions. "interpolated" resizes them like a picture. "in old order" takes them one
    after another, and starts again with the first if they are too few. "at random" replaces them by random ones, as
    large as the learned ones on average, and "zero" by zeros. The class token always keeps its own. "without positions"
    is another model, which was trained without any.

    The model of seed 0 is the shipped one. All others, and those without positions, are first trained on 28×28, which
    takes about a minute. Raises ValueError for an unknown way.
    """
    require_choice("way", way, WAYS)
    with torch.random.fork_rng(devices=[]):
        old = model_at_28("none" if way == "without positions" else "learned", seed)
        torch.manual_seed(seed)
        new = change_resolution(old, size)
        before, after = (model.embeddings.position.table.data[1:] for model in (old, new))  # (N, D) and (N', D)
        match way:
            case "in old order":
                after.copy_(before[torch.arange(len(after)) % len(before)])
            case "at random":
                after.normal_(std=before.std().item())
            case "zero":
                after.zero_()
        return new


def tune(model: VisionTransformer, trained: str, seed: int, scenes: int = 1600) -> None:
    """Train one part of the model, and freeze all others, on scenes of its size, each shown once.

    `trained` is one of RATES: "nothing", "head", "one vector" (which is added to every patch), "positions" (of the
    patches; the class token keeps its own), "norms" (scale and shift of every LayerNorm) or "everything". The seed
    chooses the scenes and their order. Raises ValueError for another part.
    """
    require_choice("trained", trained, RATES)
    if trained == "nothing":
        return
    images = Shapes(scenes, model.config.image_size, OWN_SCENES + seed)
    recipe = replace(FINE_TUNING, learning_rate=RATES[trained], seed=seed)
    model.requires_grad_(False)
    parameters = part(model, trained)
    for parameter in parameters:
        parameter.requires_grad_(True)
    hooks = [parameter.register_hook(skip_class_token) for parameter in parameters if trained == "positions"]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TrainingAlarm)  # of a low first loss: the head was trained before
            fit(model, images, recipe)
    finally:
        for hook in hooks:
            hook.remove()
        model.requires_grad_(True)


def part(model: VisionTransformer, trained: str) -> list[nn.Parameter]:
    """Return the parameters of one part of the model."""
    match trained:
        case "head":
            return list(model.head.parameters())
        case "one vector":
            return [model.embeddings.patches.projection.bias]
        case "positions":
            return [model.embeddings.position.table]
        case "norms":
            return [p for layer in model.modules() if isinstance(layer, nn.LayerNorm) for p in layer.parameters()]
    return list(model.parameters())


def skip_class_token(gradient: Float[Tensor, "T D"]) -> Float[Tensor, "T D"]:
    """Return the gradient of a table of positions with zeros for the class token, the first row."""
    return gradient.index_fill(0, torch.tensor([0]), 0)


def measure_size(name: str, seed: int, scenes: int = 1600, test_scenes: int = 3200) -> dict[tuple[str, str], SizeRun]:
    """Return {(way, what was trained): its run} at one of SIZES; all are tuned and tested on the same scenes.

    Some pairs of WAYS and RATES are left out: positions where the model has none; at 28×28 the ways that replace the
    positions, because there the old ones fit; and after these ways, head, one vector and norms. Raises KeyError for an
    unknown size.
    """
    size, runs = SIZES[name], {}
    test = Shapes(test_scenes, size, seed=1)
    for trained, way in product(RATES, WAYS):
        replaced = way in ("in old order", "at random", "zero")
        if (trained, way) == ("positions", "without positions"):
            continue
        if replaced and (name == "28×28" or trained in ("head", "one vector", "norms")):
            continue
        model = move(way, size, seed)
        tune(model, trained, seed, scenes)
        right = right_answers(model, test)
        if way == "interpolated":
            base = right
        counts = (right, right & ~base, base & ~right)
        runs[way, trained] = SizeRun(test_scenes, *(int(count.sum()) for count in counts))
    return runs
