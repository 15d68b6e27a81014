"""The command, started from trained weights on a folder of pictures."""

import shlex
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image
from published import randomize

from vit_tutorial import VisionTransformer, load_checkpoint, resize_position_embedding, train
from vit_tutorial.inference import fit_photo
from vit_tutorial.model_card import PREPROCESSING, STARTED_FROM, ModelCard
from vit_tutorial.saving import load_model, save_model

from .toys import differing, small_vit, weights_of

MARGIN = {"resize": 20, "crop": 16, "squeeze": False, "interpolation": "bilinear"}
ABOUT = {"weights": "a test's", "test accuracy": 0.5}
CARD = ModelCard(("ant", "bee", "cow"), (0.5, 0.4, 0.3), (0.25, 0.3, 0.2), {**ABOUT, PREPROCESSING: MARGIN})


def trained_vit() -> VisionTransformer:
    """As if it had been trained; every weight is random."""
    sizes = {"image_size": 16, "num_classes": 3, "gelu": "tanh", "norm_eps": 1e-5, "representation_size": 6}
    model = randomize(small_vit(**sizes))
    model.card = CARD
    return model


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """The current folder: a model, and wide pictures of two classes with something else at their sides."""
    monkeypatch.chdir(tmp_path)
    save_model(trained_vit(), "trained.safetensors")
    generator = torch.Generator().manual_seed(0)
    for split, count in (("train", 16), ("test", 4)):
        for name, ground in (("bright", 155), ("dark", 0)):
            Path("pictures", split, name).mkdir(parents=True)
            for number in range(count):
                pixels = torch.randint(100, (24, 40, 3), generator=generator) + ground
                pixels[:, :8] = pixels[:, -8:] = 128
                picture = Image.fromarray(pixels.to(torch.uint8).numpy())
                picture.save(Path("pictures", split, name, f"{number}.png"))
    return tmp_path


def run(options: str, weights: str = "trained.safetensors") -> int:
    return train.main(["--data", "pictures", "--device", "cpu", "--weights", weights, *shlex.split(options)])


@pytest.fixture
def begun(place, monkeypatch):
    """What a run gives to `fit`: model, images and recipe, as they are before the first step."""

    def begin(*arguments):
        given = []

        def stop(*them, **options):
            given.extend(them)
            raise KeyboardInterrupt

        with monkeypatch.context() as context:
            context.setattr(train, "fit", stop)
            assert run(*arguments) == 130
        return given

    return begin


def test_from_a_file_to_a_model_for_your_own_classes(place, capsys):
    assert run("--epochs 4 --learning-rate 3e-2 --out out") == 0
    printed = capsys.readouterr().out
    assert "32 images of 16×16 in 2 classes" in printed
    assert "a new head for 2 classes" in printed
    model = load_model("out/model.safetensors")
    assert model.config == replace(trained_vit().config, num_classes=2, representation_size=None)
    assert model.card.classes == ("bright", "dark")
    assert (model.card.mean, model.card.std) == (CARD.mean, CARD.std), "the pixels are scaled as for the old weights"
    assert model.card.about[PREPROCESSING] == MARGIN
    assert model.card.about[STARTED_FROM] == ABOUT
    assert "--weights trained.safetensors" in model.card.about["command"]
    assert model.card.about["test accuracy"] == 1.0
    before, after = trained_vit().state_dict(), model.state_dict()
    assert not [name for name in before if "head" not in name and torch.equal(before[name], after[name])]


def test_it_begins_with_the_old_weights_a_new_head_and_slower_lower_layers(begun):
    model, images, recipe = begun("")
    old = trained_vit()
    pixels = torch.randn(2, 3, 16, 16)
    assert torch.equal(model.eval().features(pixels), old.eval().features(pixels))
    assert torch.equal(model(pixels), torch.zeros(2, 2)), "every class equally likely"
    assert (recipe.layer_decay, recipe.cutmix) == (0.75, 0.0)
    first = fit_photo("pictures/train/bright/0.png", old) * 255
    assert torch.equal(images.pixels[0], first.round().to(torch.uint8)), "as the card asks"
    _, _, recipe = begun("--layer-decay 1 --epochs 2")
    assert (recipe.layer_decay, recipe.epochs, recipe.warmup_epochs) == (1.0, 2, 1.0)


def test_another_image_size_moves_the_positions_and_the_margin(begun):
    model, images, _ = begun("--image-size 24 --dropout 0.1 --drop-path 0.2")
    old = trained_vit()
    expected = resize_position_embedding(old.embeddings.position(), (4, 4), (6, 6), 1)
    assert torch.equal(model.embeddings.position(), expected)
    assert not differing(weights_of(model.encoder), weights_of(old.encoder))
    first = fit_photo("pictures/train/bright/0.png", model) * 255
    assert torch.equal(images.pixels[0], first.round().to(torch.uint8))
    block = model.encoder[1]
    assert (model.config.dropout, block.mlp.dropout1.p, block.drop_path2.p) == (0.1, 0.1, 0.2)


def test_the_head_first_and_then_everything(begun, place):
    assert run("--epochs 8 --learning-rate 0.1 --trained head --out head") == 0
    head = load_model("head/model.safetensors")
    same = {name: tensor for name, tensor in weights_of(trained_vit()).items() if "head" not in name}
    assert not differing({name: head.state_dict()[name] for name in same}, same)
    model, _, _ = begun("", "head/model.safetensors")
    assert model.head.weight.all()
    assert not differing(weights_of(model), weights_of(head)), "the head stays, since the classes do"
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # that the first loss is far below ln 2 is no alarm
        assert run("--epochs 1 --out all", "head/model.safetensors") == 0


def test_a_model_without_a_card_learns_the_scale_from_the_pictures(place):
    model = trained_vit()
    model.card = None
    save_model(model, "bare.safetensors")
    assert run("--epochs 1 --out out", "bare.safetensors") == 0
    card = load_model("out/model.safetensors").card
    assert card.classes == ("bright", "dark")
    assert card.mean != CARD.mean


@pytest.mark.parametrize("name", ["cifar10", "shapes"])
def test_the_models_that_ship_are_known_by_name(name, begun):
    model, _, _ = begun("", name)
    assert not differing(weights_of(model.encoder), weights_of(load_checkpoint(name).encoder))
    assert model.config.num_classes == 2


def test_published_weights_are_fetched_only_if_asked(place, monkeypatch, capsys):
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(place / "hub"))  # an empty cache
    with pytest.raises(SystemExit):
        run("", "B/16")
    assert "vit_b_16-c867db91.pth" in (told := capsys.readouterr().err)
    assert "--download" in told
