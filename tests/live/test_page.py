"""What a notebook and the command get: the whole page, small, and a still where no script runs."""

import base64
import io
import os
import re
import runpy
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from PIL import Image

from vit_tutorial import Backbone, Shapes, VisionTransformer, ViTConfig, load_checkpoint, play
from vit_tutorial.model_card import ModelCard


@pytest.fixture(scope="module")
def shapes():
    return load_checkpoint("shapes")


def test_the_page_of_shapes_has_at_most_500_kb_and_loads_nothing(shapes):
    page = play(shapes).html
    assert len(page.encode()) <= 500_000
    assert "default-src 'none'" in page
    assert not re.search(r"src=|@import|url\(", page)
    assert len(re.findall(r"https?://", page)) == 1, "a link to the project"


def test_a_notebook_gets_the_page_in_a_frame_and_a_still(shapes, monkeypatch):
    monkeypatch.delenv("VIT_TUTORIAL_STILL", raising=False)
    shown, about = play(shapes)._repr_mimebundle_()
    assert shown["text/html"].startswith("<iframe ")
    assert set(shown) == {"text/plain", "image/png", "text/html"}
    assert "The answer: star 97 %" in about["image/png"]["alt"]


def test_what_is_stored_is_the_still_alone_with_alternative_text(shapes, monkeypatch):
    monkeypatch.setenv("VIT_TUTORIAL_STILL", "1")
    shown, about = play(shapes)._repr_mimebundle_()
    assert set(shown) == {"text/plain", "image/png"}
    image = Image.open(io.BytesIO(base64.b64decode(shown["image/png"])))
    look = about["image/png"]
    assert (look["width"], look["height"]) == (image.width // 2, image.height // 2)
    assert len(look["alt"].split()) >= 8


def test_scenes_of_ones_own_come_first(shapes):
    scenes = Shapes(3, 28, seed=5)
    page = play(shapes, scenes)
    assert not page.opens_empty
    assert [name for name, _ in page.pictures] == [scenes.classes[k] for k in scenes.labels]
    with pytest.raises(ValueError, match=r"images are 28, the scenes \(32, 32\)"):
        play(shapes, Shapes(3, 32))


TINY = ViTConfig(8, 4, num_classes=2, embed_dim=8, depth=1, num_heads=2, mlp_dim=8)
LARGE = ViTConfig(8, 4, num_classes=2, embed_dim=384, depth=12, num_heads=6, mlp_dim=1536)
CANNOT_RUN = {
    "grey pictures": (replace(TINY, in_channels=1), None, "a model of 3 colours, this has 1"),
    "no classes": (replace(TINY, num_classes=0), None, "with classes, this has none"),
    "the mean": (replace(TINY, pool="mean"), None, "one layer on the class token"),
    "two layers": (replace(TINY, representation_size=4), None, "whose head is one layer"),
    "a backbone": (TINY, Backbone(torch.nn.Conv2d(3, 4, 1), 4, 1), "without a backbone"),
    "too large": (LARGE, None, "20,000,000 weights, this has 21,316,226"),
}


@pytest.mark.parametrize("reason", CANNOT_RUN)
def test_a_model_that_a_page_cannot_run_is_refused(reason):
    config, backbone, told = CANNOT_RUN[reason]
    model = VisionTransformer(config, backbone)
    model.card = ModelCard(("a", "b")[: config.num_classes], (0.5,) * config.in_channels, (0.2,) * config.in_channels)
    with pytest.raises(ValueError, match=told):
        play(model)


def test_the_command_writes_the_page_or_says_what_is_wrong(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("USERPROFILE" if os.name == "nt" else "HOME", str(tmp_path))
    for weights in ("cifar10", "nope"):
        monkeypatch.setattr("sys.argv", ["live", f"~/new/{weights}.html", "--weights", weights])
        with nullcontext() if weights == "cifar10" else pytest.raises(SystemExit):
            runpy.run_module("vit_tutorial.live", run_name="__main__")
    assert "<title>" in (tmp_path / "new" / "cifar10.html").read_text(encoding="utf-8")
    assert "invalid choice: 'nope'" in capsys.readouterr().err
