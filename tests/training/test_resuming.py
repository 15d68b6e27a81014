"""An interrupted run loses the epoch under way and nothing else; a folder of another run is left alone."""

import copy
import csv
import os
import signal
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from vit_tutorial import train
from vit_tutorial.model_card import ModelCard
from vit_tutorial.saving import load_model, read_tensors
from vit_tutorial.training import fit
from vit_tutorial.training.progress import Epoch

from .toys import RESTLESS, RESTLESS_MODEL, bright_or_dark, differing, short, shrink, small_vit, start, weights_of

RECIPE = short(**RESTLESS)  # three epochs of three steps
CHECKPOINT = "checkpoint.safetensors"


def interrupt(model: nn.Module, step: int) -> nn.Module:
    """Ctrl-C in the middle of a step, counted from 1."""
    steps = []

    def stop(module, inputs, output):
        steps.append(module.training)
        if module.training and sum(steps) == step:
            raise KeyboardInterrupt

    model.head.register_forward_hook(stop)
    return model


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory) -> tuple[dict, Path]:
    folder, model = tmp_path_factory.mktemp("uninterrupted"), small_vit(**RESTLESS_MODEL)
    fit(model, bright_or_dark(), RECIPE, folder=folder)
    return weights_of(model), folder


@pytest.mark.parametrize("stops", [[2, 3], [5, 5], [7, 2, 1]])
def test_a_resumed_run_ends_as_one_without_interruption(stops, uninterrupted, tmp_path):
    """To the last bit: weights and moments. With dropout, drop path, crops, flips, RandAugment, mixup, cutmix."""
    weights, folder = uninterrupted
    for step in stops:
        model = interrupt(small_vit(**RESTLESS_MODEL), step)
        with pytest.raises(KeyboardInterrupt):
            fit(model, bright_or_dark(), RECIPE, folder=tmp_path)
        assert not any(module.training for module in model.modules())
        torch.rand(3)  # what else happens in the process does not matter
    model = small_vit(**RESTLESS_MODEL)
    history = fit(model, bright_or_dark(), RECIPE, folder=tmp_path)
    assert [epoch.number for epoch in history] == [1, 2, 3]
    assert not differing(weights_of(model), weights)
    here, there = read_tensors(tmp_path / CHECKPOINT)[0], read_tensors(folder / CHECKPOINT)[0]
    assert not differing(here, there)
    assert "exp_avg_sq.head.weight" in there


def test_a_model_that_was_stopped_goes_on_whatever_its_weights_are_now(uninterrupted, tmp_path):
    """In a notebook the cell with `fit` runs again, and not the one that made the model."""
    model = small_vit(**RESTLESS_MODEL)
    with pytest.raises(KeyboardInterrupt):
        fit(interrupt(model, 8), bright_or_dark(), RECIPE, folder=tmp_path)
    nn.init.ones_(model.head.bias)
    fit(model, bright_or_dark(), RECIPE, folder=tmp_path)
    assert not differing(weights_of(model), uninterrupted[0])
    for path in tmp_path.iterdir():
        path.unlink()  # a new run, which begins where the model is
    fit(model, bright_or_dark(), short(epochs=1), folder=tmp_path)
    with pytest.raises(ValueError, match="norm of the first weights"):
        fit(small_vit(**RESTLESS_MODEL), bright_or_dark(), short(epochs=1), folder=tmp_path)


def test_a_run_that_is_over_is_read_and_not_trained_again(uninterrupted):
    weights, folder = uninterrupted
    before, model = (folder / CHECKPOINT).read_bytes(), small_vit(**RESTLESS_MODEL)
    assert len(fit(model, bright_or_dark(), RECIPE, folder=str(folder))) == 3
    assert not differing(weights_of(model), weights)
    assert (folder / CHECKPOINT).read_bytes() == before
    assert not model.training


IMAGES = bright_or_dark()
SCALED, FROZEN, OTHER = (small_vit(**RESTLESS_MODEL) for _ in range(3))
for parameter in OTHER.parameters():  # as from another seed
    parameter.data = parameter.data[torch.randperm(len(parameter))] * 1.001
