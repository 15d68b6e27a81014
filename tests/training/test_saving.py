"""A model as one file, and what is no such file."""

import dataclasses
import pickle
from pathlib import Path

import numpy
import pytest
import torch
from published import randomize
from torch import nn

from vit_tutorial.config import POSITIONS
from vit_tutorial.model_card import ModelCard
from vit_tutorial.saving import load_model, read_tensors, save_model, write_tensors

from .toys import Trap, small_vit

CARD = ModelCard(
    ("cat", "dog"), (0.1, 0.2, 0.3), (0.4, 0.5, 0.6), {"test accuracy": 0.9, "by class": {"cat": [0.8, 1.0]}}
)


def randomised(**options) -> nn.Module:
    return randomize(small_vit(**options)).eval()


@pytest.mark.parametrize("options", [{}, {"pool": "mean", "representation_size": 5, "gelu": "tanh"}], ids=str)
@pytest.mark.parametrize("position", POSITIONS)
def test_what_is_loaded_answers_as_what_was_saved(position, options, tmp_path):
    model = randomised(image_size=(8, 12), patch_size=(4, 3), position=position, dropout=0.1, **options)
    drawn = torch.get_rng_state()
    loaded = load_model(save_model(model, tmp_path / "new" / "model.safetensors"))
    assert torch.equal(torch.get_rng_state(), drawn), "the reader's random numbers stay"
    images = torch.randn(3, 3, 8, 12)
    assert torch.equal(loaded(images), model(images))
    assert loaded.config == model.config
    assert not loaded.training
    assert loaded.card is None
    model.card = CARD
    assert load_model(save_model(model, tmp_path / "model.safetensors")).card == CARD


NOT_WHOLE = {
    "all but its last byte": lambda whole: whole[:-1],
    "a text": lambda whole: b"once upon a time, and some more",
    "a pickle": lambda whole: pickle.dumps(Trap()),
}


@pytest.mark.parametrize("change", NOT_WHOLE)
def test_a_file_that_is_not_whole_is_one_clear_error_and_no_pickle_is_opened(change, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = save_model(randomised(), "model.safetensors")
    path.write_bytes(NOT_WHOLE[change](path.read_bytes()))
    with pytest.raises(ValueError, match=r"model\.safetensors is not a whole safetensors file: "):
        load_model(path)
    assert not Path("sprung").exists()


# What the file holds instead of what `save_model` wrote, and what the message must show.
NO_MODEL = {
    "no configuration": ({}, "it was not written by save_model"),
    "an unknown field": ({"config": {"colour": "red"}}, "can build: .*colour"),
    "a layer more": ({"config": {"depth": 3}}, r"Missing key.*encoder.2.norm1.weight"),
    "a wider MLP": ({"config": {"mlp_dim": 20}}, "size mismatch for encoder.0.mlp.expand.weight"),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("case", NO_MODEL)
def test_a_model_that_this_version_cannot_build_is_refused(case, tmp_path):
    """A file of a later version, or of another program."""
    facts, told = NO_MODEL[case]
    model = randomised()
    if facts:
        facts = {"config": dataclasses.asdict(model.config) | facts["config"], "card": None}
    path = write_tensors(tmp_path / "model.safetensors", model.state_dict(), facts)
    with pytest.raises(ValueError, match=rf"(?s)model.safetensors holds no .*{told}"):
        load_model(path)


@pytest.mark.usefixtures("unchecked")
def test_a_card_moves_a_colour_that_never_changed_and_does_not_divide_it():
    """How it scales bytes and floats is in `test_inference.py`."""
    constant = ModelCard(("cat", "dog"), (0.5, 0.5, 1.0), (0.25, 0.5, 0.0))
    assert constant.normalise(torch.ones(1, 3, 2, 2))[0, :, 0, 0].tolist() == [2, 1, 0]
    for wrong in (torch.ones(2, 1, 4, 4), torch.ones(4, 4), torch.ones(2, 3, 4, 4, dtype=torch.int32)):
        with pytest.raises(ValueError, match=r"images of 3 channels, bytes or floats, got torch.* of shape \("):
            CARD.normalise(wrong)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda model: setattr(model, "head", nn.Linear(8, 5)), "not those of the configuration.*head.weight"),
        (lambda model: model.head.bias.data.fill_(torch.inf), "head.bias holds numbers that are not finite"),
    ],
)
def test_what_could_not_be_loaded_is_not_saved(change, told, tmp_path):
    change(model := randomised())
    with pytest.raises(ValueError, match=rf"(?s){told}"):
        save_model(model, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="a VisionTransformer of the package, got Linear"):
        save_model(torch.nn.Linear(2, 2), tmp_path / "model.safetensors")
    assert not list(tmp_path.iterdir())


def test_weights_are_stored_in_float32(tmp_path):
    """Whatever they were: a file for everybody, of the size that one expects."""
    for dtype in (torch.float64, torch.bfloat16):
        model = randomised().to(dtype)
        tensors, _ = read_tensors(path := save_model(model, tmp_path / "model.safetensors"))
        assert {tensor.dtype for tensor in tensors.values()} == {torch.float32}
        assert {tensor.dtype for tensor in load_model(path).state_dict().values()} == {torch.float32}
        assert {tensor.dtype for tensor in model.state_dict().values()} == {dtype}, "the model keeps its own"


@pytest.mark.usefixtures("unchecked")
def test_a_card_keeps_tuples_of_floats_and_a_value_that_json_lacks_is_refused(tmp_path):
    model = randomised()
    model.card = ModelCard(["cat", "dog"], [*numpy.float32([0, 0.5, 1])], [1, 1, 1], {"accuracy": 0.5})
    assert (model.card.classes, model.card.mean, model.card.std) == (("cat", "dog"), (0.0, 0.5, 1.0), (1.0, 1.0, 1.0))
    assert load_model(save_model(model, tmp_path / "model.safetensors")).card == model.card
    model.card = dataclasses.replace(model.card, about={"epochs": 3, "accuracy": numpy.float32(0.5)})
    with pytest.raises(ValueError, match=r"can only hold facts that JSON can say: .*float32"):
        save_model(model, tmp_path / "other.safetensors")
    assert not (tmp_path / "other.safetensors").exists()
