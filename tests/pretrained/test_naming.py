"""The tables of names: every tensor has its row, the way there and back is the identity, a wrong row is noticed."""

import pytest
import torch

from vit_tutorial import from_timm, from_torchvision, from_transformers
from vit_tutorial.pretrained import tensor_names
from vit_tutorial.pretrained.tensor_names import as_ours, as_theirs, table

from .families import google_arrays, our_vit, run_google, timm_vit, torchvision_vit, transformers_vit

LIBRARIES = ("torchvision", "timm", "transformers", "google")
MAKE = {
    "torchvision": (torchvision_vit, from_torchvision),
    "timm": (timm_vit, from_timm),
    "transformers": (transformers_vit, from_transformers),
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_there_and_back_is_the_identity(library):
    tensors = our_vit().state_dict()
    theirs = as_theirs(tensors, library, 4)
    back = as_ours(theirs, library, tensors, 4)
    assert list(back) == list(tensors)
    assert all(torch.equal(back[name], tensor) for name, tensor in tensors.items())
    assert len(theirs) == len(tensors) + (2 * 2 * 2 if library in ("transformers", "google") else 0), "q, k and v"


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_tensor_has_a_row_and_every_row_a_tensor(library):
    ours = {"encoder.{i}" + name.removeprefix("encoder.0") if name.startswith("encoder.0") else name: 0
            for options in ({"depth": 1}, {"depth": 1, "representation_size": 8})
            for name in our_vit(**options).state_dict()}  # fmt: skip
    absent = {name for name in ours if "head." in name and name.count(".") == 2}  # the representation and what follows
    assert set(table(library)) == set(ours) - (absent if library in ("timm", "transformers") else set())


def swapped(table_of_names: str, one: str, other: str) -> str:
    assert one in table_of_names
    assert other in table_of_names
    return table_of_names.replace(one, "?").replace(other, one).replace("?", other)


# A row that says something wrong, of tensors that have the same shape.
WRONG = {
    "transformers: q and k": ("PYTORCH", "[q|k|v]", "[k|q|v]"),
    "google: query and key": ("GOOGLE", "[query|key|value]", "[key|query|value]"),
    "torchvision: the norms": ("PYTORCH", ".ln_1.*", ".ln_2.*"),
    "timm: the norms": ("PYTORCH", ".norm1.*      .layer", ".norm2.*      .layer"),
    "google: the norms": ("GOOGLE", "/LayerNorm_0", "/LayerNorm_2"),
    "google: the kernel of out not turned": ("GOOGLE", "h d D", "d h D"),
    "google: height and width of a patch": ("GOOGLE", "P Q C D", "Q P C D"),
}


@pytest.fixture
def fresh():
    table.cache_clear()
    yield
    table.cache_clear()


@pytest.mark.usefixtures("fresh")
@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_row_is_noticed(case, monkeypatch):
    library = case.partition(":")[0]
    where, right, wrong = WRONG[case]
    arrays = google_arrays(our_vit(num_heads=4, embed_dim=16, mlp_dim=16))  # d = h: no shape tells them apart
    text = getattr(tensor_names, where)
    table.cache_clear()
    mutated = swapped(text, right, wrong) if wrong in text else text.replace(right, wrong)
    assert mutated != text
    monkeypatch.setattr(tensor_names, where, mutated)
    if library == "google":
        model = our_vit(num_heads=4, embed_dim=16, mlp_dim=16)
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        model.load_state_dict(as_ours(tensors, library, model.state_dict(), 4))
        images = torch.randn(3, 3, 32, 32, dtype=torch.float64)
        assert (model(images) - run_google(arrays, images)).abs().max() > 1e-3
    else:
        make, read = MAKE[library]
        with pytest.raises(ValueError, match="features differ"):
            read(make())
