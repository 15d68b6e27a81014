"""An interrupted run loses the epoch under way and nothing else; a folder of another run is left alone."""

import csv
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

from vit_tutorial.files import UNFINISHED
from vit_tutorial.model_card import ModelCard
from vit_tutorial.saving import read, write
from vit_tutorial.training import TrainingAlarm, fit
from vit_tutorial.training.progress import Epoch

from .toys import RESTLESS, RESTLESS_MODEL, bright_or_dark, differing, short, small_vit, weights_of

CHECKPOINT, METRICS = "checkpoint.safetensors", "metrics.csv"
RECIPE = short(**RESTLESS)  # three epochs of three steps


def table(folder: Path) -> list[dict]:
    with open(folder / METRICS, newline="", encoding="utf-8") as file:
        return [{name: value for name, value in row.items() if name != "seconds"} for row in csv.DictReader(file)]


def interrupt(model: nn.Module, step: int) -> nn.Module:
    """Ctrl-C in the middle of a step, counted from 1."""
    steps = []

    def stop(module, inputs, output):
        steps.append(1)
        if len(steps) == step:
            raise KeyboardInterrupt

    model.head.register_forward_hook(stop)
    return model


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> tuple[dict, Path]:
    folder, model = tmp_path_factory.mktemp("uninterrupted"), small_vit(**RESTLESS_MODEL)
    fit(model, bright_or_dark(), RECIPE, folder=folder)
    return weights_of(model), folder


@pytest.mark.parametrize("stops", [[1], [2, 3], [4], [5, 5], [7, 2, 1], [9]])
def test_a_resumed_run_ends_as_one_without_interruption(stops, uninterrupted, tmp_path):
    """To the last bit: weights, moments, table. With dropout, drop path, crops, flips, RandAugment, mixup, cutmix."""
    weights, folder = uninterrupted
    for step in stops:
        with pytest.raises(KeyboardInterrupt):
            fit(interrupt(small_vit(**RESTLESS_MODEL), step), bright_or_dark(), RECIPE, folder=tmp_path)
        torch.rand(3)  # what else happens in the process does not matter
    model = small_vit(**RESTLESS_MODEL)
    if (tmp_path / CHECKPOINT).exists():
        nn.init.ones_(model.head.bias)  # nor do the weights that the model brings
    history = fit(model, bright_or_dark(), RECIPE, folder=tmp_path)
    assert not differing(weights_of(model), weights)
    assert not differing(read(tmp_path / CHECKPOINT)[0], read(folder / CHECKPOINT)[0])
    assert any("/exp_avg_sq" in name for name in read(folder / CHECKPOINT)[0])
    assert [epoch.number for epoch in history] == [1, 2, 3]
    assert table(tmp_path) == table(folder)


def test_a_finished_run_is_only_read(uninterrupted):
    weights, folder = uninterrupted
    before, model = (folder / CHECKPOINT).read_bytes(), small_vit(**RESTLESS_MODEL)
    assert len(fit(model, bright_or_dark(), RECIPE, folder=folder)) == 3
    assert not differing(weights_of(model), weights)
    assert (folder / CHECKPOINT).read_bytes() == before


def test_the_table_has_a_line_for_each_epoch_is_made_again_and_never_ends_a_run(tmp_path):
    """Something lies where it should be, as when a spreadsheet on Windows has it open."""
    (tmp_path / METRICS).mkdir()
    with pytest.warns(UserWarning, match=rf"{METRICS}.*The run goes on"):
        fit(small_vit(), bright_or_dark(), short(), validation=bright_or_dark(6), folder=tmp_path)
    (tmp_path / METRICS).rmdir()
    history = fit(small_vit(), bright_or_dark(), short(), folder=tmp_path)
    with open(tmp_path / METRICS, newline="", encoding="utf-8") as file:
        head, *lines = csv.reader(file)
    assert tuple(head) == Epoch._fields
    assert [[float(value) for value in line] for line in lines] == [list(epoch) for epoch in history]
    assert len(lines) == 3


