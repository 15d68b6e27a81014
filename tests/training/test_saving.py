"""A model as one file, and what is no such file."""

import dataclasses
import errno
import itertools
import os
import pickle
from pathlib import Path

import pytest
import safetensors.torch
import torch
from published import randomize
from torch import nn

from vit_tutorial.config import POOLS, POSITIONS
from vit_tutorial.model_card import ModelCard
from vit_tutorial.saving import load_model, read, save_model, write

from .toys import small_vit

CARD = ModelCard(
    ("cat", "dog"), (0.1, 0.2, 0.3), (0.4, 0.5, 0.6), {"test accuracy": 0.9, "by class": {"cat": [0.8, 1.0]}}
)
OTHER_CARD = dataclasses.replace(CARD, classes=("ant", "bee", "cow"))


def randomised(**options) -> nn.Module:
    return randomize(small_vit(**options)).eval()


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
    model.card = CARD
    assert load_model(save_model(model, tmp_path / "model.safetensors")).card == CARD


def test_which_gelu_is_saved_and_files_from_before_the_choice_are_exact(tmp_path):
    model, images, path = randomised(gelu="tanh"), torch.randn(3, 3, 8, 8), tmp_path / "model.safetensors"
    loaded = load_model(save_model(model, path))
    assert loaded.config.gelu == "tanh"
    assert torch.equal(loaded(images), model(images))
    tensors, about = read(path)
    del about["config"]["gelu"]
    older = load_model(write(path, tensors, about))
    assert older.config.gelu == "exact"
    assert not torch.equal(older(images), model(images)), "the same weights, and not the same model"


@pytest.mark.usefixtures("unchecked")
def test_a_card_normalises_bytes_and_floats_alike():
    """A colour that never changed is moved and not divided."""
    pixels = torch.randint(256, (2, 3, 4, 5), dtype=torch.uint8)
    expected = [
        (pixels[:, c] / 255 - mean) / std for c, (mean, std) in enumerate(zip(CARD.mean, CARD.std, strict=True))
    ]
    torch.testing.assert_close(CARD.normalise(pixels), torch.stack(expected, dim=1))
    torch.testing.assert_close(CARD.normalise(pixels / 255), torch.stack(expected, dim=1))
    constant = ModelCard(("cat", "dog"), (0.5, 0.5, 1.0), (0.25, 0.5, 0.0))
    assert constant.normalise(torch.ones(1, 3, 2, 2))[0, :, 0, 0].tolist() == [2, 1, 0]
    for wrong in (torch.ones(2, 1, 4, 4), torch.ones(4, 4), torch.ones(2, 3, 4, 4, dtype=torch.int32)):
        with pytest.raises(ValueError, match=r"images of 3 channels, bytes or floats, got torch.* of shape \("):
            CARD.normalise(wrong)


class Trap:
    """Unpickled, it makes a file."""

    def __reduce__(self):
        return Path.touch, (Path("sprung"),)


def flip(whole: bytes, place: int) -> bytes:
    """Turn one bit over."""
    changed = bytearray(whole)
    changed[place] ^= 1
    return bytes(changed)


# What becomes of a whole file.
NOT_WHOLE = {
    **{f"its first {count} bytes": lambda whole, count=count: whole[:count] for count in (0, 4, 8, 100, 1000)},
    "all but its last byte": lambda whole: whole[:-1],
    "a text": lambda whole: b"once upon a time, and some more",
    "a pickle": lambda whole: pickle.dumps(Trap()),
    "facts that are a number": lambda whole: safetensors.torch.save({"weight": torch.ones(2)}, {"about": "3"}),
    "a bit of a fact turned over": lambda whole: flip(whole, whole.index(b"dog")),
    "a bit of the first number": lambda whole: flip(whole, 8 + int.from_bytes(whole[:8], "little")),
    "a bit of the last number": lambda whole: flip(whole, -1),
}


