"""What a model's numbers mean, as far as those say who trained it; and a photo prepared as they prepared theirs."""

import inspect

import pytest
import timm
import torch
from PIL import Image
from torchvision.models import ViT_B_16_Weights, ViT_L_16_Weights
from transformers import DeiTImageProcessor, ViTImageProcessor

from vit_tutorial import from_timm, from_torchvision, from_transformers, load_photo, predict, to_timm
from vit_tutorial.data.photo import find_photo
from vit_tutorial.inference import fit_photo
from vit_tutorial.model_card import ModelCard
from vit_tutorial.pretrained import timm_models

from .families import our_vit, timm_by_name, timm_vit, torchvision_vit, transformers_vit

HALF = (0.5, 0.5, 0.5)
REGISTRY = [
    ViT_B_16_Weights.IMAGENET1K_V1,  # shorter side 256, middle 224
    ViT_L_16_Weights.IMAGENET1K_V1,  # 242, 224
    ViT_B_16_Weights.IMAGENET1K_SWAG_E2E_V1,  # 384, 384, bicubic
]


def picture() -> Image.Image:
    with Image.open(find_photo("grace_hopper")) as file:
        return file.convert("RGB")


def prepared(model) -> torch.Tensor:
    return model.card.normalise(fit_photo("grace_hopper", model)[None])[0]


@pytest.mark.parametrize("weights", REGISTRY, ids=str)
def test_a_photo_is_prepared_as_torchvision_prepares_it(weights):
    size = weights.transforms().crop_size[0]
    model = from_torchvision(torchvision_vit(size, 32, num_classes=1000), weights)
    assert (prepared(model) - weights.transforms()(picture())).abs().max() < 1e-6
    assert model.card.classes == tuple(weights.meta["categories"])
    assert str(weights) in model.card.about["weights"]
    assert model.card.about["url"] == weights.url
    assert predict(model, "grace_hopper") == predict(model, fit_photo("grace_hopper", model))


def test_a_photo_is_prepared_as_timm_prepares_it():
    theirs = timm_by_name("vit_tiny_patch16_224")
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(theirs))
    model = from_timm(theirs)
    assert model.card.mean == model.card.std == HALF
    assert (prepared(model) - transform(picture())).abs().max() < 1e-6


PROCESSORS = {
    "both sides": ViTImageProcessor(size={"height": 32, "width": 32}),
    "both sides, then the middle, bicubic": DeiTImageProcessor(size={"height": 36, "width": 36}, crop_size=32),
    "the shorter side, then the middle": ViTImageProcessor(
        size={"shortest_edge": 40}, do_center_crop=True, crop_size={"height": 32, "width": 32}
    ),
    "from 0 to 1": ViTImageProcessor(size={"height": 32, "width": 32}, do_normalize=False),
    "a wide image": ViTImageProcessor(size={"height": 16, "width": 48}),
}


@pytest.mark.parametrize("name", PROCESSORS)
def test_a_photo_is_prepared_as_transformers_prepares_it(name):
    """Within a byte or two, since its resizing rounds in another order."""
    processor = PROCESSORS[name]
    size = (16, 48) if name == "a wide image" else 32
    model = from_transformers(transformers_vit(image_size=size, id2label=dict(enumerate("abcdefg"))), processor)
    theirs = processor(picture(), return_tensors="pt")["pixel_values"][0]
    assert (prepared(model) - theirs).abs().max() <= 2.5 / 255 / min(model.card.std)
    assert model.card.classes == tuple("abcdefg")


def test_what_nobody_says_stays_unknown():
    assert from_timm(timm_vit()).card is None, "a model without pretrained_cfg does not know its pixels"
    assert from_transformers(transformers_vit()).card is None, "nor does one without its processor"
    assert from_torchvision(torchvision_vit()).card is None, "nor one that is not said to be of the registry"
    assert from_timm(timm_by_name("vit_tiny_patch16_224", in_chans=1)).card is None, "nor for another number of colours"


def test_the_margin_keeps_its_share_at_another_size():
    """Of 64 pixels, (256 - 224) / 224 of them: the middle of 73."""
    model = our_vit(image_size=64)
    margin = {"resize": 256, "crop": 224, "squeeze": False, "interpolation": "bicubic"}
    model.card = ModelCard(("?",) * 7, HALF, HALF, {"preprocessing": margin})
    expected = load_photo("grace_hopper", 73)[:, 4:68, 4:68]
    assert (fit_photo("grace_hopper", model) - expected).abs().mean() < 0.01


def test_a_head_of_zeros_is_warned_about_in_the_readers_line(monkeypatch):
    """The authors' first weights for 21,843 classes are so. The shape checker of the tests would be a line between."""
    monkeypatch.setattr(timm_models, "convert_model", inspect.unwrap(timm_models.convert_model))
    theirs = timm_vit()
    torch.nn.init.zeros_(theirs.head.weight)
    with pytest.warns(UserWarning, match="all zeros") as warned:
        inspect.unwrap(from_timm)(theirs)
    assert warned[0].filename == __file__


@pytest.mark.parametrize(("resize", "squeeze"), [(36, False), (32, True), (36, True)])
def test_the_card_goes_to_timm_and_back(resize, squeeze):
    model = our_vit().float()
    asked = {"resize": resize, "crop": 32, "squeeze": squeeze, "interpolation": "bicubic"}
    model.card = ModelCard(tuple("abcdefg"), (0.1, 0.2, 0.3), HALF, {"preprocessing": asked})
    theirs = to_timm(model)
    config = timm.data.resolve_model_data_config(theirs)
    assert config["input_size"] == (3, 32, 32)
    assert (timm.data.create_transform(**config)(picture()) - prepared(model)).abs().max() < 1e-6
    back = from_timm(theirs)
    assert torch.equal(prepared(back), prepared(model))
    assert back.card.classes == model.card.classes
