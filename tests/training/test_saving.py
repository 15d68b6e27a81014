"""A model as one file, and what is no such file."""

import pickle
import re
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from published import randomize
from torch import nn

from vit_tutorial.config import POSITIONS
from vit_tutorial.model_card import ModelCard
from vit_tutorial.saving import load_model, read_tensors, save_model, write_tensors

from .toys import differing, small_vit, weights_of

CARD = ModelCard(
    ("cat", "dog"), (0.1, 0.2, 0.3), (0.4, 0.5, 0.6), {"test accuracy": 0.9, "by class": {"cat": [0.8, 1.0]}}
)


class Trap:
    """Unpickled, it makes a file."""

    def __reduce__(self):
        return Path.touch, (Path("sprung"),)


def randomised(**options) -> nn.Module:
    return randomize(small_vit(**options)).eval()


@pytest.mark.parametrize("position", POSITIONS)
def test_what_is_loaded_answers_as_what_was_saved(position, tmp_path):
    options = {"pool": "mean", "representation_size": 5, "gelu": "tanh"} if position == "sincos" else {}
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


@pytest.mark.parametrize("old_format", [False, True])
def test_weights_in_pytorchs_own_format_are_told_how_to_become_a_model(old_format, tmp_path, monkeypatch):
    """And what is told works."""
    monkeypatch.chdir(tmp_path)
    model = randomised()
    torch.save(model.state_dict(), "w.pth", _use_new_zipfile_serialization=not old_format)
    with pytest.raises(ValueError, match=r"w\.pth is in PyTorch's own format \(torch\.save\)") as caught:
        load_model("w.pth")
    told = re.search(r"model\.load_state_dict.*\)\)", str(caught.value))[0]
    model = small_vit()
    exec(told, {"model": model, "torch": torch})
    assert not differing(weights_of(model), weights_of(randomised()))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("wrap", [nn.DataParallel, lambda model: torch.compile(model, backend="eager")])
def test_a_wrapper_comes_off_and_the_card_stays(wrap, tmp_path):
    """Whether it was given to the model or to its wrapper."""
    inner, outer = randomised(), randomised()
    inner.card = CARD
    outer = wrap(outer)
    outer.card = CARD
    for wrapped in (wrap(inner), outer):
        loaded = load_model(save_model(wrapped, tmp_path / "model.safetensors"))
        assert loaded.card == CARD
        assert not differing(weights_of(loaded), weights_of(inner))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(("change", "told"), [({"colour": "red"}, "build: .*colour"), ({"depth": 3}, "Missing key")])
def test_a_model_that_this_version_cannot_build_is_refused(change, told, tmp_path):
    """A file of a later version, or of another program."""
    model = randomised()
    facts = {"config": asdict(model.config) | change, "card": None}
    path = write_tensors(tmp_path / "model.safetensors", model.state_dict(), facts)
    with pytest.raises(ValueError, match=rf"(?s)model.safetensors holds no .*{told}"):
        load_model(path)
    with pytest.raises(ValueError, match="it was not written by save_model"):
        load_model(write_tensors(path, model.state_dict(), {}))


@pytest.mark.usefixtures("unchecked")
def test_a_card_moves_a_colour_that_never_changed_and_does_not_divide_it():
    """How it scales bytes and floats is in `test_inference.py`."""
    constant = ModelCard(("cat", "dog"), (0.5, 0.5, 1.0), (0.25, 0.5, 0.0))
    assert constant.normalise(torch.ones(1, 3, 2, 2))[0, :, 0, 0].tolist() == [2, 1, 0]
    for wrong in (torch.ones(2, 1, 4, 4), torch.ones(4, 4), torch.ones(2, 3, 4, 4, dtype=torch.int32)):
        with pytest.raises(ValueError, match=r"images of 3 channels, bytes or floats, got torch.* of shape \("):
            CARD.normalise(wrong)
    with pytest.raises(ValueError, match="a mean and a std for each channel, got 3 and 2"):
        replace(CARD, std=(0.2, 0.2))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda model: setattr(model, "head", nn.Linear(8, 5)), "not those of the configuration.*head.weight"),
        (lambda model: model.head.bias.data.fill_(torch.inf), "head.bias holds numbers that are not finite"),
        (lambda model: setattr(model, "card", replace(CARD, mean=(0.5,), std=(0.2,))), "card is for 1 channels"),
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
