"""The weights that ship: what their cards say is what they are."""

from dataclasses import replace

import pytest
import torch

from vit_tutorial import Shapes, VisionTransformer, load_checkpoint
from vit_tutorial.pretrained import load_positions
from vit_tutorial.train import make_parser
from vit_tutorial.training import PRESETS, Recipe, evaluate

NAMES = ("cifar10", "shapes")


@pytest.mark.parametrize("name", NAMES)
def test_the_card_says_where_the_weights_come_from(name):
    model = load_checkpoint(name)
    about = model.card.about
    asked = make_parser().parse_args(about["command"].partition("vit_tutorial.train ")[2].split())
    config, recipe = PRESETS[asked.dataset]
    assert model.config == replace(config, num_classes=len(model.card.classes))
    assert Recipe(**about["recipe"]) == recipe
    assert "thread" in about["hardware"]  # one, or several
    low, high = about["95 % interval"]
    assert low < about["test accuracy"] < high
    assert set(about["accuracy by class"]) == set(model.card.classes)
    assert not model.training


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


def test_an_unknown_name_is_told_which_there_are():
    with pytest.raises(ValueError, match="unknown checkpoint 'cifar': did you mean 'cifar10'"):
        load_checkpoint("cifar")
