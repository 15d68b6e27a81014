"""Weights that are not whole, or not weights: everything that is wrong is listed, and nothing is executed."""

import os
import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from vit_tutorial import from_google
from vit_tutorial.pretrained.converting import convert_tensors
from vit_tutorial.pretrained.google_files import AXES
from vit_tutorial.pretrained.published import read_state_dict
from vit_tutorial.pretrained.tensor_names import as_theirs

from .families import google_arrays, our_vit

LIBRARIES = ("torchvision", "timm", "transformers", "google")


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_tensor_that_is_missing_or_extra_or_misshapen_is_listed(library):
    model = our_vit()
    tensors = as_theirs(model.state_dict(), library, 4)
    names = list(tensors)
    missing, misshapen, extra = names[1::5], names[2::5], [f"surplus.{i}" for i in range(4)]
    for name in missing:
        del tensors[name]
    for name in misshapen:
        tensors[name] = tensors[name][..., None]
    tensors |= {name: torch.zeros(2) for name in extra}
    with pytest.raises(ValueError, match="do not fill") as caught:
        convert_tensors(tensors, library, model.config)
    found = dict(line.split(": ", 1) for line in str(caught.value).splitlines()[1:])
    assert found["missing"].split(", ") == missing
    assert found["not expected"].split(", ") == extra
    assert re.findall(r"([^ ,()]+) \([^)]*\) in place of", found["misshapen"]) == misshapen
    assert len(missing) >= 3
    assert len(misshapen) >= 3


def test_heads_that_a_reshape_would_hide_are_misshapen():
    """(D, 2h, d/2) holds as many numbers as (D, h, d), and flattens to the same shape."""
    model = our_vit()
    tensors = as_theirs(model.state_dict(), "google", 4)
    name = "Transformer/encoderblock_1/MultiHeadDotProductAttention_1/key/kernel"
    tensors[name] = tensors[name].reshape(32, 8, 4)
    with pytest.raises(ValueError, match=re.escape(f"misshapen: {name} (32, 8, 4) in place of (32, 4, 8)")):
        convert_tensors(tensors, "google", model.config)


def save(folder: Path, arrays: dict) -> Path:
    np.savez(folder / "ViT.npz", **{name: array for name, array in arrays.items() if array is not None})
    return folder / "ViT.npz"


@pytest.mark.parametrize("gone", AXES)
def test_a_file_without_a_tensor_that_tells_the_sizes_lists_all_the_same(gone, tmp_path):
    arrays = google_arrays(our_vit()) | {gone: None, "head/bias": None, "surplus": np.zeros(3)}
    with pytest.raises(ValueError, match="do not fill") as caught:
        from_google(save(tmp_path, arrays))
    missing, extra = (line.partition(": ")[2].split(", ") for line in str(caught.value).splitlines()[1:])
    assert set(missing) == {gone, "head/bias"}
    assert extra == ["surplus"]


@pytest.mark.parametrize("flat", AXES)
def test_a_tensor_that_tells_the_sizes_with_other_axes_is_named(flat, tmp_path):
    arrays = google_arrays(our_vit())
    arrays |= {flat: arrays[flat].reshape(-1)}
    with pytest.raises(ValueError, match=re.escape(f"{flat} has the shape ({arrays[flat].size},)")):
        from_google(save(tmp_path, arrays))


def test_a_block_left_out_in_the_middle_is_missed(tmp_path):
    arrays = {name: a for name, a in google_arrays(our_vit(depth=3)).items() if "encoderblock_1/" not in name}
    with pytest.raises(ValueError, match="missing: Transformer/encoderblock_1/LayerNorm_0/scale"):
        from_google(save(tmp_path, arrays))


@pytest.mark.parametrize(
    ("names", "told"),
    [
        ({"Transformer/encoderblock_999999999/x": (2,)}, "not expected: Transformer/encoderblock_999999999/x"),
        ({"pre_logits/kernel": (0, 10**12)}, "missing: .*pre_logits/bias"),
        ({"pre_logits/kernel": ()}, "not expected: pre_logits/kernel"),
        ({"head/kernel": (0, 10**12), "head/bias": (0,)}, "misshapen: head/kernel"),
    ],
    ids=["a layer of a high number", "a wide layer", "a layer without a shape", "many classes"],
)
def test_sizes_that_cost_nothing_to_write_cost_nothing_to_refuse(names, told, tmp_path):
    """The model that a few bytes ask for is not built."""
    arrays = {name: np.zeros(shape, np.float32) for name, shape in names.items()}
    whole = google_arrays(our_vit()) if "head/kernel" in names else {}
    with pytest.raises(ValueError, match=rf"(?s)do not fill a VisionTransformer.*{told}"):
        from_google(save(tmp_path, whole | arrays))