SCALED.card = ModelCard((), (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
FROZEN.encoder.requires_grad_(False)
# What is other than in the run whose folder it is, and what is said about it.
OTHER_RUNS = {
    "two fields": ({"recipe": short(**{**RESTLESS, "mixup": 0.3, "crop": 1})}, "crop 2 there, 1 here, mixup 0.4 there"),
    "names": ({"images": replace(IMAGES, classes=("bright", "dark"))}, "classes .* there, .* here"),
    "labels": ({"images": replace(IMAGES, labels=1 - IMAGES.labels)}, "images .* there, .* here"),
    "depth": ({"model": small_vit(**RESTLESS_MODEL, depth=1)}, "depth 2 there, 1 here, norm of the first weights .*"),
    "start": ({"model": OTHER}, r"norm of the first weights '\d+\.\d+' there, '\d+\.\d+' here"),
    "scale": ({"model": SCALED}, "mean and std of the pixels .* there, .* here"),
    "frozen": ({"model": FROZEN}, r"frozen \[\] there, \['encoder.0.norm1.weight', .* here"),
}


@pytest.mark.parametrize("other", OTHER_RUNS)
def test_the_folder_of_another_run_is_left_alone(other, uninterrupted):
    change, told = OTHER_RUNS[other]
    folder, run = uninterrupted[1], {"model": small_vit(**RESTLESS_MODEL), "images": IMAGES, "recipe": RECIPE, **change}
    before, card = weights_of(run["model"]), run["model"].card
    files = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ValueError, match=rf"{CHECKPOINT} is of another run: {told}.*Use another folder, or delete"):
        fit(**run, folder=folder)
    assert not differing(weights_of(run["model"]), before)
    assert run["model"].card is card
    assert {path: path.read_bytes() for path in folder.iterdir()} == files


@pytest.mark.filterwarnings("ignore::vit_tutorial.training.TrainingAlarm")  # its head is not zero at the start
def test_a_model_without_a_configuration_is_known_by_its_layers(tmp_path):
    torch.manual_seed(0)
    first = nn.Sequential(nn.Conv2d(3, 4, 8), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 2))
    first.config = {"width": 4}  # of another library
    again = copy.deepcopy(first)
    for model in (first, again):
        fit(model, bright_or_dark(), short(epochs=1), folder=tmp_path)
    assert not differing(weights_of(again), weights_of(first)), "the batch norm's statistics among them"
    with pytest.raises(ValueError, match=r"of another run: network .* there, .* here.*Use another folder"):
        fit(first.append(nn.GELU()), bright_or_dark(), short(epochs=1), folder=tmp_path)


def test_the_table_has_a_line_for_each_epoch_and_other_files_are_left_alone(tmp_path):
    """A browser's file, and a folder, lie beside it."""
    (tmp_path / "a.folder.unfinished").mkdir()
    (tmp_path / "essay.v2.unfinished").write_text("mine", encoding="utf-8")
    history = fit(small_vit(), bright_or_dark(), short(), folder=tmp_path)
    with open(tmp_path / "metrics.csv", newline="", encoding="utf-8") as file:
        head, *lines = csv.reader(file)
    assert tuple(head) == Epoch._fields
    assert [[float(value) for value in line] for line in lines] == [list(epoch) for epoch in history]
    names = {CHECKPOINT, "metrics.csv", "a.folder.unfinished", "essay.v2.unfinished"}
    assert {path.name for path in tmp_path.iterdir()} == names


def die_at_file(operation: int, out: Path) -> int:
    """Run the command; kill it just before so many calls of `os.fsync` and `os.replace`."""
    shrink(**RESTLESS)
    count, steps = [], {name: getattr(os, name) for name in ("fsync", "replace")}

    def deadly(name, *arguments):
        count.append(name)
        return os.kill(os.getpid(), signal.SIGKILL) if len(count) == operation else steps[name](*arguments)

    for name in steps:
        setattr(os, name, partial(deadly, name))
    return train.main(["--device", "cpu", "--seed", "5", "--epochs", "3", "--out", str(out)])


# The first epoch of a process writes the model, each one table and checkpoint, and the end the model again: each with
# two operations.
OPERATIONS = (4, 9, 7)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has neither fork nor SIGKILL")
def test_a_command_that_is_killed_before_its_files_have_their_names_until_it_ends(tmp_path):
    for name, attempts in {"whole": (), "killed": OPERATIONS}.items():
        statuses = []
        for operation in (*attempts, 99):
            process = start(die_at_file, operation, tmp_path / name, output=tmp_path / "printed")
            process.join(300)
            statuses.append(process.exitcode)
        expected = [-signal.SIGKILL] * len(attempts) + [0]
        assert statuses == expected, (tmp_path / "printed").read_text(encoding="utf-8")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    for name in ("model.safetensors", CHECKPOINT):
        assert not differing(read_tensors(killed / name)[0], read_tensors(whole / name)[0]), name
    assert {path.name for path in killed.iterdir()} == {path.name for path in whole.iterdir()}, "nothing left over"
    assert len((killed / "metrics.csv").read_text(encoding="utf-8").splitlines()) == 4
    assert load_model(killed / "model.safetensors").card.about["recipe"]["epochs"] == 3
