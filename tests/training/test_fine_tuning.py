"""The command, started from trained weights on a folder of pictures."""

import shlex
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image
from published import randomize

from vit_tutorial import VisionTransformer, change_resolution, train
from vit_tutorial.data import image_folder
from vit_tutorial.inference import fit_photo
from vit_tutorial.model_card import PREPROCESSING, STARTED_FROM, ModelCard
from vit_tutorial.saving import load_model, read_tensors, save_model

from .toys import differing, small_vit, weights_of

pytestmark = pytest.mark.filterwarnings("ignore::vit_tutorial.training.TrainingAlarm")  # so few steps teach little
MARGIN = {"resize": 20, "crop": 16, "squeeze": False, "interpolation": "bilinear"}
ABOUT = {"weights": "a test's", "test accuracy": 0.5}
CARD = ModelCard(("ant", "bee", "cow"), (0.5, 0.4, 0.3), (0.25, 0.3, 0.2), {**ABOUT, PREPROCESSING: MARGIN})


def trained_vit() -> VisionTransformer:
    """As if it had been trained; every weight is random."""
    sizes = {"image_size": 16, "num_classes": 3, "gelu": "tanh", "norm_eps": 1e-5, "representation_size": 6}
    model = randomize(small_vit(**sizes, dropout=0.1))
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


def run(options: str, weights: str = "trained.safetensors", data: str = "pictures") -> int:
    return train.main(["--data", data, "--device", "cpu", "--weights", weights, *shlex.split(options)])


@pytest.fixture
def begun(place, monkeypatch):
    """What a run gives to `fit`: model, images and recipe, as they are before the first step."""

    def begin(*arguments):
        given = []

        def stop(model, images, recipe, **options):
            given.extend([model, images, recipe])
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


def test_it_begins_with_the_old_weights_at_another_size_and_a_new_head(begun):
    model, images, recipe = begun("--epochs 2 --image-size 24")
    old, pixels = change_resolution(trained_vit(), 24), torch.randn(2, 3, 24, 24)
    assert torch.equal(model.eval().features(pixels), old.eval().features(pixels))
    assert torch.equal(model(pixels), torch.zeros(2, 2)), "every class equally likely"
    assert (recipe.learning_rate, recipe.cutmix, recipe.epochs, recipe.warmup_epochs) == (1e-4, 0.0, 2, 1.0)
    first = fit_photo("pictures/train/bright/0.png", model) * 255
    assert torch.equal(images.pixels[0], first.round().to(torch.uint8)), "as the card asks"


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


def test_the_head_alone_learns_what_it_learns_when_each_step_asks_the_whole_model(place, capsys):
    """What the frozen body makes of a picture is computed once."""
    options = "--trained head --epochs 6 --batch-size 7 --learning-rate 3e-2"
    assert run(f"{options} --out fast") == 0
    printed = capsys.readouterr().out
    assert "looks once at 32 images as they are: about 0 s\n" in printed
    asked = train.make_parser().parse_args(["--data", "pictures", "--weights", "trained.safetensors", *options.split()])
    asked.dataset = "folder"
    model, images, _ = train.load_model_and_images(asked, 0)
    _, features = train.head_alone(model, images)
    expected = model.features(model.card.normalise(images.pixels[3:4]))
    for found, labels in ((features.pixels[3:4], features.labels), (features[2:5].subset([1]).pixels, images.labels)):
        torch.testing.assert_close(found, expected[:, :, None, None])
        assert torch.equal(labels, images.labels)
    for layer in model.modules():
        if isinstance(layer, torch.nn.Dropout):
            layer.p = 0.0
    history = train.fit(model, images, train.choose_recipe(asked))
    tensors, about = read_tensors("fast/checkpoint.safetensors")
    torch.testing.assert_close(tensors["model.1.weight"], model.head.weight, rtol=1e-3, atol=1e-5)
    for fast, slow in zip(about["history"], history, strict=True):
        assert fast[2] == pytest.approx(slow.loss, rel=1e-4)
    assert history[-1].loss < history[0].loss / 2, "it learns"


def test_a_folder_of_classes_alone_is_split(place, capsys):
    """The same pictures each time, of each class a quarter, and none of them is trained on."""
    assert run("--split 0.25 --epochs 1 --seed 3 --out out", data="pictures/train") == 0
    printed = capsys.readouterr().out
    assert "of each class 25% are kept for the test, 8 pictures" in printed
    assert "24 images of 16×16" in printed
    images, test = image_folder("pictures/train", 16).split(0.25)
    assert test.labels.bincount().tolist() == [4, 4]
    assert torch.equal(test.pixels, image_folder("pictures/train", 16).split(0.25)[1].pixels)
    both = {pixels.numpy().tobytes() for pixels in torch.cat([images.pixels, test.pixels])}
    assert both == {pixels.numpy().tobytes() for pixels in image_folder("pictures/train", 16).pixels}
    assert len(both) == len(images) + len(test)