def test_what_was_read_does_not_hold_on_to_the_file(uninterrupted):
    """Tensors that lie in the file would stand in the way of the next checkpoint: Windows could not write it."""
    path = uninterrupted[1] / CHECKPOINT
    tensors, _ = read(path)
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("this system does not list what is mapped")
    assert tensors
    assert str(path) not in maps.read_text(encoding="utf-8")


IMAGES = bright_or_dark()
SCALED = small_vit(**RESTLESS_MODEL)
SCALED.card = ModelCard((), (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
TRAINED = small_vit(**RESTLESS_MODEL)
TRAINED.card = ModelCard((), *IMAGES.mean_std(), {"test accuracy": 0.9})
# What is other than in the run whose folder it is, and what is said about it.
OTHER_RUNS = {
    "seed": ({"recipe": short(seed=1, **RESTLESS)}, "seed 0 there, 1 here"),
    "mixup": ({"recipe": short(**{**RESTLESS, "mixup": 0.3})}, "mixup 0.4 there, 0.3 here"),
    "names": ({"images": replace(IMAGES, classes=("bright", "dark"))}, "classes .* there, .* here"),
    "dropout": ({"model": small_vit(**{**RESTLESS_MODEL, "dropout": 0.2})}, "dropout 0.1 there, 0.2 here"),
    "fewer images": ({"images": bright_or_dark(23)}, "images 24 there, 23 here, checksum of pixels and labels .*"),
    "labels": ({"images": replace(IMAGES, labels=1 - IMAGES.labels)}, "checksum of pixels and labels .* there, .*"),
    "pixels": ({"images": replace(IMAGES, pixels=255 - IMAGES.pixels)}, "checksum of pixels and labels .* there, .*"),
    "scale": ({"model": SCALED}, "mean and std of the pixels .* there, .* here"),
    "origin": ({"model": TRAINED}, r"checksum of what the card says of the first weights \d+ there, \d+ here"),
    "gelu": ({"model": small_vit(**RESTLESS_MODEL, gelu="tanh")}, "gelu 'exact' there, 'tanh' here"),
    "heads": ({"model": small_vit(**RESTLESS_MODEL, num_heads=4)}, "num_heads 2 there, 4 here"),
    "depth": ({"model": small_vit(**RESTLESS_MODEL, depth=1)}, r"depth 2 there, 1 here, .* and \d+ more"),
}


@pytest.mark.parametrize("other", OTHER_RUNS)
def test_the_folder_of_another_run_is_left_alone(other, uninterrupted):
    options, told = OTHER_RUNS[other]
    folder, model = uninterrupted[1], options.get("model") or small_vit(**RESTLESS_MODEL)
    files, before, card = {path.name: path.read_bytes() for path in folder.iterdir()}, weights_of(model), model.card
    with pytest.raises(ValueError, match=rf"belongs to another run: {told}\. Use another folder, or delete ") as error:
        fit(model, options.get("images", IMAGES), options.get("recipe", RECIPE), folder=folder)
    assert str(error.value).count(" there, ") <= 6, "a message, not a listing"
    assert not differing(weights_of(model), before)
    assert model.card is card
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == files


def test_a_run_from_before_there_was_a_choice_of_gelu_goes_on_with_the_exact_one(uninterrupted, tmp_path):
    weights, folder = uninterrupted
    tensors, about = read(folder / CHECKPOINT)
    del about["run"]["gelu"]
    write(tmp_path / CHECKPOINT, tensors, about)
    with pytest.raises(ValueError, match="gelu 'exact' there, 'tanh' here"):
        fit(small_vit(**RESTLESS_MODEL, gelu="tanh"), bright_or_dark(), RECIPE, folder=tmp_path)
    model = small_vit(**RESTLESS_MODEL)
    fit(model, bright_or_dark(), RECIPE, folder=tmp_path)
    assert not differing(weights_of(model), weights)


def test_a_model_without_a_configuration_is_known_by_its_weights(tmp_path):
    def cnn(*more: nn.Module) -> nn.Module:
        return nn.Sequential(nn.Conv2d(3, 4, 8), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 2), *more)

    model = cnn()
    nn.init.zeros_(model[3].weight)
    fit(model, bright_or_dark(), short(epochs=1), folder=tmp_path)
    fit(cnn(), bright_or_dark(), short(epochs=1), folder=tmp_path)
    with pytest.raises(ValueError, match=r"model.4.weight None there, 'torch.float32 \(2, 2\)' here"):
        fit(cnn(nn.Linear(2, 2)), bright_or_dark(), short(epochs=1), folder=tmp_path)
    frozen = cnn()
    frozen[0].requires_grad_(False)
    with pytest.raises(ValueError, match=r"frozen \[\] there, \['0.weight', '0.bias'\] here"):
        fit(frozen, bright_or_dark(), short(epochs=1), folder=tmp_path)


def without(end: str, tensors: dict) -> dict:
    return {name: tensor for name, tensor in tensors.items() if not name.endswith(end)}


AVERAGE, STEP = "optimizer.head.weight/exp_avg", "optimizer.head.weight/step"
FIRST = [1, 0.01, 0.7, 0.1, None, None]  # an epoch
# What is changed in the tensors and in the facts of a checkpoint that is whole otherwise, and what is said about it.
FORGED = {
    "a moment of one value": (lambda t: t | {AVERAGE: torch.zeros(1)}, {}, rf"{AVERAGE} 'torch.float32 \(1,\)' there"),
    "a moment of doubles": (lambda t: t | {AVERAGE: t[AVERAGE].double()}, {}, rf"{AVERAGE} 'torch.float64 .* there"),
    "no moments": (lambda t: without("exp_avg", t), {}, r"exp_avg None there, 'torch.float32 .* and \d+ more"),
    "half of the weights": (lambda t: dict(list(t.items())[::2]), {}, "None there, 'torch.float32"),
    "one tensor more": (lambda t: t | {"optimizer.99/step": torch.ones(())}, {}, r"optimizer.99/step .* None here"),
    "a weight that is nan": (lambda t: t | {"model.norm.bias": t["model.norm.bias"] / 0}, {}, "not finite"),
    "a step too many": (lambda t: t | {STEP: t[STEP] + 1}, {}, "3 epochs and 10 steps"),
    "another kind of run": (dict, {"run": 3}, ""),
    "no run": (dict, {"run": None}, "'run'"),
    "no step taken": (lambda t: {n: x * (not n.endswith("step")) for n, x in t.items()}, {}, "3 epochs and 0 steps"),
    "no epochs": (dict, {"history": []}, "0 epochs and 9 steps, this run has 3 epochs of 3 steps"),
    "an epoch left out": (dict, {"history": [FIRST, [3, *FIRST[1:]]]}, "2 epochs and 9 steps"),
    "more epochs than there are": (
        lambda t: {n: x + 3 * n.endswith("step") for n, x in t.items()},
        {"history": [[n, *FIRST[1:]] for n in (1, 2, 3, 4)]},
        "4 epochs and 12 steps",
    ),
    "losses that are nan": (dict, {"history": [[n, 0.1, float("nan"), 0.1] for n in (1, 2, 3)]}, "not finite"),
    "no threads": (dict, {"threads": None}, "'threads'"),
}


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("change", FORGED)
def test_a_checkpoint_that_is_not_whole_is_refused_before_any_of_it_is_used(change, uninterrupted, tmp_path):
    """Its digest is right: somebody wrote it so. Fused AdamW would write beyond a moment that is too short."""
    tensors, about = read(uninterrupted[1] / CHECKPOINT)
    forge, facts, told = FORGED[change]
    about = {name: value for name, value in (about | facts).items() if value is not None}
    path, model = write(tmp_path / CHECKPOINT, forge(tensors), about), small_vit(**RESTLESS_MODEL)
    before, weights = path.read_bytes(), weights_of(model)
    with pytest.raises(ValueError, match=rf"(?s){told}.*Use another folder, or delete .*{CHECKPOINT} to begin anew"):
        fit(model, bright_or_dark(), RECIPE, folder=tmp_path)
    assert not differing(weights_of(model), weights)
    assert model.card is None
    assert path.read_bytes() == before


@pytest.mark.parametrize("found", ["a folder", "a link to nothing"])
def test_what_is_no_checkpoint_is_refused(found, uninterrupted, tmp_path):
    """How else a file can be damaged is tried in `test_saving.py`, with the same function."""
    path = tmp_path / CHECKPOINT
    if found == "a folder":
        path.mkdir()
    else:
        if not hasattr(os, "fork"):
            pytest.skip("on Windows a link takes a right that few have")
        path.symlink_to(tmp_path / "nothing")
    with pytest.raises(ValueError, match=r"Use another folder, or delete .* to begin anew"):
        fit(small_vit(**RESTLESS_MODEL), bright_or_dark(), RECIPE, folder=tmp_path)


def tied(model: nn.Module) -> None:
    model.encoder[1].mlp = model.encoder[0].mlp


def with_an_unused_weight(model: nn.Module) -> None:
    model.scale = nn.Parameter(torch.ones(3))  # no gradient and so no moments


@pytest.mark.parametrize("change", [tied, with_an_unused_weight])
def test_models_of_ones_own_are_kept(change, tmp_path):
    for model in (first := small_vit(), again := small_vit()):
        change(model)
        assert len(fit(model, bright_or_dark(), short(epochs=1), folder=tmp_path)) == 1
    assert not differing(weights_of(again), weights_of(first))


@pytest.mark.parametrize("where", ["a file", "a folder that nobody may write to"])
def test_a_folder_that_cannot_be_written_is_told_before_the_first_step(where, tmp_path):
    folder, model = tmp_path / "run", small_vit()
    if where == "a file":
        folder.write_text("mine", encoding="utf-8")
    elif not hasattr(os, "geteuid") or os.geteuid() == 0:
        pytest.skip("this user may write everywhere")
    else:
        folder.mkdir(mode=0o500)
    model.head.register_forward_hook(lambda *_: pytest.fail("a step was made"))
    with pytest.raises(OSError, match="run"):
        fit(model, bright_or_dark(), short(), folder=folder)


def test_what_a_killed_run_left_unfinished_goes_and_nothing_else(tmp_path):
    (tmp_path / f"{CHECKPOINT}{UNFINISHED}").write_bytes(b"half")
    (tmp_path / f"thesis.v2{UNFINISHED}").write_bytes(b"the reader's own")
    fit(small_vit(), bright_or_dark(), short(epochs=1), folder=tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {".lock", CHECKPOINT, METRICS, f"thesis.v2{UNFINISHED}"}


@pytest.mark.parametrize(("name", "told"), [("threads", "1 process.* of 7 thread"), ("processes", "7 process.* of 1")])
def test_another_number_of_threads_or_processes_raises_an_alarm(name, told, uninterrupted, tmp_path):
    tensors, about = read(uninterrupted[1] / CHECKPOINT)
    write(tmp_path / CHECKPOINT, tensors, {**about, name: 7})
    told += r".*, this run has 1 process\(es\) of 1 thread\(s\)"
    with pytest.warns(
        TrainingAlarm, match=rf"made by {told}.*torch.set_num_threads\({7 if name == 'threads' else 1}\)"
    ):
        fit(small_vit(**RESTLESS_MODEL), bright_or_dark(), RECIPE, folder=tmp_path)
