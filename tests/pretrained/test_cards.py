"""What a model's numbers mean, as far as those say who trained it; and a photo prepared as they prepared theirs."""

import pytest
import timm
import torch
from PIL import Image
from torchvision.models import ViT_B_16_Weights
from transformers import BitImageProcessor, DeiTImageProcessor, ViTImageProcessor

from vit_tutorial import from_timm, from_torchvision, from_transformers, load_photo
from vit_tutorial.data.photo import find_photo
from vit_tutorial.inference import fit_photo
from vit_tutorial.model_card import ModelCard

from .families import our_vit, timm_by_name, timm_vit, torchvision_vit, transformers_vit

HALF = (0.5, 0.5, 0.5)
REGISTRY = [ViT_B_16_Weights.IMAGENET1K_V1, ViT_B_16_Weights.IMAGENET1K_SWAG_E2E_V1]  # 256 and 224; 384, bicubic


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


def test_the_card_of_weights_for_another_size_is_refused():
    with pytest.raises(ValueError, match="is for images of 384, this model of 224"):
        from_torchvision(torchvision_vit(224, 32, num_classes=1000), REGISTRY[1])


def timm_model(**fields):
    size = fields.get("input_size", (3, 224, 224))[1:]
    theirs = timm_by_name("vit_tiny_patch16_224", num_classes=1000, img_size=size)
    theirs.pretrained_cfg |= fields
    return theirs


READ_BY_TIMM = {
    "as it is": {},
    "no share, which is 0.875": {"crop_pct": None},
    "mean and std": {"mean": (0.1, 0.2, 0.3), "std": (0.3, 0.2, 0.1), "interpolation": "lanczos"},
}


@pytest.mark.parametrize("case", READ_BY_TIMM)
def test_a_photo_is_prepared_as_timm_prepares_it(case):
    theirs = timm_model(**READ_BY_TIMM[case])
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(theirs))
    model = from_timm(theirs)
    assert (prepared(model) - transform(picture())).abs().max() < 1e-5
    assert model.card.classes[0] == "tench, Tinca tinca", "its tag says that it was trained on ImageNet's 1,000 classes"


NOT_READ_OF_TIMM = [{"crop_mode": "squash"}, {"interpolation": "random"}, {"input_size": (3, 32, 64)}]


@pytest.mark.parametrize("field", NOT_READ_OF_TIMM, ids=str)
def test_what_a_card_cannot_say_for_timm_is_refused_by_name(field):
    ((name, value),) = field.items()
    with pytest.raises(ValueError, match="these fields change pixels and are not read") as caught:
        from_timm(timm_model(**field))
    assert f"{name}={value!r}" in str(caught.value)
    theirs = timm_model(**field)
    theirs.pretrained_cfg = None
    assert from_timm(theirs).card is None


SQUARE = {"height": 32, "width": 32}
SHORTER = {"size": {"shortest_edge": 40}, "do_center_crop": True, "crop_size": SQUARE}
PROCESSORS = {
    "both sides": ViTImageProcessor(size=SQUARE),
    "both sides, then the middle, bicubic": DeiTImageProcessor(size={"height": 36, "width": 36}, crop_size=32),
    "the shorter side, then the middle": ViTImageProcessor(**SHORTER),
    "DINOv2's": BitImageProcessor(**SHORTER),
    "a crop that is not asked for": ViTImageProcessor(size=SQUARE, crop_size=20, do_center_crop=False),
    "another mean": ViTImageProcessor(size=SQUARE, image_mean=[0.1, 0.2, 0.3], image_std=[0.3, 0.2, 0.1]),
    "a wide image": ViTImageProcessor(size={"height": 16, "width": 48}),
    "nearest": ViTImageProcessor(size=SQUARE, resample=0),
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


NOT_READ = {
    "do_resize=False": {"do_resize": False},
    "do_rescale=False": {"do_rescale": False},
    f"rescale_factor={1 / 127.5!r}": {"rescale_factor": 1 / 127.5},
    "do_normalize=False": {"do_normalize": False},
    "image_mean=0.4": {"image_mean": 0.4},
    "size={'longest_edge': 32}": {"size": {"longest_edge": 32}},
    "do_center_crop=None": {"size": {"shortest_edge": 32}},
    "crop_size={'height': 16, 'width': 32}": SHORTER | {"crop_size": {"height": 16, "width": 32}},
    "do_pad=True": {"do_pad": True, "pad_size": {"height": 40, "width": 40}},
    "do_flip_channel_order=True": {"do_flip_channel_order": True},
}


@pytest.mark.parametrize("field", NOT_READ)
def test_what_a_card_cannot_say_for_transformers_is_refused_by_name(field):
    with pytest.raises(ValueError, match="these fields change pixels and are not read") as caught:
        from_transformers(transformers_vit(), ViTImageProcessor(**{"size": SQUARE} | NOT_READ[field]))
    assert field in str(caught.value)


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
    wrapper = torch.nn.DataParallel(model)
    wrapper.card, model.card = model.card, None  # as a wrapper may have it
    assert (fit_photo("grace_hopper", wrapper) - expected).abs().mean() < 0.01
