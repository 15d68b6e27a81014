"""The command, interrupted in every way that there is."""

import os
import runpy
import shlex
import signal
import sys
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from PIL import Image

from vit_tutorial import VisionTransformer, train
from vit_tutorial.files import UNFINISHED
from vit_tutorial.saving import load_model, read
from vit_tutorial.training import TrainingAlarm, fit

from .toys import bright_or_dark, differing, short, small_vit, start, told_for

SMALL = "--scenes 60 --image-size 16 --patch-size 8 --embed-dim 8 --depth 2 --num-heads 2 --mlp-dim 16 --device cpu"
RESTLESS = "--dropout 0.1 --attention-dropout 0.1 --drop-path 0.2 --crop 2 --flip --randaugment --mixup 0.4 --cutmix 1"
COMMAND = [*SMALL.split(), *RESTLESS.split(), "--batch-size", "16", "--seed", "5"]
TRAINED = "model.safetensors"

killable = pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has neither fork nor SIGKILL")


def run(out: Path, *options: str) -> tuple[int, str]:
    """The exit status of the command in a process of its own, and what it printed."""
    process = start(train.main, [*COMMAND, "--out", str(out), *options], output=out.with_suffix(".txt"))
    process.join(300)
    return process.exitcode, out.with_suffix(".txt").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> Path:
    """The folder of a run of three epochs."""
    out = tmp_path_factory.mktemp("uninterrupted") / "run"
    status, printed = run(out, "--epochs", "3")
    assert status == 0, printed
    return out


def assert_same_run(out: Path, whole: Path) -> None:
    for name in (TRAINED, "checkpoint.safetensors", "positions.safetensors"):
        assert not differing(read(out / name)[0], read(whole / name)[0]), name
    assert not list(out.rglob(f"*{UNFINISHED}"))
    assert len((out / "metrics.csv").read_text(encoding="utf-8").splitlines()) == 4


@killable
def test_what_a_run_leaves_behind(uninterrupted):
    out = uninterrupted
    files = {str(path.relative_to(out)) for path in out.rglob("*") if path.is_file()}
    assert files - {".lock"} == {"checkpoint.safetensors", "metrics.csv", TRAINED, "positions.safetensors"}
    model = load_model(out / TRAINED)
    about = model.card.about
    assert about["command"].startswith(f"python -m vit_tutorial.train {SMALL}")
    assert (about["training images"], about["test images"], about["recipe"]["epochs"]) == (60, 60, 3)
    assert about["test accuracy"] * 60 == pytest.approx(round(about["test accuracy"] * 60))
    assert about["hardware"].endswith("cpu, 1 threads")
    positions = read(out / "positions.safetensors")[0]
    assert sorted(positions) == ["0", "1", "2", "3"]
    torch.manual_seed(5)  # as asked for
    assert (positions["0"] == VisionTransformer(model.config).embeddings.position()).all()
    assert (positions["3"] == model.embeddings.position()).all()
    printed = out.with_suffix(".txt").read_text(encoding="utf-8")
    assert "60 images of 16×16 in 8 classes, on cpu" in printed
    assert printed.count("\nepoch ") == 3
    assert "of 60 images right (95 % interval" in printed


@killable
def test_validation_leaves_the_test_set_alone(tmp_path):
    status, printed = run(tmp_path / "run", "--epochs", "1", "--validate", "20")
    assert status == 0, printed
    assert "40 images" in printed
    assert "of 20 images right" in printed
    assert "The test set was not looked at." in printed
    assert not (tmp_path / "run" / TRAINED).exists()


def at_step(number: int, act: Callable, *arguments: str) -> int:
    """Run the command; in the middle of training step `number`, act."""
    step, count = torch.optim.AdamW.step, []

    def interrupted(*arguments, **options):
        count.append(number)
        if len(count) == number:
            act()
        return step(*arguments, **options)

    torch.optim.AdamW.step = interrupted
    return train.main([*arguments])


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(operation: int, *arguments: str) -> int:
    """Run the command; kill it just before so many calls of `os.fsync` and `os.replace`."""
    count, steps = [], {name: getattr(os, name) for name in ("fsync", "replace")}

    def deadly(name, *arguments):
        count.append(name)
        if len(count) == operation:
            die()
        return steps[name](*arguments)

    for name in steps:
        setattr(os, name, partial(deadly, name))
    return train.main([*arguments])


STEPS = [(at_step, number, die) for number in (5, 3, 7, 4)]  # an epoch has four
# Between a file's last byte and its name. An epoch takes six operations: two each for the positions, the checkpoint and
# the table. Two go before that for the table as soon as there is a checkpoint; two come at the end for the model.
OPERATIONS = [(die_at, operation) for operation in (2, 4, 5, 2, 4, 6, 7, 10, 3)]


