"""A trained model names what it sees, on the scale of pixels that it was trained on."""

import pytest
import torch

from vit_tutorial import VisionTransformer, ViTConfig, load_photo, predict
from vit_tutorial.inference import logits_of
from vit_tutorial.model_card import ModelCard

CLASSES = ("cat", "dog", "owl", "pig")


@pytest.fixture
def model():
    config = ViTConfig(
        image_size=(16, 24), patch_size=8, num_classes=4, embed_dim=16, depth=1, num_heads=2, mlp_dim=32, dropout=0.5
    )
    model = VisionTransformer(config)
    torch.nn.init.normal_(model.head.weight)
    model.card = ModelCard(CLASSES, mean=(0.5, 0.4, 0.3), std=(0.2, 0.25, 0.5))
    return model


@pytest.mark.usefixtures("unchecked")
def test_the_most_probable_classes_come_first_and_all_sum_to_1(model):
    photo = torch.rand(3, 16, 24)
    scaled = torch.stack([(photo[0] - 0.5) / 0.2, (photo[1] - 0.4) / 0.25, (photo[2] - 0.3) / 0.5])
    expected = model.eval()(scaled[None])[0].softmax(dim=0)
    found = predict(model, photo, top=10)
    assert [name for name, _ in found] == [CLASSES[i] for i in expected.argsort(descending=True)]
    assert [p for _, p in found] == pytest.approx(expected.sort(descending=True).values.tolist())
    assert predict(model, photo, top=3) == found[:3]
    assert sum(p for _, p in found) == pytest.approx(1)


def test_the_model_is_left_in_its_mode_and_dropout_takes_no_part(model):
    """The photo has a name, and is fitted to the model's size; as a tensor it may hold bytes."""
    expected = predict(model, load_photo("grace_hopper", (16, 24)))
    assert predict(model.train(), "grace_hopper") == expected
    assert model.training
    photo = torch.randint(256, (3, 16, 24), dtype=torch.uint8)
    found, floats = dict(predict(model, photo)), dict(predict(model, photo / 255))
    assert list(found) == list(floats)
    assert found == pytest.approx(floats, rel=1e-4)


def test_logits_have_no_gradients_and_pixels_become_floats_batch_by_batch(model, monkeypatch):
    """A data set of bytes is four times as large in floats."""
    sizes, normalise, images = [], ModelCard.normalise, torch.rand(5, 3, 16, 24)
    monkeypatch.setattr(ModelCard, "normalise", lambda card, x: normalise(card, x[sizes.append(len(x)) or slice(None)]))
    logits = logits_of(model, images, batch_size=2)
    assert not logits.requires_grad
    torch.testing.assert_close(logits, logits_of(model, images))
    assert sizes == [2, 2, 1, 5]


@pytest.mark.usefixtures("unchecked")
def test_a_network_without_a_size_of_its_own_takes_a_tensor(model):
    network = torch.nn.Sequential(model)
    network.card = model.card
    assert predict(network, torch.rand(3, 16, 24))
    with pytest.raises(ValueError, match="Sequential does not say its image size: give `predict` a tensor"):
        predict(network, "grace_hopper")


WRONG = {
    "whole numbers": (torch.zeros(3, 16, 24, dtype=torch.int64), ["floats", "torch.int64", "photo / 255"]),
    "0 to 255": (torch.full((3, 16, 24), 254.0), ["from 0 to 1", "254 to 254", "photo / 255"]),
    "normalised": (torch.linspace(-2, 2, 3 * 16 * 24).view(3, 16, 24), ["from 0 to 1", "-2 to 2"]),
    "nan": (torch.full((3, 16, 24), torch.nan), ["from 0 to 1", "nan"]),
    "a batch": (torch.zeros(1, 3, 16, 24), ["shape (3, H, W)", "(1, 3, 16, 24)"]),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_photo_for_the_model_gets_one_error_that_shows_the_facts(case, model):
    photo, facts = WRONG[case]
    with pytest.raises(ValueError, match="got") as caught:
        predict(model, photo)
    assert not [fact for fact in facts if fact not in str(caught.value)], str(caught.value)


# What is wrong with the model, and what the message must show.
MODELS = {
    "no card": (lambda model: setattr(model, "card", None), "no card"),
    "not finite": (
        lambda model: torch.nn.init.constant_(model.head.bias, torch.nan),
        "the model's logits are not finite",
    ),
}


@pytest.mark.parametrize("case", MODELS)
def test_a_model_that_cannot_answer_says_so(case, model):
    damage, message = MODELS[case]
    damage(model)
    with pytest.raises(ValueError, match=message):
        predict(model, torch.rand(3, 16, 24))
