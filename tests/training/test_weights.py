"""A model as one file, and what is no such file."""

import dataclasses
import itertools
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from vit_tutorial.card import Card
from vit_tutorial.config import POOLS, POSITIONS
from vit_tutorial.weights import load_model, read, save_model, write

from .toys import small_vit

CARD = Card(("cat", "dog"), (0.1, 0.2, 0.3), (0.4, 0.5, 0.6), {"test accuracy": 0.9, "by class": {"cat": [0.8, 1.0]}})


def randomised(**options) -> nn.Module:
    model = small_vit(**options)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model.eval()


@pytest.mark.parametrize(("position", "pool", "size"), [*itertools.product(POSITIONS, POOLS, [None, 5])])
def test_what_is_loaded_answers_as_what_was_saved(position, pool, size, tmp_path):
    model = randomised(
        image_size=(8, 12), patch_size=(4, 3), position=position, pool=pool, representation_size=size, dropout=0.1
    )
    loaded = load_model(save_model(model, tmp_path / "new" / "model.safetensors"))
    images = torch.randn(3, 3, 8, 12)
    assert torch.equal(loaded(images), model(images))
    assert loaded.config == model.config
    assert not loaded.training
    assert loaded.card is None


def test_the_card_travels_with_the_weights(tmp_path):
    model = randomised()
    model.card = CARD
    assert load_model(save_model(model, tmp_path / "model.safetensors")).card == CARD


def test_a_card_normalises_bytes_and_floats_alike():
    pixels = torch.randint(256, (2, 3, 4, 5), dtype=torch.uint8)
    expected = torch.stack(
        [(pixels[:, c] / 255 - mean) / std for c, (mean, std) in enumerate(zip(CARD.mean, CARD.std, strict=True))], 1
    )
    torch.testing.assert_close(CARD.normalise(pixels), expected)
    torch.testing.assert_close(CARD.normalise(pixels / 255), expected)


def test_a_colour_that_never_changed_is_moved_and_not_divided():
    card = Card(("cat", "dog"), (0.5, 0.5, 1.0), (0.25, 0.5, 0.0))
    white = card.normalise(torch.ones(1, 3, 2, 2))
    assert white[0, :, 0, 0].tolist() == [2, 1, 0]


def test_half_precision_is_how_it_is_stored_not_how_it_computes(tmp_path):
    model = randomised()
    half, full = tmp_path / "half.safetensors", tmp_path / "full.safetensors"
    save_model(model, half, torch.float16)
    save_model(model, full)
    loaded = load_model(half)
    assert {tensor.dtype for tensor in read(half)[0].values()} == {torch.float16}
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor.half().float()), name


def test_a_file_cut_anywhere_is_one_clear_error(tmp_path):
    path = save_model(randomised(), tmp_path / "model.safetensors")
    whole = path.read_bytes()
    for length in (0, 4, 8, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:length])
        with pytest.raises(ValueError, match=r"model.safetensors is not a whole safetensors file"):
            load_model(path)
    path.write_bytes(whole)
    load_model(path)


def test_files_of_other_kinds_are_refused(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_text("once upon a time, and some more", encoding="utf-8")
    with pytest.raises(ValueError, match="not a whole safetensors file"):
        load_model(path)
    save_file({"weight": torch.ones(2)}, path)
    with pytest.raises(ValueError, match="holds no configuration of a VisionTransformer"):
        load_model(path)
    with pytest.raises(FileNotFoundError, match=r"no file '.*nowhere' .relative paths start at"):
        load_model(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path)


@pytest.mark.parametrize("change", [{"colour": "red"}, {"position": "absolute"}, {"depth": 3}], ids=str)
def test_a_model_that_this_version_cannot_build_is_refused(change, tmp_path):
    model = randomised()
    about = {"config": {**dataclasses.asdict(model.config), **change}, "card": None}
    path = write(tmp_path / "model.safetensors", model.state_dict(), about)
    with pytest.raises(ValueError, match=r"model.safetensors holds no VisionTransformer that this version can build"):
        load_model(path)


class Trap:
    def __reduce__(self):
        return Path.touch, (Path(self.path),)


def test_a_pickle_under_our_name_is_refused_and_never_opened(tmp_path):
    trap, path = Trap(), tmp_path / "model.safetensors"
    trap.path = str(tmp_path / "sprung")
    path.write_bytes(pickle.dumps(trap))
    with pytest.raises(ValueError, match="not a whole safetensors file"):
        load_model(path)
    torch.save({"weight": trap}, path)
    with pytest.raises(ValueError, match="not a whole safetensors file"):
        load_model(path)
    assert not Path(trap.path).exists()
    pickle.loads(pickle.dumps(trap))
    assert Path(trap.path).exists(), "the trap works"


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = write(tmp_path / "model.safetensors", {"weight": torch.ones(2)}, {"number": 1})

    def fail(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(OSError, match=r"No space left on device: '.*model.safetensors'"):
        write(path, {"weight": torch.zeros(2)}, {"number": 2})
    tensors, about = read(path)
    assert (tensors["weight"].tolist(), about) == ([1, 1], {"number": 1})
    assert [file.name for file in tmp_path.iterdir()] == ["model.safetensors"]