@pytest.mark.parametrize("change", NOT_WHOLE)
def test_a_file_that_is_not_whole_is_one_clear_error_and_no_pickle_is_opened(change, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = randomised()
    model.card = CARD
    path = save_model(model, "model.safetensors")
    path.write_bytes(NOT_WHOLE[change](path.read_bytes()))
    with pytest.raises(ValueError, match=r"model\.safetensors is not a whole safetensors file: "):
        load_model(path)
    assert not Path("sprung").exists()
    pickle.loads(pickle.dumps(Trap()))
    assert Path("sprung").exists(), "the trap works"


def test_a_file_without_a_model_and_a_file_that_is_not_there(tmp_path):
    safetensors.torch.save_file({"weight": torch.ones(2)}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="holds no configuration of a VisionTransformer"):
        load_model(tmp_path / "model.safetensors")
    with pytest.raises(FileNotFoundError, match=r"no file '.*nowhere' .relative paths start at"):
        load_model(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path)


def forged(path: Path, config: object = None, card: object = None, weights: dict | None = None, **options) -> Path:
    """A model's file with some of its facts, or some of its weights, replaced."""
    model = randomised(**options)
    replaced = {**dataclasses.asdict(model.config), **config} if isinstance(config, dict) else config
    card = {**dataclasses.asdict(CARD), **card} if isinstance(card, dict) else card
    return write(
        path / "model.safetensors", {**model.state_dict(), **(weights or {})}, {"config": replaced, "card": card}
    )


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("replaced", "told"),
    [
        ({"config": {"colour": "red"}}, "colour"),
        ({"config": {"position": "absolute"}}, "unknown position 'absolute'"),
        ({"config": {"depth": 3}}, r"Missing key.*encoder.2.norm1.weight"),
        ({"config": {"depth": 10**8}}, "the configuration says 100,000,000 encoder layers"),
        ({"config": {"mlp_dim": 10**12}}, r"size mismatch for encoder.0.mlp.expand.weight"),
        ({"config": {"image_size": 10**6}, "position": "none"}, "62,500,000,001 tokens are more than fit"),
        ({"config": {"image_size": 10**10}, "position": "none"}, ""),
        ({"config": []}, "no attribute 'items'"),
        ({"config": {}, "card": {"colour": "red"}}, "colour"),
        ({"config": {}, "card": {"classes": ["cat"]}}, "1 class names and a mean of 3 channels, the model 2 logits"),
        ({"config": {}, "card": {"classes": ["cat", 3]}}, "classes are names"),
        ({"config": {}, "card": {"mean": [0.5], "std": [0.5]}}, "a mean of 1 channels, the model 2 logits and 3"),
        ({"config": {}, "card": {"mean": [0.1, 0.2, float("nan")]}}, "finite number for each channel.*nan"),
        ({"config": {}, "card": {"about": 3}}, "is a dict, got 3"),
        ({"config": {}, "card": {"about": {"preprocessing": {}}}}, "preprocessing that cannot be done"),
        ({"config": {}, "weights": {"norm.bias": torch.full((8,), float("nan"))}}, "norm.bias holds .* not finite"),
    ],
    ids=lambda case: str(case)[:60],
)
def test_a_model_that_this_version_cannot_build_is_refused(replaced, told, tmp_path):
    """At once, and without the memory that forged sizes would take."""
    path = forged(tmp_path, **replaced)
    with pytest.raises(
        ValueError, match=rf"(?s)model.safetensors holds no VisionTransformer that this version can build: .*{told}"
    ):
        load_model(path)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows knows no limit on the size of a file")
def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    """A real write that really fails, half way through the file, as on a full disk."""
    import resource

    path = write(tmp_path / "model.safetensors", {"weight": torch.ones(2)}, {"number": 1})
    limit, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600, most))
    try:
        with pytest.raises(OSError, match=r"model\.safetensors") as error:
            write(path, {"weight": torch.zeros(1000)}, {"number": 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, most))
    assert error.value.errno == errno.EFBIG
    tensors, about = read(path)
    assert (tensors["weight"].tolist(), about) == ([1, 1], {"number": 1})
    assert [file.name for file in tmp_path.iterdir()] == ["model.safetensors"]


def test_writers_at_the_same_time_do_not_meet(tmp_path, monkeypatch):
    """While one file waits for its name, another is written to the same place; a link that lies there is left alone."""
    path, replace, written = tmp_path / "model.safetensors", os.replace, []

    def write_another_first(part, target):
        if not written:
            written.append(part)
            write(path, {"weight": torch.zeros(2)}, {})
        replace(part, target)

    (tmp_path / "mine").write_text("mine", encoding="utf-8")
    if hasattr(os, "fork"):  # on Windows a link takes a right that few have
        (tmp_path / "model.safetensors.part").symlink_to(tmp_path / "mine")
    monkeypatch.setattr("os.replace", write_another_first)
    write(path, {"weight": torch.ones(2)}, {})
    assert read(path)[0]["weight"].tolist() == [1, 1]
    assert (tmp_path / "mine").read_text(encoding="utf-8") == "mine"


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda model: setattr(model, "head", nn.Linear(8, 5)), "not those of the configuration.*head.weight"),
        (
            lambda model: setattr(model, "card", OTHER_CARD),
            "3 class names and a mean of 3 channels, the model 2 logits",
        ),
        (lambda model: model.head.bias.data.fill_(torch.inf), "head.bias holds numbers that are not finite"),
    ],
)
def test_what_could_not_be_loaded_is_not_saved(change, told, tmp_path):
    change(model := randomised())
    with pytest.raises(ValueError, match=rf"(?s){told}"):
        save_model(model, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="save_model keeps a VisionTransformer, got Linear"):
        save_model(torch.nn.Linear(2, 2), tmp_path / "model.safetensors")
    assert not list(tmp_path.iterdir())


@pytest.mark.usefixtures("unchecked")
def test_a_compiled_model_is_saved_as_what_was_compiled(tmp_path):
    model = randomised()
    save_model(torch.compile(model), tmp_path / "model.safetensors")
    torch.testing.assert_close(load_model(tmp_path / "model.safetensors").state_dict(), model.state_dict())
