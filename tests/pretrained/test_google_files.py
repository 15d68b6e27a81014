"""The files of the paper's authors: the logits of their formulas; what is wrong is listed, and nothing is executed."""

import io
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from vit_tutorial import VisionTransformer, from_google

from .families import Attack, google_arrays, our_vit, timm_vit
from .test_converting import assert_equal_and_telling, draw

POSITION = "Transformer/posembed_input/pos_embedding"
QUERY = "Transformer/encoderblock_0/MultiHeadDotProductAttention_1/query/kernel"
SIZES = ("embedding/kernel", POSITION, QUERY, "Transformer/encoderblock_0/MlpBlock_3/Dense_0/kernel", "head/kernel")


def save(folder: Path, arrays: dict | None = None, **changes) -> Path:
    """A small file; a change to None leaves an array out."""
    arrays = (google_arrays(our_vit()) if arrays is None else arrays) | changes
    np.savez(folder / "ViT.npz", **{name: array for name, array in arrays.items() if array is not None})
    return folder / "ViT.npz"


@torch.no_grad()
@pytest.mark.parametrize("gelu", ["tanh", "exact"])
@pytest.mark.parametrize("options", [{}, {"representation_size": 24, "num_classes": 50}, {"image_size": 384}], ids=str)
def test_a_file_gives_the_logits_that_timm_reads_in_it(options, gelu, tmp_path):
    """timm did not learn the names from us. It knows no representation, so the head is written down here.

    An eps of 1e-6 is Flax's default.
    """
    arrays = google_arrays(our_vit(num_heads=2, **options))
    path = save(tmp_path, arrays)
    sizes = {"img_size": options.get("image_size", 32), "num_heads": 2, "num_classes": 0}
    layers = {"norm_layer": partial(nn.LayerNorm, eps=1e-6), "act_layer": {"tanh": "gelu_tanh", "exact": "gelu"}[gelu]}
    theirs = timm_vit(**sizes, **layers)
    theirs.load_pretrained(str(path))
    model = from_google(path) if gelu == "tanh" else from_google(str(path), gelu=gelu)
    images = draw(model)
    expected = theirs.eval()(images)
    p = {name: torch.from_numpy(array) for name, array in arrays.items()}
    if "representation_size" in options:
        expected = (expected @ p["pre_logits/kernel"] + p["pre_logits/bias"]).tanh()
    assert_equal_and_telling(model(images), expected @ p["head/kernel"] + p["head/bias"])


BLOCK_1 = {name: None for name in google_arrays(our_vit(depth=2)) if "encoderblock_1/" in name}
NO_PLACE = {
    **{f"without {name}": ({name: None}, f"{name} is missing: these are not the weights of a V") for name in SIZES},
    **{f"{name} with one axis": ({name: np.zeros(6)}, rf"{name} has the shape \(6,\)") for name in SIZES},
    "no class token": ({"cls": None}, "missing: cls"),
    "a ResNet in front": ({"conv_root/kernel": np.zeros((7, 7, 3, 64))}, r"a convolutional stem \(conv_root/kernel\)"),
    "attention pooling": ({"MAPHead_0/probe": np.zeros((1, 1, 32))}, r"attention pooling \(MAPHead_0/probe\)"),
    "no square": ({POSITION: np.zeros((1, 1 + 6, 32))}, "6 positions besides the class token's"),
    "no positions": ({POSITION: np.zeros((1, 0, 32))}, "0 positions besides the class token's"),
    "a layer of a high number": (
        {"Transformer/encoderblock_999999999/x": np.zeros(2)},
        "not expected: Transformer/encoderblock_999999999/x",
    ),
    # (D, 2h, d/2) holds as many values as (D, h, d), and flattens to the same shape.
    "heads that a reshape would hide": (
        {QUERY.replace("query", "key"): np.zeros((32, 8, 4))},
        r"misshapen: .*key/kernel \(32, 8, 4\) instead of \(32, 4, 8\)",
    ),
    "a block left out": (
        BLOCK_1 | {"Transformer/encoderblock_2/LayerNorm_0/scale": np.zeros(32)},
        "missing: .*Transformer/encoderblock_1/LayerNorm_0/scale",
    ),
    "not finite": ({"cls": np.full((1, 1, 32), np.nan)}, "cls holds numbers that are not finite"),
    "a width that heads cannot share": ({"embedding/kernel": np.zeros((16, 16, 3, 30))}, "embed_dim 30 .* 4 heads"),
    # The model that a few bytes ask for is not built.
    "many classes": (
        {"head/kernel": np.zeros((0, 10**12), np.float32), "head/bias": np.zeros(0)},
        "(?s)do not fill.*misshapen: .*head/kernel",
    ),
}


@pytest.mark.parametrize("case", NO_PLACE)
def test_what_does_not_fit_is_named(case, tmp_path):
    changes, message = NO_PLACE[case]
    with pytest.raises(ValueError, match=message):
        from_google(save(tmp_path, **changes))


def test_objects_in_a_file_are_never_opened(tmp_path):
    bad = np.empty(1, dtype=object)
    bad[0] = Attack(tmp_path / "attacked")
    bad.dump(tmp_path / "pickle.npz")
    for path in (save(tmp_path, **{"head/bias": bad}), tmp_path / "pickle.npz"):
        with pytest.raises(ValueError, match=rf"{path.name} is not a whole \.npz file"):
            from_google(path)
    assert not (tmp_path / "attacked").exists()


def far_more(path: Path) -> bytes:
    np.savez_compressed(file := io.BytesIO(), head=np.zeros(10**6))
    return file.getvalue()


def locked(path: Path) -> bytes:
    """With a password, says a bit of each entry."""
    data = bytearray(path.read_bytes())
    for entry in re.finditer(rb"PK\x01\x02", path.read_bytes()):
        data[entry.start() + 8] |= 1
    return data


DAMAGE = {
    "cut off": lambda path: path.read_bytes()[: path.stat().st_size // 2],
    "empty": lambda path: b"",
    "a web page": lambda path: b"<html>hello",
    "no numbers": lambda path: save(path.parent, **{"head/bias": np.array(["a"] * 7)}).read_bytes(),
    "far more": far_more,
    "locked": locked,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_file_that_is_no_npz_says_so(damage, tmp_path):
    path = save(tmp_path)
    path.write_bytes(DAMAGE[damage](path))
    told = r"bytes would unpack to 8,000,\d+" if damage == "far more" else ""
    with pytest.raises(ValueError, match=rf"ViT\.npz is not a whole \.npz file.*{told}"):
        from_google(path)


def test_a_file_that_is_not_there_is_looked_for_by_name(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"ViT\.npz"):
        from_google(tmp_path / "ViT.npz")


def test_the_widest_dtype_of_a_file_is_the_models(tmp_path):
    arrays = google_arrays(our_vit())
    model: VisionTransformer = from_google(save(tmp_path, cls=arrays["cls"].astype(np.float16)))
    assert model.head.weight.dtype == torch.float64
    with pytest.raises(ValueError, match=r"floating-point numbers, these are torch\.int64"):
        from_google(save(tmp_path, {name: array.astype(np.int64) for name, array in arrays.items()}))