@killable
@pytest.mark.parametrize("lives", [STEPS, OPERATIONS], ids=["in a step", "before a file has its name"])
def test_killed_until_it_ends(lives, uninterrupted, tmp_path):
    arguments, statuses = [*COMMAND, "--out", str(tmp_path / "run"), "--epochs", "3"], []
    for life in (*lives, (die_at, 99)):
        process = start(*life, *arguments, output=tmp_path / "txt")
        process.join(300)
        statuses.append(process.exitcode)
    assert statuses == [-signal.SIGKILL] * len(lives) + [0], (tmp_path / "txt").read_text(encoding="utf-8")
    assert_same_run(tmp_path / "run", uninterrupted)


def wait(sign: Path) -> None:
    """Say that this process waits, and wait until the sign is taken away."""
    sign.touch()
    while sign.exists():
        time.sleep(0.02)


@killable
def test_one_process_at_a_time_trains_in_a_folder(uninterrupted, tmp_path):
    """Another seed, the same command, the same folder in a notebook: refused at once, and the run does not notice."""
    out, sign = tmp_path / "run", tmp_path / "waiting"
    arguments = [*COMMAND, "--out", str(out), "--epochs", "3"]
    process = start(at_step, 6, partial(wait, sign), *arguments, output=tmp_path / "first")
    while process.is_alive() and not sign.exists():
        time.sleep(0.02)
    try:
        for options in ((), ("--seed", "1")):
            status, told = run(out, "--epochs", "3", *options)
            assert status == 2
            assert f"another process is training in {out}: wait for it, or choose another folder" in told
        with pytest.raises(ValueError, match="another process is training in"):
            fit(small_vit(), bright_or_dark(), short(), folder=out)
    finally:
        sign.unlink(missing_ok=True)
    process.join(300)
    assert process.exitcode == 0, (tmp_path / "first").read_text(encoding="utf-8")
    assert_same_run(out, uninterrupted)


def as_program(*arguments: str) -> None:
    """Run the command as `python -m` does."""
    sys.argv = ["train", *arguments]
    runpy.run_module("vit_tutorial.train", run_name="__main__", alter_sys=True)


@killable
@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM], ids=lambda kind: kind.name)
def test_a_polite_stop_says_how_to_go_on(kind, tmp_path):
    out = tmp_path / "run"
    process = start(as_program, *COMMAND, "--out", str(out), "--epochs", "5000", output=tmp_path / "txt")
    while process.is_alive() and not (out / "checkpoint.safetensors").exists():
        time.sleep(0.02)
    os.kill(process.pid, kind)
    process.join(300)
    printed = (tmp_path / "txt").read_text(encoding="utf-8")
    assert process.exitcode == 130, printed
    assert printed.endswith("\nstopped. The same command goes on after the last whole epoch.\n")
    assert "Traceback" not in printed
    assert not list(out.rglob(f"*{UNFINISHED}"))
    read(out / "checkpoint.safetensors")


def tell_twice() -> None:
    """The same cell, run twice. Prints what is told of each alarm: its file, and its line."""

    def show(message, category, filename, lineno, file=None, line=None):
        print(category.__name__, Path(filename).name, lineno - tell_twice.__code__.co_firstlineno)

    warnings.showwarning = show
    for _ in range(2):
        model = small_vit()
        model.head.bias.data[0] = 9
        fit(model, bright_or_dark(), short(epochs=1))


@killable
def test_an_alarm_points_at_the_reader_and_comes_again_with_the_cell(tmp_path):
    process = start(tell_twice, output=tmp_path / "txt")
    process.join(300)
    told = (tmp_path / "txt").read_text(encoding="utf-8").splitlines()
    assert told == [f"{TrainingAlarm.__name__} {Path(__file__).name} 10"] * 2


def test_a_test_scene_is_never_one_of_training():
    images, test = train.load_images(train.parse(["--scenes", "7000", "--image-size", "8"]), 28)
    assert (len(images), len(test)) == (7000, 6400)
    seen = {pixels.numpy().tobytes() for pixels in images.pixels}
    assert not seen & {pixels.numpy().tobytes() for pixels in test.pixels}


def folder_of(root: Path, **splits: str) -> list[str]:
    """Make a folder for each class that a split names, with a picture in it; return what the command needs."""
    for split, names in splits.items():
        for name in names.split():
            (root / split / name).mkdir(parents=True)
            Image.new("RGB", (8, 8), "grey").save(root / split / name / "1.png")
    return ["--data", str(root), "--image-size", "8", "--out", str(root / "run")]


