"""A trained model names what it sees, on the scale of pixels that it was trained on."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from vit_tutorial import ImageSet, VisionTransformer, ViTConfig, load_photo, predict
from vit_tutorial.experiments import answers
from vit_tutorial.inference import fit_photo, logits_of
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


@pytest.mark.usefixtures("unchecked")
def test_a_picture_of_pillow_is_fitted_as_the_file_is(model, tmp_path):
    """Whatever its size and its colours, and an array of bytes or of floats, too."""
    pixels = np.random.default_rng(0).integers(0, 256, (40, 30, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    expected = predict(model, tmp_path / "photo.png")
    clear = np.dstack([pixels, np.full((40, 30), 255, np.uint8)])
    for photo in (pixels, clear, pixels / 255):
        assert predict(model, photo) == expected
    assert predict(model, Image.fromarray(clear)) == expected
    with pytest.raises(ValueError, match="for values from 0 to 255, divide them by 255"):
        predict(model, pixels.astype(float))
    sideways = Image.fromarray(np.rot90(pixels).copy())
    sideways.getexif()[0x0112] = 6  # turn it to the right
    assert predict(model, sideways) == expected
    assert sideways.size == (40, 30), "the reader's picture stays as it is"


def test_floats_are_rounded_and_what_resizing_adds_beyond_black_and_white_is_cut_off(model):
    for value, byte in ((100.6 / 255, 101), (1.1, 255), (-0.1, 0)):
        assert (fit_photo(np.full((16, 24, 3), value), model) * 255).unique().tolist() == [byte], value


@pytest.mark.usefixtures("unchecked")
def test_a_folder_is_told_how_to_ask_about_all_its_pictures(model, tmp_path):
    for name in ("b", "a"):
        Image.new("RGB", (24, 16), "red").save(tmp_path / f"{name}.jpg")
    with pytest.raises(FileNotFoundError, match="is a folder, and this takes one picture") as caught:
        predict(model, tmp_path)
    each = str(caught.value).partition("For all of them: ")[2]
    assert len(eval(each, {"predict": predict, "model": model, "Path": Path})) == 2


@pytest.mark.usefixtures("unchecked")
def test_logits_of_refuses_the_pixels_that_predict_refuses(model):
    """With an attention of one's own too: 0 to 255 as floats would be answered, and wrongly."""
    bytes = torch.randint(256, (3, 3, 16, 24), dtype=torch.uint8)
    assert torch.allclose(logits_of(model, bytes), logits_of(model, bytes / 255), atol=1e-4)
    for ask in (logits_of, answers):
        with pytest.raises(ValueError, match=r"from 0 to 1, got torch.float32 from .* to .*, divide them by 255"):
            ask(model, bytes.float())
    labels = torch.zeros(3, dtype=torch.int64)
    for ask in (logits_of, lambda model, images: model.card.normalise(images)):
        with pytest.raises(ValueError, match=r"images are a tensor \(B, C, H, W\), got a ImageSet: .*images.pixels"):
            ask(model, ImageSet(bytes, labels, CLASSES))
    with pytest.raises(ValueError, match=r"got \(3, 16, 24\)"):
        logits_of(model, bytes[0])


@pytest.mark.usefixtures("unchecked")
def test_a_network_without_a_size_of_its_own_takes_a_tensor(model):
    network = torch.nn.Sequential(model)
    network.card = model.card
    assert predict(network, torch.rand(3, 16, 24))
    network.config = {"image_size": 16}  # of another library
    with pytest.raises(ValueError, match="Sequential does not say its image size: give `predict` a tensor"):
        predict(network, "grace_hopper")


WRONG = {
    "whole numbers": (torch.zeros(3, 16, 24, dtype=torch.int64), ["floats", "torch.int64", "divide them by 255"]),
    "0 to 255": (torch.full((3, 16, 24), 254.0), ["from 0 to 1", "254 to 254", "divide them by 255"]),
    "normalised": (torch.linspace(-2, 2, 3 * 16 * 24).view(3, 16, 24), ["from 0 to 1", "-2 to 2"]),
    "nan": (torch.full((3, 16, 24), torch.nan), ["from 0 to 1", "nan"]),
    "one axis": (np.zeros(5, np.uint8), ["shape (H, W, 3), got (5,)"]),
    "16 bits": (np.zeros((16, 24, 3), np.uint16), ["torch.uint16 from 0 to 0", "divide them by 255"]),
    "channels first": (np.zeros((3, 16, 24), np.uint8), ["an array of a photo has shape (H, W, 3), got (3, 16, 24)"]),
    "a batch": (torch.zeros(1, 3, 16, 24), ["shape (3, H, W)", "(1, 3, 16, 24)"]),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("case", WRONG)
def test_what_is_no_photo_for_the_model_gets_one_error_that_shows_the_facts(case, model):
    photo, facts = WRONG[case]
    with pytest.raises(ValueError, match="got") as caught:
        predict(model, photo)
    assert not [fact for fact in facts if fact not in str(caught.value)], str(caught.value)


def test_a_model_without_a_card_says_so(model):
    model.card = None
    with pytest.raises(ValueError, match="no card"):
        predict(model, torch.rand(3, 16, 24))
