"""Published weights by name. The server is a real one, on this machine; the weights are a tiny model's.

What else a download does is tried in data/test_download.py, with the same function.
"""

import hashlib
import io
import pickle
import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from data.file_server import NOBODY, serving
from torchvision.models import ViT_B_16_Weights, get_model_weights
from training.toys import Trap

from vit_tutorial import VisionTransformer, load_pretrained
from vit_tutorial.config import VARIANTS
from vit_tutorial.pretrained.tensor_names import as_theirs
from vit_tutorial.pretrained.torchvision_models import PUBLISHED

from .families import random

TINY = replace(VARIANTS["B/16"], image_size=32, embed_dim=32, depth=2, num_heads=4, mlp_dim=64)
WEIGHTS = ViT_B_16_Weights.IMAGENET1K_V1


@pytest.fixture
def publish(tmp_path, monkeypatch):
    """Tell registry, table 1 and cache of this content; return where its file belongs."""
    monkeypatch.setitem(VARIANTS, "B/16", TINY)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))

    def publish(content: bytes, address: str = NOBODY):
        name = f"vit_b_16-{hashlib.sha256(content).hexdigest()[:8]}.pth"
        monkeypatch.setattr(WEIGHTS.value, "url", f"{address}/{name}")
        (tmp_path / "checkpoints").mkdir(exist_ok=True)
        return tmp_path / "checkpoints" / name

    return publish


def stored(tensors: dict) -> bytes:
    torch.save(tensors, file := io.BytesIO())
    return file.getvalue()


def test_weights_are_fetched_once_and_go_to_their_places(publish):
    model = random(VisionTransformer(TINY)).float()
    tensors = as_theirs(model.state_dict(), "torchvision")
    old = {"mlp.0.": "mlp.linear_1.", "mlp.3.": "mlp.linear_2."}  # as torchvision's files have named them since 2022
    content = stored({re.sub(r"mlp\.[03]\.", lambda found: old[found[0]], name): t for name, t in tensors.items()})
    with serving(content) as (address, requests):
        path = publish(content, address)
        with pytest.raises(FileNotFoundError, match=rf"no {path.name} in .* \(it is not there\): download=True"):
            load_pretrained("B/16", download=False)
        assert not requests
        loaded = load_pretrained("B/16")
    assert path.read_bytes() == content
    assert not loaded.training
    assert loaded.card.classes[:2] == ("tench", "goldfish")
    for again in (loaded, load_pretrained("B/16"), load_pretrained("B/16", download=False)):
        assert all(torch.equal(tensor, again.state_dict()[name]) for name, tensor in model.state_dict().items())


def test_objects_in_a_file_are_never_opened(publish, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = stored({"head": Trap()})
    publish(content).write_bytes(content)
    with pytest.raises(pickle.UnpicklingError, match="weights_only"):
        load_pretrained("B/16")
    assert not Path("sprung").exists()


def test_a_name_that_is_not_published_shows_those_that_are():
    with pytest.raises(ValueError, match="'B/16', 'B/32', 'L/16', 'L/32'"):
        load_pretrained("H/14")


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_real_ones_that_torchvision_lists(name):
    """The tests above put their own in place of these; what a reader gets is the real one."""
    weights = get_model_weights(PUBLISHED[name]).IMAGENET1K_V1
    assert weights.url.startswith("https://download.pytorch.org/models/vit_")
    assert re.search(r"vit_[bl]_\d\d-[0-9a-f]{8}\.pth$", weights.url), "the start of the SHA-256"
    assert weights.transforms().crop_size == [VARIANTS[name].image_size]
    assert len(weights.meta["categories"]) == VARIANTS[name].num_classes
