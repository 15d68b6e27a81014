"""Move a trained model to another size, with positions of several kinds, and train a part of it there."""

from __future__ import annotations

import warnings

import torch

from ..adapting import change_resolution
from ..config import Size
from ..data import Shapes
from ..errors import require_choice
from ..model import VisionTransformer
from ..pretrained import load_checkpoint
from ..training import Recipe, TrainingAlarm, fit

MOVES = ("interpolated", "in old order", "at random", "zero")
# For each part of the model that is trained, what its parameters have in their names, and the learning rate. Several
# were tried at 44×44 on scenes of other seeds (for the norms only this one), and this is the best, or nearly so, for
# all of MOVES, with one exception: "everything" after "in old order" does two points better with 1e-3.
PARTS = {
    "head": ("head.", 1e-2),
    "one vector": ("patches.projection.bias", 3e-2),  # the same for all patches: the control for positions
    "positions": ("position.table", 3e-2),
    "norms": ("norm", 1e-2),
    "everything": ("", 3e-4),
}
OWN_SCENES = 10  # added to a seed: the shipped model was trained on the scenes of seed 0 and tested on those of seed 1


@torch.random.fork_rng(devices=[])
def move(way: str, size: Size, seed: int, model: VisionTransformer | None = None) -> VisionTransformer:
    """Return a copy of the model (the shipped one if none is given) for scenes of another size, not trained there.

    `way` says what becomes of its positions. "interpolated" resizes them like a picture. "in old order" takes them one
    after another, and starts again with the first if they are too few. "at random" replaces them by random ones, chosen
    by the seed and as large as the learned ones on average, and "zero" by zeros. The class token always keeps its own.
    Raises ValueError for another way.
    """
    require_choice("way", way, MOVES)
    old = model or load_checkpoint("shapes")
    new = change_resolution(old, size)
    before, after = (each.embeddings.position.table.data[1:] for each in (old, new))  # (N, D) and (N', D)
    match way:
        case "in old order":
            after.copy_(before[torch.arange(len(after)) % len(before)])
        case "at random":
            torch.manual_seed(seed)
            VisionTransformer(new.config)  # draws its weights first, as it did when the tables were made
            after.normal_(std=before.std().item())
        case "zero":
            after.zero_()
    return new


def tune(model: VisionTransformer, trained: str, seed: int, scenes: int = 1600) -> None:
    """Train one part of the model, the others frozen meanwhile, on scenes of its size; afterwards nothing is frozen.

    Each scene is shown once. `trained` is one of PARTS: "head", "one vector" (which is added to every patch),
    "positions", "norms" (scale and shift of each LayerNorm) or "everything"; else ValueError is raised. The seed
    chooses the scenes and their order.
    """
    require_choice("trained", trained, PARTS)
    part, rate = PARTS[trained]
    images = Shapes(scenes, model.config.image_size, OWN_SCENES + seed)
    recipe = Recipe(epochs=1, batch_size=32, learning_rate=rate, warmup_epochs=0.05, seed=seed)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(part in name)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TrainingAlarm)  # of a low first loss: the head was trained before
            fit(model, images, recipe)
    finally:  # a reader may have stopped it
        model.requires_grad_(True)
