"""Load published weights by name: from torchvision's cache, or from where torchvision publishes them."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import torch
from torch import Tensor
from torchvision.models import WeightsEnum, get_model_weights

from ..config import ViTConfig
from ..data.download import Source, fetch
from ..errors import require_choice
from ..model import VisionTransformer
from .converting import convert_tensors
from .published_cards import write_card
from .torchvision_models import card_of

PUBLISHED = {"B/16": "vit_b_16", "B/32": "vit_b_32", "L/16": "vit_l_16", "L/32": "vit_l_32"}


def load_pretrained(name: str) -> VisionTransformer:
    """Load a model trained on ImageNet by torchvision's authors: "B/16", "B/32" (330 MB), "L/16" or "L/32" (1.2 GB).

    Its card has the 1000 class names, and the preprocessing for `predict`. The file is looked for where torchvision
    keeps its own (`torch.hub.get_dir()`), and downloaded to that place if it is missing or broken, with progress on
    stderr. The model is ready to predict (`eval`).

    Raises ValueError for another name, ConnectionError that says what to do if there is neither file nor connection.
    """
    require_choice("published model", name, PUBLISHED)
    weights = get_model_weights(PUBLISHED[name]).IMAGENET1K_V1
    path = Path(torch.hub.get_dir(), "checkpoints", Path(weights.url).name)
    source = source_of(weights)
    if not source.is_at(path):
        download(source, path)
    model = convert_tensors(read_state_dict(path), "torchvision", ViTConfig.named(name))
    return write_card(model, **card_of(weights))


def source_of(weights: WeightsEnum) -> Source:
    """Return what torchvision says of a file; its name holds the start of its sha256: vit_b_16-c867db91.pth."""
    checksum = re.search(r"-([0-9a-f]{8,})\.", weights.url)[1]
    return Source(weights.url, "sha256", checksum, round((weights.meta["_file_size"] + 1) * 2**20))


def download(source: Source, path: Path) -> None:
    """Fetch the file; a ConnectionError says what else the reader can do."""
    there = "it is there, but broken" if path.is_file() else "it is not there"
    try:
        fetch(source, path)
    except OSError as error:
        raise ConnectionError(
            f"no {path.name} in {path.parent} ({there}), and it could not be fetched: {error}. Try again later, or "
            f"fetch {source.url} by hand ({source.size / 2**20 - 1:.0f} MB, sha256 {source.checksum}…) and put it "
            "there. `load_checkpoint('cifar10')` needs no download."
        ) from None


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """Return the tensors of a `.pth` file under today's names; `weights_only`, so that nothing in it is executed."""
    try:
        tensors = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise ValueError(f"{path} is not a file of weights alone: {error}") from None
    # torchvision's MLP was two layers with names when these files were written.
    return {name.replace("linear_1.", "0.").replace("linear_2.", "3."): tensor for name, tensor in tensors.items()}
