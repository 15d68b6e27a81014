"""Put a model into one HTML page that runs it: weights, pictures, and the forward pass in JavaScript."""

import base64
import json
import os
from dataclasses import dataclass
from html import escape
from pathlib import Path

import torch
from torch import Tensor

from ..config import to_pair
from ..data import ImageSet, Shapes
from ..data.outlines import MORE_OUTLINES, OUTLINES
from ..hybrid import is_hybrid
from ..inference import fit_photo, require_card
from ..model import VisionTransformer
from ..saving import as_vit

MOST_WEIGHTS = 20_000_000  # a page of 54 MB
SCENES = range(15, 1, -1)  # of 16 Shapes with seed 7: the star of the lessons comes first
EXAMPLES = {"a cat": "chelsea", "an astronaut": "eileen_collins", "an officer": "grace_hopper"}
STILL = "VIT_TUTORIAL_STILL"  # set where notebooks are stored and compared: they keep a picture, and no weights


def play(model: VisionTransformer, scenes: ImageSet | None = None) -> "Page":
    """Return a page to play with: as the value of a notebook's cell it is live, and everything runs in the page.

    It offers `scenes`, or some that suit the model. Raises ValueError for scenes or a model that it cannot run.
    """
    model = as_vit(model)
    require_playable(model, scenes)
    draws_shapes = set(model.card.classes) <= {*OUTLINES, *MORE_OUTLINES}
    opens_empty = scenes is None and draws_shapes
    shown = Shapes(16, model.config.image_size, seed=7).subset(SCENES) if opens_empty else scenes
    if shown is None:
        pictures = [(name, (fit_photo(photo, model) * 255).byte()) for name, photo in EXAMPLES.items()]
    else:
        pictures = [(shown.classes[k], image) for k, image in zip(shown.labels, shown.pixels, strict=True)]
    return Page(model, pictures, draws_shapes, opens_empty)


def require_playable(model: VisionTransformer, scenes: ImageSet | None) -> None:
    """Raise ValueError for a model that the page's JavaScript cannot run, and for scenes that do not fit the model."""
    config = model.config
    weights = sum(tensor.numel() for tensor in model.state_dict().values())
    if is_hybrid(model) or config.representation_size or config.pool != "cls":
        raise ValueError("a page runs a model without a backbone, whose head is one layer on the class token")
    if len(require_card(model).mean) != 3:
        raise ValueError(f"a page runs a model of 3 colours, this has {len(model.card.mean)}")
    if not config.num_classes:
        raise ValueError("a page runs a model with classes, this has none: `replace_head` gives it some")
    if weights > MOST_WEIGHTS:
        raise ValueError(f"a page runs a model of at most {MOST_WEIGHTS:,} weights, this has {weights:,}")
    if scenes is not None and scenes.pixels.shape[2:] != to_pair(config.image_size):
        raise ValueError(f"the model's images are {config.image_size}, the scenes {tuple(scenes.pixels.shape[2:])}")


@dataclass(repr=False)
class Page:
    """Hold what a page shows. `html` is the whole of it, for a file or a notebook's frame."""

    model: VisionTransformer
    pictures: list[tuple[str, Tensor]]  # names and uint8 pixels (3, H, W)
    draws_shapes: bool  # a visitor can draw what the model knows
    opens_empty: bool  # with a sheet to draw on, not with a picture

    @property
    def html(self) -> str:
        parts = {name: source(name) for name in ("page.css", "model.js", "page.js")}
        parts["data.json"] = json.dumps(self.data()).replace("<", "\\u003c")  # a class's name must end no element
        page = source("page.html")
        for name, text in parts.items():  # an element of the page holds the name of what belongs there
            page = page.replace(f">{name}<", f">{text}<")
        return page

    def data(self) -> dict[str, object]:
        """Return what the scripts read, as JSON; the weights are in half precision."""
        config, card = self.model.config, self.model.card
        sizes = {"image_size": to_pair(config.image_size), "patch_size": to_pair(config.patch_size)}
        tensors = tensors_of(self.model)
        return {
            "config": vars(config) | sizes | {"mean": card.mean, "std": card.std},
            "classes": card.classes,
            "shapes": {name: tuple(tensor.shape) for name, tensor in tensors.items()},
            "weights": in_base64(torch.cat([tensor.flatten() for tensor in tensors.values()]).half()),
            "pictures": [{"name": name, "pixels": in_base64(pixels)} for name, pixels in self.pictures],
            "drawsShapes": self.draws_shapes,
            "opensEmpty": self.opens_empty,
        }

    def _repr_mimebundle_(self, include=None, exclude=None) -> tuple[dict[str, str], dict[str, dict]]:
        from .still import draw_still  # matplotlib is slow to import

        png, about = draw_still(self.model, *self.pictures[0])
        shown = {"text/plain": "a page to play with the model", "image/png": png}
        if STILL not in os.environ:
            frame = 'title="A model to play with" style="width: 100%; height: 60rem; border: 0"'
            shown["text/html"] = f'<iframe {frame} srcdoc="{escape(self.html)}"></iframe>'
        return shown, {"image/png": about}


def source(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def in_base64(tensor: Tensor) -> str:
    return base64.b64encode(tensor.cpu().contiguous().numpy().tobytes()).decode()


def tensors_of(model: VisionTransformer) -> dict[str, Tensor]:
    """Return the weights by name. Positions of any kind are a table (1+N, D)."""
    tensors = {name: tensor for name, tensor in model.state_dict().items() if ".position." not in name}
    tensors["embeddings.position.table"] = model.positions().detach()
    return {name: tensor.float() for name, tensor in tensors.items()}