def test_a_file_that_unpacks_to_far_more_is_not_unpacked(tmp_path):
    np.savez_compressed(tmp_path / "ViT.npz", head=np.zeros(10**6))
    with pytest.raises(
        ValueError, match=r"ViT\.npz is not a whole .* bytes unpack to 8,000,\d+, and weights hardly get"
    ):
        from_google(tmp_path / "ViT.npz")


def test_weights_that_are_no_numbers_any_more_are_named(tmp_path):
    arrays = google_arrays(our_vit())
    arrays["cls"][..., 3] = np.nan
    with pytest.raises(ValueError, match="cls holds numbers that are not finite"):
        from_google(save(tmp_path, arrays))


class Attack:
    """Unpickled, it makes a folder."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (str(self.folder),)


def test_objects_in_an_npz_are_never_opened(tmp_path):
    bad = np.empty(1, dtype=object)
    bad[0] = Attack(tmp_path / "attacked")
    with pytest.raises(ValueError, match=r"ViT\.npz is not a whole \.npz file"):
        from_google(save(tmp_path, google_arrays(our_vit()) | {"head/bias": bad}))
    bad.dump(tmp_path / "pickle.npz")
    with pytest.raises(ValueError, match=r"pickle\.npz is not a whole \.npz file"):
        from_google(tmp_path / "pickle.npz")
    assert not (tmp_path / "attacked").exists()


def test_objects_in_a_state_dict_are_never_opened(tmp_path):
    torch.save({"head": Attack(tmp_path / "attacked")}, tmp_path / "bad.pth")
    with pytest.raises(ValueError, match=r"bad\.pth is not a file of weights alone"):
        read_state_dict(tmp_path / "bad.pth")
    assert not (tmp_path / "attacked").exists()


@pytest.mark.parametrize(
    "damage", ["cut off", "empty", "a web page", "one array", "no numbers", "a changed byte", "locked"]
)
def test_a_file_that_is_no_npz_says_so(damage, tmp_path):
    path = save(tmp_path, google_arrays(our_vit()))
    whole = path.read_bytes()
    if damage == "one array":
        with path.open("wb") as file:
            np.save(file, np.zeros(3))
    elif damage == "no numbers":
        save(tmp_path, google_arrays(our_vit()) | {"head/bias": np.array(["a"] * 7)})
    elif damage == "locked":  # with a password, says a bit of each entry
        data = bytearray(whole)
        for entry in re.finditer(rb"PK\x01\x02", whole):
            data[entry.start() + 8] |= 1
        path.write_bytes(data)
    elif damage == "a changed byte":
        with zipfile.ZipFile(path) as file:
            at = file.getinfo("head/kernel.npy").header_offset + 300
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :])
    else:
        path.write_bytes({"cut off": whole[: len(whole) // 2], "empty": b"", "a web page": b"<html>hello"}[damage])
    with pytest.raises(ValueError, match=r"ViT\.npz is not a whole \.npz file"):
        from_google(path)


def test_a_file_that_is_not_there_is_looked_for_by_name(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"ViT\.npz"):
        from_google(tmp_path / "ViT.npz")


def test_no_file_of_the_authors_at_all_lists_what_it_would_take(tmp_path):
    with pytest.raises(ValueError, match=r"missing: .*embedding/kernel") as caught:
        from_google(save(tmp_path, {"weights": np.zeros(3)}))
    assert "not expected: weights" in str(caught.value)


@pytest.mark.parametrize(
    "broken",
    [
        {"embedding/kernel": np.zeros((16, 16, 3, 30))},
        {"Transformer/posembed_input/pos_embedding": np.zeros((1, 4, 32))},
    ],
    ids=["a width that heads cannot share", "a cut table"],
)
def test_sizes_that_cannot_be_do_not_hide_the_names(broken, tmp_path):
    arrays = google_arrays(our_vit()) | broken | {"surplus": np.zeros(3), "head/bias": None}
    with pytest.raises(ValueError, match=r"missing: head/bias\nnot expected: surplus"):
        from_google(save(tmp_path, arrays))


def test_the_widest_dtype_of_a_file_is_the_models(tmp_path):
    arrays = google_arrays(our_vit())
    first = next(iter(arrays))
    assert next(from_google(save(tmp_path, arrays | {first: arrays[first].astype(np.float16)})).parameters()).dtype == (
        torch.float64
    )
    with pytest.raises(ValueError, match=r"floating-point numbers, these are torch\.int64"):
        from_google(save(tmp_path, {name: array.astype(np.int64) for name, array in arrays.items()}))
