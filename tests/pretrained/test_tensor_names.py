"""The tables of names: every tensor has its row, the way there and back is the identity, a wrong row is noticed."""

import re

import pytest
import torch

from vit_tutorial.pretrained import tensor_names
from vit_tutorial.pretrained.tensor_names import as_ours, as_theirs, column

from .families import MAKE, READ, google_arrays, our_vit, run_google

LIBRARIES = ("torchvision", "timm", "transformers", "google")


@pytest.mark.parametrize("library", LIBRARIES)
def test_there_and_back_is_the_identity(library):
    tensors = our_vit().state_dict()
    theirs = as_theirs(tensors, library, 4)
    back = as_ours(theirs, library, tensors, 4)
    assert list(back) == list(tensors)
    assert all(torch.equal(back[name], tensor) for name, tensor in tensors.items())
    assert len(theirs) == len(tensors) + (2 * 2 * 2 if library in ("transformers", "google") else 0), "q, k and v"


def test_every_row_has_a_tensor():
    names = {name for size in (None, 8) for name in our_vit(representation_size=size).state_dict()}
    rows = {re.sub(r"^encoder\.\d|(weight|bias)$", lambda end: "*" if end[1] else "", name) for name in names}
    for library in LIBRARIES:
        assert set(column(library)) == rows | {"encoder.{i}"}


# A row that says something wrong, of tensors that have the same shape.
WRONG = {
    "transformers: q and k": ("PYTORCH", "[q|k|v]", "[k|q|v]"),
    "google: query and key": ("GOOGLE", "[query|key|value]", "[key|query|value]"),
    "torchvision: the norms": ("PYTORCH", ".ln_1.*", ".ln_2.*"),
    "timm: the norms": ("PYTORCH", ".norm1.*      .layer", ".norm2.*      .layer"),
    "google: the norms": ("GOOGLE", "/LayerNorm_0", "/LayerNorm_2"),
    "google: the kernel of out not turned": (".attention.projection.weight", "h d D", "d h D"),
    "google: height and width of a patch": ("embeddings.patches.projection.weight", "P Q C D", "Q P C D"),
}


@pytest.fixture
def fresh():
    column.cache_clear()
    yield
    column.cache_clear()


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_row_is_noticed(case, monkeypatch):
    library = case.partition(":")[0]
    where, right, wrong = WRONG[case]
    model, other = (our_vit(embed_dim=16, mlp_dim=16) for _ in range(2))  # d = h: no shape tells them apart
    arrays = google_arrays(other)
    column.cache_clear()
    if where in tensor_names.AXES:
        ours, theirs = tensor_names.AXES[where]
        assert theirs == right
        monkeypatch.setitem(tensor_names.AXES, where, (ours, wrong))
    else:
        text = getattr(tensor_names, where)
        assert right in text
        swapped = text.replace(wrong, "?").replace(right, wrong).replace("?", right)
        monkeypatch.setattr(tensor_names, where, swapped)
    if library != "google":
        with pytest.raises(ValueError, match="features differ"):
            READ[library](MAKE[library]())
        return
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    model.load_state_dict(as_ours(tensors, library, model.state_dict(), 4))
    images = torch.randn(3, 3, 32, 32, dtype=torch.float64)
    assert (model(images) - run_google(arrays, images)).abs().max() > 1e-3