# What is asked, and the facts that the line must show.
MISTAKES = {
    "--epochs many": ["--epochs", "'many'"],
    "--warmup-epochs 9 --epochs 2": ["warmup_epochs 9.0", "2"],
    "--schedule linear": ["--schedule", "'linear'", "cosine"],
    "--scenes 20 --validate 20": ["1 to 19", "20"],
    "--scenes 2000000000000": ["GB", "memory"],
    "--depth 100000000": ["parameters", "GB of memory"],
    "--pool average": ["--pool", "'average'"],
    "--device cuda:99": ["--device", "'cuda:99'", "cpu"],
    "--device gpu": ["--device", "'gpu'", "cpu"],
    "--dataset folder": ["--dataset folder needs --data"],
    "--dataset shapes --data here": ["--data is for folder and cifar10"],
    "--data here --scenes 5": ["--scenes is for shapes", "folder"],
    "--download": ["--download is for cifar10", "shapes"],
    "--weights shapes": ["--weights is for folder", "--data", "would train on shapes"],
    "--data not/here": ["no folder", "here"],
    "--data ''": ["--data must be a path"],
    "--dataset cifar10 --image-size 64": ["32×32", "64"],
    "--out ''": ["--out", "path"],
    "--epoch-count 3": ["--epoch-count", "--help"],
    "--compile yes": ["yes"],
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.usefixtures("unchecked")
def test_a_mistake_is_told_in_one_line_before_anything_is_written(mistake, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    told = told_for(train.main, shlex.split(mistake), capsys)
    assert not [fact for fact in MISTAKES[mistake] if fact not in told], told
    assert not list(tmp_path.iterdir())


# The class folders in each folder of --data, and the facts that the line must show.
FOLDERS = {
    "another name in test": ({"train": "bee cow", "test": "ant bee"}, "only train has 'cow', only test has 'ant'"),
    "a class missing in test": (
        {"train": "ant bee", "test": "ant"},
        "/train and ",
        "/test must",
        "only train has 'bee'",
    ),
    "a class missing in train": ({"train": "ant", "test": "ant bee"}, "same classes: only test has 'bee'"),
    "a single class": ({"train": "ant", "test": "ant"}, "/train holds one class, 'ant'", "at least two"),
    "the folder above": (
        {"here/train": "ant bee"},
        "no folder 'train' or 'test' in",
        "its folders: 'here'",
        "--data must hold",
    ),
    "classes without a split": ({"": "ant bee"}, "no folder 'train' or 'test' in", "its folders: 'ant', 'bee'"),
    "no test": ({"train": "ant", "val": "ant"}, "no folder 'test' in", "'train', 'val'", "even with --validate"),
}


@pytest.mark.parametrize("trouble", FOLDERS)
def test_folders_that_do_not_fit_are_told_before_a_picture_is_read(trouble, tmp_path, capsys):
    """Compared by place, every bee would be counted as a mistake; of a single class, every picture is right."""
    splits, *facts = FOLDERS[trouble]
    command = folder_of(tmp_path, **splits)
    for picture in tmp_path.rglob("*.png"):
        picture.write_text("never looked at", encoding="utf-8")
    told = told_for(train.main, command, capsys).replace(os.sep, "/")
    assert not [fact for fact in facts if fact not in told], told
    assert not (tmp_path / "run").exists()


def test_what_fit_refuses_is_told_in_one_line_and_a_bug_keeps_its_traceback(tmp_path, capsys, monkeypatch):
    def fail(*args, **options):
        raise error

    monkeypatch.setattr(train, "fit", fail)
    command = folder_of(tmp_path, train="ant bee", test="ant bee")
    for error in (ValueError("it belongs\nto another run"), OSError("a full disk"), FloatingPointError("nan")):
        assert str(error).replace("\n", " ") in told_for(train.main, command, capsys)
    error = TypeError("a bug")
    with pytest.raises(TypeError, match="a bug"):
        train.main(command)


def test_pictures_of_your_own_need_only_their_folder():
    asked = {"": "shapes", "--data here": "folder", "--dataset cifar10": "cifar10"}
    assert {options: train.parse(options.split()).dataset for options in asked} == asked
    assert train.parse(["--dataset", "cifar10", "--data", "."]).dataset == "cifar10"


def test_the_presets_warm_up_is_shortened_with_the_run_and_yours_is_not():
    preset = train.PRESETS["cifar10"].recipe  # five epochs
    for epochs, warmup in {180: 5, 10: 5, 9: 4.5, 1: 0.5}.items():
        assert train.choose_recipe(preset, {"epochs": epochs}).warmup_epochs == warmup
    assert train.choose_recipe(preset, {}).warmup_epochs == 5
    assert train.choose_recipe(preset, {"epochs": 2, "warmup_epochs": 2.0}).warmup_epochs == 2
