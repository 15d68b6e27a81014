"""The weights that ship: what their cards say is what they are."""

import runpy
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch

from vit_tutorial import Shapes, VisionTransformer, load_checkpoint
from vit_tutorial.pretrained import CHECKPOINTS, load_positions
from vit_tutorial.train import make_parser
from vit_tutorial.training import PRESETS, evaluate

NAMES = ("cifar10", "shapes")


@pytest.mark.parametrize("name", NAMES)
def test_the_card_says_where_the_weights_come_from(name):
    model = load_checkpoint(name)
    about = model.card.about
    asked = make_parser().parse_args(about["command"].partition("vit_tutorial.train ")[2].split())
    config, recipe = PRESETS[asked.dataset]
    assert model.config == replace(config, num_classes=len(model.card.classes))
    assert asdict(recipe).items() <= about["recipe"].items()
    assert "thread" in about["hardware"]  # one, or several
    low, high = about["95 % interval"]
    assert low < about["test accuracy"] < high
    assert set(about["accuracy by class"]) == set(model.card.classes)
    assert not model.training


def test_what_ships_is_small():
    sizes = {path.name: path.stat().st_size for path in Path(CHECKPOINTS).rglob("*.safetensors")}
    assert sizes.pop("dinov2-s14.safetensors") < 44.2e6
    assert sizes["cifar10.safetensors"] < 12e6
    assert sum(sizes.values()) < 16e6


def test_shapes_are_told_apart_as_well_as_the_card_says():
    """On a quarter of the same scenes, within what that leaves to chance."""
    model = load_checkpoint("shapes")
    about = model.card.about
    score = evaluate(model, Shapes(about["test images"] // 4, model.config.image_size, seed=1))
    low, high = score.interval()
    assert low < about["test accuracy"] < high
    assert about["test accuracy"] > 0.95


@pytest.mark.parametrize("name", NAMES)
def test_the_positions_on_their_way_end_where_the_model_is(name):
    model, positions = load_checkpoint(name), load_positions(name)
    epochs = list(positions)
    assert epochs == sorted(epochs)
    assert epochs[0] == 0
    assert epochs[-1] == model.card.about.get("epochs done", model.card.about["recipe"]["epochs"])
    torch.manual_seed(model.card.about["recipe"]["seed"])
    untrained = VisionTransformer(model.config)
    # Not to the last bit: processors round the logarithms behind normal random numbers differently.
    torch.testing.assert_close(positions[0], untrained.embeddings.position().detach(), rtol=0, atol=1e-6)
    assert torch.equal(positions[epochs[-1]], model.embeddings.position())


@pytest.mark.filterwarnings("ignore::vit_tutorial.training.TrainingAlarm")  # so few scenes teach little
def test_the_script_that_keeps_positions_begins_before_training_and_ends_with_it(monkeypatch):
    folder = Path(__file__).resolve().parent.parent / "notebooks" / "tables"
    monkeypatch.syspath_prepend(folder)
    keep = runpy.run_path(str(folder / "positions.py"))["positions_in_training"]
    config, recipe = PRESETS["shapes"]
    untrained, model = (VisionTransformer(replace(config, image_size=8, depth=1)) for _ in range(2))
    model.load_state_dict(untrained.state_dict())
    kept = keep(model, Shapes(32, 8), replace(recipe, epochs=6))
    assert list(kept) == ["0", "1", "2", "3", "4", "5", "6"]
    assert torch.equal(kept["0"], untrained.embeddings.position())
    assert torch.equal(kept["6"], model.embeddings.position())
    assert not torch.equal(kept["5"], kept["6"]), "copies, and not the table that goes on moving"


def test_an_unknown_name_is_told_which_there_are():
    with pytest.raises(ValueError, match="unknown checkpoint 'cifar': did you mean 'cifar10'"):
        load_checkpoint("cifar")
