"""Put a model into one HTML page that runs it: its weights, some pictures, and the forward pass in JavaScript."""

from __future__ import annotations

import base64
import html
import json
import os
from pathlib import Path

import torch
from jaxtyping import UInt8
from torch import Tensor

from ..config import to_pair
from ..data import ImageSet, Shapes
from ..data.outlines import MORE_OUTLINES, OUTLINES
from ..embeddings import PatchEmbedding
from ..inference import card_of, fit_photo, predict
from ..model import VisionTransformer

HERE = Path(__file__).parent
PHOTOS = {"chelsea": "a cat", "eileen_collins": "an astronaut", "grace_hopper": "an officer"}
STILL = "VIT_TUTORIAL_STILL"  # set where notebooks are stored and compared: they keep a picture, and no weights
MOST_WEIGHTS = 20_000_000  # a page of 54 MB


def play(model: VisionTransformer, scenes: ImageSet | None = None) -> Page:
    """Return a page on which you can play with the model, live in the notebook: draw, cover, shuffle, look inside.

    The page offers `scenes`, or else a few pictures that suit the model. Everything is computed in the page.
    Raises ValueError for a model that a page cannot run, and for scenes of another size than the model's images.
    """
    return Page(model, scenes)


class Page:
    """Hold the model and the pictures of a page; `html` is the whole page, which a notebook shows in a frame.

    Where no script runs, and where the environment variable VIT_TUTORIAL_STILL is set, there is a still instead.
    """

    def __init__(self, model: VisionTransformer, scenes: ImageSet | None = None):
        require_plain(model)
        self.model, self.pictures = model, choose_pictures(model, scenes)
        self.draws_shapes = set(model.card.classes) <= {*OUTLINES, *MORE_OUTLINES}
        self.opens_with = 0 if scenes or not self.draws_shapes else None  # None is an empty sheet

    @property
    def html(self) -> str:
        page = read("page.html").replace('<link rel="stylesheet" href="page.css">', f"<style>\n{read('page.css')}</style>")
        for name in ("model.js", "page.js"):
            page = page.replace(f'<script src="{name}"></script>', f"<script>\n{read(name)}</script>")
        # No "<" of a class's name ends the script element.
        return page.replace("{}", json.dumps(self.data(), ensure_ascii=False).replace("<", "\\u003c"), 1)

    def data(self) -> dict[str, object]:
        """Return what the page is about, as JSON: the configuration, the weights in half precision, the pictures."""
        config, card, tensors = self.model.config, self.model.card, tensors_of(self.model)
        sizes = {"image_size": to_pair(config.image_size), "patch_size": to_pair(config.patch_size)}
        names = ("num_heads", "norm_eps", "gelu", "pool")
        about = {name: getattr(config, name) for name in names} | {"mean": card.mean, "std": card.std}
        halves = torch.cat([tensor.flatten() for tensor in tensors.values()]).half()
        return {
            "config": sizes | about,
            "classes": card.classes,
            "shapes": {name: tuple(tensor.shape) for name, tensor in tensors.items()},
            "weights": in_base64(halves.view(torch.uint8)),
            "pictures": [{"name": name, "pixels": in_base64(pixels)} for name, pixels in self.pictures],
            "drawsShapes": self.draws_shapes,
            "opensWith": self.opens_with,
        }

    def _repr_mimebundle_(self, include=None, exclude=None) -> tuple[dict[str, str], dict[str, dict]]:
        from .still import draw_still  # matplotlib is slow to import

        png, about = draw_still(self)
        bundle = {"text/plain": repr(self), "image/png": png}
        if STILL not in os.environ:
            frame = "width: 100%; height: 60rem; border: 0"
            source = html.escape(self.html)
            bundle["text/html"] = f'<iframe title="A model to play with" style="{frame}" srcdoc="{source}"></iframe>'
        return bundle, {"image/png": about}

    def __repr__(self) -> str:
        rows, columns = self.model.config.grid
        return f"Page: a model that sees {rows}×{columns} patches and knows {len(self.model.card.classes)} classes"


def read(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def in_base64(values: UInt8[Tensor, "*any"]) -> str:
    return base64.b64encode(values.cpu().contiguous().numpy().tobytes()).decode()


def tensors_of(model: VisionTransformer) -> dict[str, Tensor]:
    """Return the model's tensors by name. Positions of any kind are a table (1+N, D), the class token is (D)."""
    tensors = {name: tensor.detach().float() for name, tensor in model.state_dict().items()}
    kept = {name: tensor for name, tensor in tensors.items() if not name.startswith("embeddings.position")}
    kept["embeddings.class_token"] = kept["embeddings.class_token"].flatten()
    return kept | {"embeddings.position.table": model.embeddings.position().detach().float()}


def require_plain(model: VisionTransformer) -> None:
    channels = len(card_of(model).mean)
    weights = sum(tensor.numel() for tensor in model.state_dict().values())
    if type(model.embeddings.patches) is not PatchEmbedding or channels != 3 or weights > MOST_WEIGHTS:
        raise ValueError(
            "a page runs a model without a backbone, for images of 3 channels, of at most "
            f"{MOST_WEIGHTS:,} weights; got {type(model.embeddings.patches).__name__}, {channels} and {weights:,}"
        )


def choose_pictures(model: VisionTransformer, scenes: ImageSet | None) -> list[tuple[str, UInt8[Tensor, "3 H W"]]]:
    size, classes = model.config.image_size, model.card.classes
    if scenes is None and set(classes) != set(OUTLINES):
        return [(name, (fit_photo(photo, model) * 255).round().byte()) for photo, name in PHOTOS.items()]
    scenes = Shapes(16, size, seed=7) if scenes is None else scenes
    if tuple(scenes.pixels.shape[2:]) != to_pair(size):
        raise ValueError(f"the model's images are {size}, the scenes {tuple(scenes.pixels.shape[2:])}")
    return [(scenes.classes[label], pixels) for label, pixels in zip(scenes.labels.tolist(), scenes.pixels, strict=True)]
