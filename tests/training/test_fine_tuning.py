"""The command, started from trained weights on a folder of pictures."""

import shlex
import warnings
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image
from published import randomize

from vit_tutorial import VisionTransformer, ViTConfig, load_checkpoint, resize_position_embedding, train
from vit_tutorial.inference import fit_photo
from vit_tutorial.model_card import PREPROCESSING, STARTED_FROM, ModelCard
from vit_tutorial.saving import load_model, save_model

from .toys import differing, small_vit, told_for, weights_of

MARGIN = {"resize": 20, "crop": 16, "squeeze": False, "interpolation": "bilinear"}
ABOUT = {"weights": "a test's", "test accuracy": 0.5}
CARD = ModelCard(("ant", "bee", "cow"), (0.5, 0.4, 0.3), (0.25, 0.3, 0.2), {**ABOUT, PREPROCESSING: MARGIN})


def trained_vit(**options) -> VisionTransformer:
    """As if it had been trained; every weight is random."""
    sizes = {"image_size": 16, "num_classes": 3, "gelu": "tanh", "norm_eps": 1e-5, "representation_size": 6}
    model = randomize(small_vit(**sizes | options))
    model.card = CARD
    return model


@pytest.fixture
def place(tmp_path, monkeypatch) -> Path:
    """The current folder: a model, and wide pictures of two classes with something else at their sides. No cache."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path / "hub"))
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
        with monkeypatch.context() as context:
            context.setattr(train, "fit", lambda *them, **options: given.extend(them) or [])
            context.setattr(train, "evaluate", lambda *them: (_ for _ in ()).throw(KeyboardInterrupt))
            assert run(*arguments) == 130
        return given

    return begin


def test_from_a_file_to_a_model_for_your_own_classes(place, capsys):
    assert run("--epochs 4 --learning-rate 3e-2 --out out") == 0
    printed = capsys.readouterr().out
    assert "32 images of 16×16 in 2 classes" in printed
    assert "a new head for 2 classes" in printed
    model = load_model("out/model.safetensors")
    there = trained_vit().config
    assert model.config == replace(there, num_classes=2, representation_size=None)
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
    assert (recipe.layer_decay, recipe.trained, recipe.cutmix) == (0.75, "all", 0.0)
    first = fit_photo("pictures/train/bright/0.png", old) * 255
    assert torch.equal(images.pixels[0], first.round().to(torch.uint8)), "as the card asks"
    _, _, recipe = begun("--layer-decay 1 --epochs 2 --trained head")
    assert (recipe.layer_decay, recipe.epochs, recipe.warmup_epochs, recipe.trained) == (1.0, 2, 1.0, "head")


def test_another_image_size_moves_the_positions_and_the_margin(begun):
    model, images, _ = begun("--image-size 24 --dropout 0.1 --drop-path 0.2")
    old = trained_vit()
    expected = resize_position_embedding(old.embeddings.position(), (4, 4), (6, 6), 1)
    assert torch.equal(model.embeddings.position(), expected)
    assert not differing(weights_of(model.encoder), weights_of(old.encoder))
    assert images.pixels.shape[2:] == (24, 24)
    first = fit_photo("pictures/train/bright/0.png", model) * 255
    assert torch.equal(images.pixels[0], first.round().to(torch.uint8))
    block = model.encoder[1]
    assert (model.config.dropout, block.mlp.dropout1.p, block.drop_path2.p) == (0.1, 0.1, 0.2)


def test_the_head_first_and_then_everything(begun, place, capsys):
    assert run("--epochs 8 --learning-rate 0.1 --trained head --out head") == 0
    head = load_model("head/model.safetensors")
    same = {name: tensor for name, tensor in weights_of(trained_vit()).items() if "head" not in name}
    assert not differing({name: head.state_dict()[name] for name in same}, same)
    assert head.head.weight.all()
    capsys.readouterr()
    model, _, _ = begun("", "head/model.safetensors")
    assert "the head stays" in capsys.readouterr().out
    assert not differing(weights_of(model), weights_of(head))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # that the first loss is not ln 2 is no alarm here
        assert run("--epochs 1 --out all", "head/model.safetensors") == 0


def test_a_model_without_a_card_learns_the_scale_from_the_pictures(begun, place):
    model = trained_vit()
    model.card = None
    save_model(model, "bare.safetensors")
    model, images, _ = begun("", "bare.safetensors")
    assert model.card is None
    assert images.pixels.shape == (32, 3, 16, 16)


@pytest.mark.parametrize("name", train.SHIPPED)
def test_the_models_that_ship_are_known_by_name(name, begun, place):
    Path(name).mkdir()  # as the data set's folder may be called
    model, _, _ = begun("", name)
    assert not differing(weights_of(model.encoder), weights_of(load_checkpoint(name).encoder))
    assert model.config.num_classes == 2


@pytest.mark.parametrize("download", [False, True])
def test_published_weights_are_fetched_only_if_asked(download, begun, monkeypatch):
    asked = []
    monkeypatch.setattr(
        train, "load_pretrained", lambda *name, **options: asked.append((*name, options)) or trained_vit()
    )
    begun("--download" * download, "B/16")
    assert asked == [("B/16", {"download": download})]


def test_another_start_does_not_go_on_with_the_run_of_the_first(place, capsys):
    model = trained_vit()
    model.card = replace(CARD, about={"weights": "others"})
    save_model(model, "others.safetensors")
    assert run("--epochs 1 --out out") == 0
    assert run("--epochs 1 --out out") == 0, "the same command goes on"
    assert run("--epochs 1 --out out", "others.safetensors") == 2
    assert "belongs to another run" in capsys.readouterr().err


# What is asked, and the facts that the line must show. How else a file can be wrong is tried in `test_saving.py`.
MISTAKES = {
    "trained.safetensors --patch-size 8": ["--patch-size 8", "a model with patch_size 4"],
    "trained.safetensors --position sincos": ["--position sincos", "position learned"],
    "trained.safetensors --image-size 18": ["18×18", "4×4"],
    "trained.safetensors --dataset cifar10": ["--weights is for folder", "cifar10"],
    "trained.safetensors --download": ["--download is for cifar10", "--weights B/16", "folder"],
    "trained.safetensors --embed-dim 64": ["--embed-dim 64", "a model with embed_dim 8"],
    "trained.safetensors --out trained.safetensors": ["--out trained.safetensors is a file"],
    "gone.safetensors": ["no file 'gone.safetensors'"],
    "pictures": ["'pictures' is a folder", "model.safetensors"],
    "''": ["no file ''"],
    "b/16": ["unknown weights 'b/16'", "did you mean 'B/16'"],
    "resnet": ["unknown weights 'resnet'", "'B/16'", "'cifar10'", "a file that ends in .safetensors"],
    "B/16": ["vit_b_16-c867db91.pth", "it is not there", "--download", "330 MB"],
    "gray.safetensors": ["pictures have 3 channels, the weights are for 1"],
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.usefixtures("unchecked")
def test_a_mistake_is_told_in_one_line_before_anything_is_written(mistake, place, capsys):
    gray = VisionTransformer(ViTConfig(16, 4, in_channels=1, embed_dim=8, depth=1, num_heads=2, mlp_dim=8))
    save_model(gray, "gray.safetensors")
    before = sorted(place.rglob("*"))
    weights, *options = shlex.split(mistake)
    told = told_for(lambda options: run(shlex.join(options), weights), options, capsys)
    assert not [fact for fact in MISTAKES[mistake] if fact not in told], told
    assert sorted(place.rglob("*")) == before
