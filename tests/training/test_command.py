"""The command: what it leaves behind, and what it says of a mistake."""

import itertools
import os
import shlex
import time

import pytest
import torch

from vit_tutorial import VisionTransformer, train
from vit_tutorial.saving import load_model

from .toys import shrink

pytestmark = pytest.mark.filterwarnings("ignore::vit_tutorial.training.TrainingAlarm")  # so few scenes teach little


@pytest.fixture(autouse=True)
def few_scenes(monkeypatch):
    shrink(monkeypatch.setattr)


def test_what_a_run_prints_and_leaves_behind(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("USERPROFILE" if os.name == "nt" else "HOME", str(tmp_path))
    assert train.main(shlex.split("--device cpu --seed 5 --epochs 3 --learning-rate 1e-4 --out ~/run")) == 0
    out, printed = tmp_path / "run", capsys.readouterr().out
    first, *lines = printed.splitlines()
    assert first == "drawing 60 Shapes to train on, and 60 for the test", "before it takes seconds"
    assert "60 images of 16×16 in 8 classes, on cpu" in lines[0]
    assert "patch_size=8, in_channels=3, num_classes=8, embed_dim=8" in lines[1]
    assert "epochs=3, batch_size=16, learning_rate=0.0001, beta2=0.95" in lines[2]
    assert "fewer --epochs, a smaller --image-size" in lines[3]
    assert [*dict.fromkeys(line[:10] for line in lines[4:-1])] == ["epoch 1/3 ", "epoch 2/3 ", "epoch 3/3 "]
    assert "of 60 images right (95 % interval" in lines[-1]
    assert "the commonest class is " in lines[-1]
    assert {path.name for path in out.iterdir()} == {"checkpoint.safetensors", "metrics.csv", "model.safetensors"}
    about = load_model(out / "model.safetensors").card.about
    assert about["command"].startswith("python -m vit_tutorial.train --device cpu --seed 5 --epochs 3")
    assert (about["test images"], about["recipe"]["epochs"], about["epochs done"]) == (60, 3, 3)
    assert about["test accuracy"] * 60 == pytest.approx(round(about["test accuracy"] * 60))


def test_the_seed_draws_the_untrained_weights():
    asked = train.make_parser().parse_args(["--dataset", "shapes"])
    model, _, _ = train.load_model_and_images(asked, seed=5)
    torch.manual_seed(5)
    assert torch.equal(model.embeddings.position(), VisionTransformer(model.config).embeddings.position())


def test_ctrl_c_says_how_to_go_on_and_leaves_a_model(tmp_path, capsys, monkeypatch):
    """The model is there after the first epoch, and again every ten seconds; its card says how far it was."""
    clock = itertools.count(step=0.001)

    def stop(progress):
        if progress.epoch == 5:
            raise KeyboardInterrupt
        if progress.finished:
            next(itertools.islice(clock, 6000, None))  # an epoch takes six seconds

    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(train, "print_progress", stop)
    assert train.main(["--device", "cpu", "--epochs", "9", "--out", str(tmp_path / "run")]) == 130
    printed = capsys.readouterr().out
    assert printed.endswith("\nstopped. The same command goes on after the last whole epoch.\n")
    about = load_model(tmp_path / "run" / "model.safetensors").card.about
    assert about["epochs done"] == 3
    assert "test accuracy" not in about


def test_a_test_scene_is_never_one_of_training():
    images, test = train.load_images(train.make_parser().parse_args(["--dataset", "shapes"]), 8)
    seen = {pixels.numpy().tobytes() for pixels in images.pixels}
    assert not seen & {pixels.numpy().tobytes() for pixels in test.pixels}


# What is asked, and the facts that the line must show.
MISTAKES = {
    "--epochs many": ["--epochs", "'many'"],
    "--epochs 0": ["epochs must be a whole number of at least 1, got 0"],
    "--image-size 0": ["image_size must be a positive whole number", "got 0"],
    "--weights shapes --image-size 0": ["image_size must be a positive whole number", "got 0"],
    "--split 0": ["--split is for a folder of your own"],
    "--trained body": ["--trained", "'body'", "head"],
    "--device gpu": ["--device", "'gpu'", "cpu"],
    "--device cuda": ["PyTorch finds no cuda here"],
    "--trained head": ["--trained head needs --weights"],
    "--dataset folder": ["--data must be a path", "None"],
    "--data not/here": ["no folders train and test", "here", "--split 0.2"],
    "--epoch-count 3": ["unrecognized arguments", "--epoch-count"],
    "--weights mine": ["unknown checkpoint 'mine'", "'shapes'"],
    "--weights gone.safetensors": ["No such file", "'gone.safetensors'"],
    "--weights shapes --image-size 18": ["18×18", "4×4"],
    "--weights shapes --trained head --cutmix 1": ["--trained head needs --weights and no --cutmix"],
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.usefixtures("unchecked")
def test_a_mistake_is_told_in_one_line_before_anything_is_written(mistake, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="2"):
        train.main(shlex.split(mistake))
    printed, complaint = capsys.readouterr()
    assert "CIFAR" not in printed
    usage, told = complaint.splitlines()
    assert usage == "usage: python -m vit_tutorial.train [options]"
    assert told.startswith("python -m vit_tutorial.train: error: ")
    assert not [fact for fact in MISTAKES[mistake] if fact not in told], told
    assert not list(tmp_path.iterdir())


def test_the_presets_warm_up_is_shortened_with_the_run():
    """The preset of CIFAR-10 has five epochs of it."""
    options = {"": 5, "--epochs 10": 5, "--epochs 9": 4.5, "--epochs 1": 0.5}
    for given, warmup in options.items():
        asked = train.make_parser().parse_args(["--dataset", "cifar10", *given.split()])
        assert train.choose_recipe(asked).warmup_epochs == warmup, given
