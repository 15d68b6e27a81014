"""The same weights give the same logits in either library; names, and weights that do not fit."""

import re
import sys
from dataclasses import replace

import pytest
import torch
from published import logits_of
from torch import nn

from vit_tutorial import Backbone, VisionTransformer, ViTConfig, from_timm, to_timm
from vit_tutorial.config import POSITIONS, to_pair
from vit_tutorial.pretrained import converting
from vit_tutorial.pretrained.converting import convert_tensors
from vit_tutorial.pretrained.tensor_names import as_theirs
from vit_tutorial.saving import load_model, save_model

from .families import FAMILY, MAKE, READ, our_vit, timm_vit, transformers_vit


def draw(model: VisionTransformer) -> torch.Tensor:
    size = to_pair(model.config.image_size)
    return torch.randn(3, model.config.in_channels, *size, dtype=torch.float64, requires_grad=True)


def difference(a: torch.Tensor, b: torch.Tensor) -> float:
    assert a.shape == b.shape
    assert a.dtype == b.dtype == torch.float64
    return (a - b).abs().max().item()


def assert_equal_and_telling(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    assert ours.std(0).mean() > 0.02, "logits that do not vary over the images prove nothing"
    assert difference(ours, theirs) <= 1e-9


@pytest.mark.parametrize("member", FAMILY)
def test_every_member_of_the_family_gives_the_same_logits_and_gradients(member):
    """`test_parity.py` compares the gradients of the weights, too."""
    theirs = FAMILY[member]().eval()
    ours = READ[member.partition(",")[0]](theirs)
    images = draw(ours)
    logits, their_logits = ours(images), logits_of(theirs(images))
    assert_equal_and_telling(logits, their_logits)
    direction = torch.randn_like(logits)
    gradients = [torch.autograd.grad((answer * direction).sum(), images)[0] for answer in (logits, their_logits)]
    assert gradients[0].abs().max() > 1e-4
    assert difference(*gradients) <= 1e-9


MISREAD = {"norm_eps": ({"norm_eps": 1e-6}, 1e-5), "gelu_form": ({"gelu": "exact"}, "tanh")}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("library", MAKE)
@pytest.mark.parametrize("fact", MISREAD)
def test_an_eps_of_1e5_instead_of_1e6_or_another_gelu_is_noticed_in_every_dtype(fact, library, dtype, monkeypatch):
    """Both move the features by less than float32 can tell from rounding."""
    right, wrong = MISREAD[fact]
    theirs = MAKE[library]().to(dtype)
    for module in theirs.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = 1e-6
    ours = READ[library](theirs)
    assert {parameter.dtype for parameter in ours.parameters()} == {dtype}
    assert {name: getattr(ours.config, name) for name in right} == right
    monkeypatch.setattr(converting, fact, lambda model: wrong)
    with pytest.raises(ValueError, match="every tensor has its place, but the features differ by"):
        READ[library](theirs)


@pytest.mark.usefixtures("unchecked")
def test_a_model_is_taken_out_of_its_wrappers(tmp_path):
    def wrap(model: nn.Module) -> nn.Module:
        return torch.compile(nn.DataParallel(model))

    for library, make in MAKE.items():
        theirs = make()
        ours, expected = READ[library](wrap(theirs)), READ[library](theirs)
        assert torch.equal(ours(images := draw(ours)), expected(images)), library
    assert difference(to_timm(wrap(ours))(images), ours(images)) <= 1e-9
    saved = load_model(save_model(wrap(ours), tmp_path / "model.safetensors"))
    assert difference(saved.double()(images), ours(images)) < 1e-5


@pytest.mark.parametrize("train", [True, False])
def test_the_model_that_was_read_stays_as_it_was_and_so_do_the_readers_random_numbers(train):
    theirs = timm_vit(proj_drop_rate=0.5).train(train)
    before, drawn = {name: tensor.clone() for name, tensor in theirs.state_dict().items()}, torch.get_rng_state()
    ours = from_timm(theirs)
    assert torch.equal(torch.get_rng_state(), drawn)
    assert theirs.training == train
    assert not any(module._forward_pre_hooks for module in theirs.modules())
    assert not ours.training, "ready to predict"
    for parameter in ours.parameters():
        parameter.data.zero_()
    assert all(torch.equal(tensor, before[name]) for name, tensor in theirs.state_dict().items()), "copies, not shared"


def test_eager_attention_stays_eager():
    """It rounds to float32, and would be refused for it."""
    theirs = transformers_vit(attn_implementation="eager")
    images = draw(READ["transformers"](theirs))
    assert theirs.config._attn_implementation == "eager"
    assert theirs(images, output_attentions=True).attentions[0].shape == (3, 4, 5, 5)


@pytest.mark.parametrize("library", MAKE)
def test_every_tensor_that_is_missing_or_extra_or_misshapen_is_listed(library):
    model = our_vit()
    tensors = as_theirs(model.state_dict(), library)
    names = list(tensors)
    missing, misshapen, extra = names[1::5], names[2::5], [f"surplus.{i}" for i in range(4)]
    tensors = {name: tensor[..., None] if name in misshapen else tensor for name, tensor in tensors.items()}
    tensors = {name: tensor for name, tensor in tensors.items() if name not in missing}
    with pytest.raises(ValueError, match="do not fill") as caught:
        convert_tensors(tensors | {name: torch.zeros(2) for name in extra}, library, model.config)
    found = dict(line.split(": ", 1) for line in str(caught.value).splitlines()[1:])
    assert found["missing"].split(", ") == missing
    assert found["not expected"].split(", ") == extra
    assert re.findall(r"([^ ,()]+) \([^)]*\) instead of", found["misshapen"]) == misshapen
    assert min(len(missing), len(misshapen)) >= 3


# ---- to timm


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize(("pool", "gelu"), [("cls", "exact"), ("mean", "tanh")])
def test_a_model_of_ours_can_be_used_in_timm_and_read_again(pool, gelu, position):
    sizes = {"image_size": (12, 20), "patch_size": (4, 10), "mlp_dim": 71, "norm_eps": 1e-4}
    ours = our_vit(pool=pool, gelu=gelu, position=position, **sizes)
    theirs = to_timm(ours)
    images = draw(ours)
    assert not theirs.training
    assert_equal_and_telling(ours(images), theirs(images))
    again = from_timm(theirs)
    assert_equal_and_telling(ours(images), again(images))
    assert again.config == replace(ours.config, position="learned")


def test_the_rates_of_dropout_go_to_timm():
    theirs = to_timm(our_vit(dropout=0.1, attention_dropout=0.2, drop_path=0.3))
    block = theirs.blocks[-1]
    assert (theirs.pos_drop.p, block.mlp.drop2.p, block.attn.attn_drop.p) == (0.1, 0.1, 0.2)
    assert block.drop_path1.drop_prob == pytest.approx(0.3)


def test_what_timm_has_no_place_for_is_refused():
    with pytest.raises(ValueError, match=re.escape("timm has no head.representation.weight")):
        to_timm(our_vit(representation_size=8))
    hybrid = VisionTransformer(ViTConfig(16, 8, num_classes=5), Backbone(nn.Identity(), channels=3, stride=1))
    with pytest.raises(ValueError, match="this model has a backbone in front"):
        to_timm(hybrid)


@pytest.mark.parametrize("missing", ["timm.layers", "timm.models.vision_transformer"])
def test_without_timm_or_what_it_needs_the_way_to_it_says_so(missing, monkeypatch):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ImportError, match=rf"{re.escape(missing)}.*pip install timm"):
        to_timm(our_vit())
