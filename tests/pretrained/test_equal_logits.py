"""Whoever trained it: the same weights give the same logits here, and their gradients too."""

import numpy as np
import pytest
import torch
from published import logits_of

from vit_tutorial import VisionTransformer, from_google, from_timm, from_torchvision, from_transformers, to_timm
from vit_tutorial.config import to_pair
from vit_tutorial.pretrained.tensor_names import as_theirs

from .families import FAMILY, google_arrays, our_vit, run_google, timm_vit, torchvision_vit, transformers_vit

READ = {"torchvision": from_torchvision, "timm": from_timm, "transformers": from_transformers}
POSITIONS = ("learned", "none", "sincos", "factorized")


def draw(model: VisionTransformer, count: int = 3) -> torch.Tensor:
    config = model.config
    return torch.randn(count, config.in_channels, *to_pair(config.image_size), dtype=torch.float64, requires_grad=True)


def difference(a: torch.Tensor, b: torch.Tensor) -> float:
    assert a.shape == b.shape
    assert a.dtype == b.dtype == torch.float64
    return (a - b).abs().max().item()


def assert_equal_and_telling(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    assert ours.std(0).mean() > 0.02, "logits that do not vary over the images prove nothing"
    assert difference(ours, theirs) <= 1e-9


@pytest.mark.parametrize("member", FAMILY)
def test_every_member_of_the_family_gives_the_same_logits_and_gradients(member):
    library = member.partition(",")[0]
    theirs = FAMILY[member]().eval()
    ours = READ[library](theirs)
    images = draw(ours)
    logits, their_logits = ours(images), logits_of(theirs(images))
    assert_equal_and_telling(logits, their_logits)

    direction = torch.randn_like(logits) / logits.numel()
    gradients = dict(ours.named_parameters()) | {"images": images}
    their_gradients = dict(theirs.named_parameters()) | {"images": images}
    mine = dict(zip(gradients, torch.autograd.grad((logits * direction).sum(), gradients.values()), strict=True))
    found = torch.autograd.grad((their_logits * direction).sum(), their_gradients.values())
    known = {"images": mine.pop("images")} | as_theirs(mine, library, ours.config.num_heads)
    for name, gradient in zip(their_gradients, found, strict=True):
        skip = 1 if "no position for the class" in member and name == "pos_embed" else 0
        expected = known[name][:, skip:] if skip else known[name]
        assert difference(expected, gradient) <= 1e-9, name


@pytest.mark.parametrize("options", [{}, {"representation_size": 24, "num_classes": 50}, {"image_size": 384}], ids=str)
def test_a_file_of_the_authors_gives_the_logits_of_their_formulas(options, tmp_path):
    arrays = google_arrays(our_vit(**options))
    np.savez(tmp_path / "ViT.npz", **arrays)
    model = from_google(tmp_path / "ViT.npz")
    images = draw(model)
    assert_equal_and_telling(model(images), run_google(arrays, images))


def test_a_file_of_the_authors_gives_the_logits_that_timm_reads_in_it(tmp_path):
    """The second witness, who did not learn the names from us."""
    np.savez(tmp_path / "ViT.npz", **google_arrays(our_vit(num_heads=2, mlp_dim=128)))
    theirs = timm_vit(num_heads=2)
    with torch.no_grad():
        theirs.load_pretrained(str(tmp_path / "ViT.npz"))
    ours = from_google(str(tmp_path / "ViT.npz"))
    images = draw(ours)
    assert_equal_and_telling(ours(images), theirs.eval()(images))


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("pool", ["cls", "mean"])
def test_a_model_of_ours_can_be_used_in_timm(pool, position):
    ours = our_vit(pool=pool, position=position, image_size=(12, 20), patch_size=(4, 10), mlp_dim=71, norm_eps=1e-4)
    theirs = to_timm(ours)
    images = draw(ours)
    assert not theirs.training
    assert_equal_and_telling(ours(images), theirs(images))
    assert_equal_and_telling(ours(images), from_timm(theirs)(images))


def test_the_rates_of_dropout_go_to_timm():
    theirs = to_timm(our_vit(dropout=0.1, attention_dropout=0.2, drop_path=0.3))
    block = theirs.blocks[-1]
    assert (theirs.pos_drop.p, block.mlp.drop2.p, block.attn.attn_drop.p) == (0.1, 0.1, 0.2)
    assert block.drop_path1.drop_prob == pytest.approx(0.3)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("make", [torchvision_vit, timm_vit, transformers_vit], ids=lambda make: make.__name__)
def test_the_dtype_stays(make, dtype):
    theirs = make().to(dtype)
    ours = READ[make.__name__.partition("_")[0]](theirs)
    assert {parameter.dtype for parameter in ours.parameters()} == {dtype}


@pytest.mark.parametrize("train", [True, False])
def test_the_model_that_was_read_stays_as_it_was(train):
    theirs = timm_vit(proj_drop_rate=0.5).train(train)
    before = {name: tensor.clone() for name, tensor in theirs.state_dict().items()}
    ours = from_timm(theirs)
    assert theirs.training == train
    assert not ours.training, "ready to predict"
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.zero_()
    assert all(torch.equal(tensor, before[name]) for name, tensor in theirs.state_dict().items()), "copies, not shared"


@pytest.mark.parametrize("make", [torchvision_vit, timm_vit, transformers_vit], ids=lambda make: make.__name__)
def test_a_head_of_zeros_is_warned_about(make):
    theirs = make()
    heads = {"torchvision": "heads.head", "timm": "head", "transformers": "classifier"}
    library = make.__name__.partition("_")[0]
    torch.nn.init.zeros_(theirs.get_submodule(heads[library]).weight)
    with pytest.warns(UserWarning, match="all zeros"):
        READ[library](theirs)


def test_a_head_of_zeros_in_a_file_is_warned_about(tmp_path):
    """The authors' first files for 21,843 classes are so."""
    model = our_vit(representation_size=24)
    torch.nn.init.zeros_(model.head.classifier.weight)
    np.savez(tmp_path / "ViT.npz", **google_arrays(model))
    with pytest.warns(UserWarning, match="all zeros"):
        from_google(tmp_path / "ViT.npz")
