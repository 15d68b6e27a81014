"""A model of ours used in timm: equal logits, its rates of dropout and its card."""

import re
import sys

import pytest
import timm
import torch
from torch import nn
from torchvision.models import ViT_B_16_Weights

from vit_tutorial import Backbone, VisionTransformer, ViTConfig, from_timm, from_torchvision, to_timm
from vit_tutorial.config import POSITIONS
from vit_tutorial.model_card import ModelCard

from .families import our_vit, torchvision_vit
from .test_converting import assert_equal_and_telling, draw
from .test_published_cards import HALF, picture, prepared


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("pool", ["cls", "mean"])
def test_a_model_of_ours_can_be_used_in_timm(pool, position):
    ours = our_vit(pool=pool, position=position, image_size=(12, 20), patch_size=(4, 10), mlp_dim=71, norm_eps=1e-4)
    theirs = to_timm(ours)
    images = draw(ours)
    assert not theirs.training
    assert_equal_and_telling(ours(images), theirs(images))
    assert_equal_and_telling(ours(images), from_timm(theirs)(images))


def test_the_rates_of_dropout_go_to_timm():
    theirs = to_timm(our_vit(dropout=0.1, attention_dropout=0.2, drop_path=0.3))
    block = theirs.blocks[-1]
    assert (theirs.pos_drop.p, block.mlp.drop2.p, block.attn.attn_drop.p) == (0.1, 0.1, 0.2)
    assert block.drop_path1.drop_prob == pytest.approx(0.3)


def test_the_card_goes_to_timm_and_back():
    ours = from_torchvision(torchvision_vit(224, 32, num_classes=1000), ViT_B_16_Weights.IMAGENET1K_V1)
    theirs = to_timm(ours)
    config = timm.data.resolve_model_data_config(theirs)
    assert (config["mean"], config["std"], config["input_size"]) == (ours.card.mean, ours.card.std, (3, 224, 224))
    back = from_timm(theirs).card
    assert (back.classes, back.mean, back.std) == (ours.card.classes, ours.card.mean, ours.card.std)
    assert back.about["preprocessing"] == ours.card.about["preprocessing"]


@pytest.mark.parametrize("asked", [{"resize": "both sides"}, {"resize": "both sides", "to": 36, "crop": 32}], ids=str)
def test_a_squeezed_photo_is_squeezed_in_timm_and_back(asked):
    model = our_vit().float()
    model.card = ModelCard(tuple("abcdefg"), HALF, HALF, {"preprocessing": {**asked, "interpolation": "bicubic"}})
    theirs = to_timm(model)
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(theirs))
    assert (transform(picture()) - prepared(model)).abs().max() < 1e-6
    assert torch.equal(prepared(from_timm(theirs)), prepared(model))


def test_what_timm_has_no_place_for_is_refused():
    with pytest.raises(ValueError, match=re.escape("timm has no head.representation.weight")):
        to_timm(our_vit(representation_size=8))
    hybrid = VisionTransformer(ViTConfig(16, 8, num_classes=5), Backbone(nn.Identity(), channels=3, stride=1))
    with pytest.raises(ValueError, match="this model has a backbone in front"):
        to_timm(hybrid)


def test_without_timm_the_way_to_it_says_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm.layers", None)
    with pytest.raises(ImportError, match="pip install timm"):
        to_timm(our_vit())
