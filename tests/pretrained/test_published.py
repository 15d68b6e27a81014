"""Published weights by name, over a network that fails and over one that does not.

The server is a real one, on this machine; the weights are a tiny model's, under the names that torchvision gives them.
How else a network can fail is tried in data/test_download.py, with the same function.
"""

import contextlib
import hashlib
import io
import pickle
import re
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from data.file_server import FAILURES, everything_in, serving, whole
from torchvision.models import ViT_B_16_Weights, get_model_weights

from vit_tutorial import VisionTransformer, ViTConfig, load_pretrained
from vit_tutorial.config import VARIANTS
from vit_tutorial.data import download
from vit_tutorial.pretrained.tensor_names import as_theirs
from vit_tutorial.pretrained.torchvision_models import PUBLISHED

from .families import Attack, random

TINY = replace(VARIANTS["B/16"], image_size=32, embed_dim=32, depth=2, num_heads=4, mlp_dim=64)
WEIGHTS = ViT_B_16_Weights.IMAGENET1K_V1


@pytest.fixture
def published(tmp_path, monkeypatch):
    """A tiny model, its file's content, and where the file belongs; registry, table 1 and cache know no other."""
    model = random(VisionTransformer(TINY)).float().eval()
    tensors = as_theirs(model.state_dict(), "torchvision", TINY.num_heads)
    named = {  # as torchvision's files have named them since 2022
        name.replace("mlp.0.", "mlp.linear_1.").replace("mlp.3.", "mlp.linear_2."): tensor
        for name, tensor in tensors.items()
    }
    torch.save(named, file := io.BytesIO())
    content = file.getvalue()
    name = f"vit_b_16-{hashlib.sha256(content).hexdigest()[:8]}.pth"
    monkeypatch.setitem(VARIANTS, "B/16", TINY)
    monkeypatch.setattr(download, "TIMEOUT", 0.5)
    monkeypatch.setitem(WEIGHTS.meta, "_file_size", 0.9)  # MB, an upper limit
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))
    monkeypatch.setattr(WEIGHTS.value, "url", f"http://127.0.0.1:9/{name}")  # nobody listens there
    path = tmp_path / "hub" / "checkpoints" / name
    path.parent.mkdir(parents=True)
    return model, content, path


@contextlib.contextmanager
def serve(monkeypatch, answer, path: Path):
    """Serve this file at the address where torchvision says it is."""
    with serving(answer) as (address, requests):
        monkeypatch.setattr(WEIGHTS.value, "url", f"{address}/{path.name}")
        yield requests


def assert_same(ours: VisionTransformer, model: VisionTransformer) -> None:
    expected = model.state_dict()
    assert all(torch.equal(tensor, expected[name]) for name, tensor in ours.state_dict().items())
    assert not ours.training


def test_a_whole_download_is_kept_and_needs_no_network_again(published, monkeypatch):
    model, content, path = published
    with serve(monkeypatch, partial(whole, content), path) as requests:
        with pytest.raises(FileNotFoundError, match=rf"no {path.name} in .* \(it is not there\): download=True"):
            load_pretrained("B/16", download=False)
        assert not requests
        assert_same(load_pretrained("B/16"), model)
    assert_same(load_pretrained("B/16", download=False), model)
    monkeypatch.setattr(WEIGHTS.value, "url", f"http://127.0.0.1:9/{path.name}")  # nobody listens there
    assert_same(load_pretrained("B/16"), model)
    assert everything_in(path.parent) == [path.name]


@pytest.mark.parametrize("case", ["another file", "throttled", "never ends"])
def test_a_download_that_fails_says_the_way_out_and_leaves_nothing(case, published, monkeypatch):
    answer, fact = FAILURES[case]
    model, content, path = published
    with serve(monkeypatch, partial(answer, content), path), pytest.raises(ConnectionError) as caught:
        load_pretrained("B/16")
    message = str(caught.value)
    facts = [fact, WEIGHTS.url, "by hand", path.stem[-8:], str(path.parent), "it is not there", "1 MB"]
    assert not [fact for fact in (*facts, "load_checkpoint") if fact not in message], message
    assert "\n" not in message
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__, "one error, not three"
    assert everything_in(path.parent) == []
    with serve(monkeypatch, partial(whole, content), path):  # and the next run is as good as a first one
        assert_same(load_pretrained("B/16"), model)


@pytest.mark.parametrize("damage", ["cut off", "empty", "changed"])
def test_a_broken_file_under_the_trusted_name_is_never_read(damage, published, monkeypatch):
    model, content, path = published
    path.write_bytes({"cut off": content[:-9], "empty": b"", "changed": content[:-1] + b"?"}[damage])
    with pytest.raises(ConnectionError, match="it is there, but broken"):
        load_pretrained("B/16")
    with serve(monkeypatch, partial(whole, content), path):
        assert_same(load_pretrained("B/16"), model)
    assert path.read_bytes() == content


def test_objects_in_a_file_are_never_opened(published, monkeypatch, tmp_path):
    _, _, path = published
    torch.save({"head": Attack(tmp_path / "attacked")}, path)
    trusted = path.with_name(f"vit_b_16-{hashlib.sha256(path.read_bytes()).hexdigest()[:8]}.pth")
    monkeypatch.setattr(WEIGHTS.value, "url", f"http://127.0.0.1:9/{path.rename(trusted).name}")
    with pytest.raises(pickle.UnpicklingError, match="weights_only"):
        load_pretrained("B/16")
    assert not (tmp_path / "attacked").exists()


def test_a_name_that_is_not_published_shows_those_that_are():
    with pytest.raises(ValueError, match="'B/16', 'B/32', 'L/16', 'L/32'"):
        load_pretrained("H/14")


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_real_ones_that_torchvision_lists(name):
    """The tests above put their own in place of these; what a reader gets is the real one."""
    weights = get_model_weights(PUBLISHED[name]).IMAGENET1K_V1
    config = ViTConfig.named(name)
    with torch.device("meta"):
        model = VisionTransformer(config)
    assert sum(parameter.numel() for parameter in model.parameters()) == weights.meta["num_params"]
    assert weights.url.startswith("https://download.pytorch.org/models/vit_")
    assert re.search(r"vit_[bl]_\d\d-[0-9a-f]{8}\.pth$", weights.url), "the start of the SHA-256"
    assert weights.transforms().crop_size == [config.image_size]
    assert len(weights.meta["categories"]) == config.num_classes
