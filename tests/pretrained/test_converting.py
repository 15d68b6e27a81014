"""The same weights give the same logits in either library; names, and weights that do not fit."""

import re

import pytest
import torch
from published import logits_of
from torch import nn

from vit_tutorial import VisionTransformer, from_timm
from vit_tutorial.config import to_pair
from vit_tutorial.pretrained import converting
from vit_tutorial.pretrained.converting import convert_tensors
from vit_tutorial.pretrained.tensor_names import as_theirs

from .families import FAMILY, MAKE, READ, our_vit, timm_vit, transformers_vit


def draw(model: VisionTransformer) -> torch.Tensor:
    size = to_pair(model.config.image_size)
    return torch.randn(3, model.config.in_channels, *size, dtype=torch.float64, requires_grad=True)


def difference(a: torch.Tensor, b: torch.Tensor) -> float:
    assert a.shape == b.shape
    assert a.dtype == b.dtype == torch.float64
    return (a - b).abs().max().item()


@pytest.mark.parametrize("member", FAMILY)
def test_every_member_of_the_family_gives_the_same_logits_and_gradients(member):
    """`test_parity.py` compares the gradients of the weights, too."""
    theirs = FAMILY[member]().eval()
    ours = READ[member.partition(",")[0]](theirs)
    images = draw(ours)
    logits, answer = ours(images), theirs(images)
    encoder = "encoder" in member  # its own answer is a pooler's, which comes after the features
    their_logits = answer.last_hidden_state[:, 0] if encoder else logits_of(answer)
    assert logits.std(0).mean() > 0.02, "logits that do not vary over the images prove nothing"
    assert difference(logits, their_logits) <= 1e-9
    direction = torch.randn_like(logits)
    gradients = [torch.autograd.grad((answer * direction).sum(), images)[0] for answer in (logits, their_logits)]
    assert gradients[0].abs().max() > 1e-4
    assert difference(*gradients) <= 1e-9


MISREAD = {"norm_eps": (1e-6, 1e-5), "gelu": ("exact", "tanh")}


@pytest.mark.parametrize("library", MAKE)
@pytest.mark.parametrize("fact", MISREAD)
def test_an_eps_of_1e5_instead_of_1e6_or_another_gelu_is_noticed_in_bfloat16_too(fact, library, monkeypatch):
    """Both move the features by less than float32 can tell from rounding."""
    right, wrong = MISREAD[fact]
    theirs = MAKE[library]().bfloat16()
    for module in theirs.modules():
        if isinstance(module, nn.LayerNorm):
            module.eps = 1e-6
    ours = READ[library](theirs)
    assert {parameter.dtype for parameter in ours.parameters()} == {torch.bfloat16}
    assert getattr(ours.config, fact) == right
    read = converting.read_config
    monkeypatch.setattr(converting, "read_config", lambda *args, **facts: read(*args, **{**facts, fact: wrong}))
    with pytest.raises(ValueError, match="every tensor has its place, but the features differ by"):
        READ[library](theirs)


def test_a_difference_of_a_hundred_millionth_is_one():
    """Two right models differ by less than a billionth, in float64."""
    theirs = timm_vit()
    theirs.norm.register_forward_hook(lambda module, inputs, output: output * (1 + 1e-8))
    with pytest.raises(ValueError, match="the features differ by"):
        from_timm(theirs)


@pytest.mark.parametrize("train", [True, False])
def test_the_model_that_was_read_stays_as_it_was_and_so_do_the_readers_random_numbers(train):
    """Also eager attention stays eager, which rounds to float32, and would be refused for it."""
    for read, theirs in ((from_timm, timm_vit(proj_drop_rate=0.5)), (READ["transformers"], transformers_vit())):
        theirs.train(train)
        if library_config := getattr(theirs, "config", None):
            theirs.set_attn_implementation("eager")
        before, drawn = {name: tensor.clone() for name, tensor in theirs.state_dict().items()}, torch.get_rng_state()
        ours = read(theirs)
        assert torch.equal(torch.get_rng_state(), drawn)
        assert theirs.training == train
        assert not any(module._forward_pre_hooks for module in theirs.modules())
        assert not ours.training, "ready to predict"
        for parameter in ours.parameters():
            parameter.data.zero_()
        assert all(torch.equal(tensor, before[name]) for name, tensor in theirs.state_dict().items()), "copies"
    assert library_config._attn_implementation == "eager"


@pytest.mark.parametrize("library", MAKE)
def test_every_tensor_that_is_missing_or_misshapen_is_listed_and_one_without_a_place_is_named(library):
    """Under our names, as PyTorch lists them; a tensor that has no place keeps the name that it has."""
    model = our_vit()
    names = list(model.state_dict())
    missing, misshapen = names[1::5], names[2::5]
    tensors = {name: tensor[..., None] if name in misshapen else tensor for name, tensor in model.state_dict().items()}
    theirs = as_theirs({name: tensor for name, tensor in tensors.items() if name not in missing}, library)
    with pytest.raises(ValueError, match="the tensors are not those of the configuration") as caught:
        convert_tensors(theirs, library, model.config)
    assert re.findall(r"size mismatch for (\S+):", str(caught.value)) == misshapen
    assert re.findall(r'"(\S+)"', str(caught.value)) == missing
    with pytest.raises(ValueError, match=r"has a\.b, surplus, c and 1 more: VisionTransformer has none"):
        convert_tensors(theirs | dict.fromkeys(["a.b", "surplus", "c", "d"], torch.zeros(2)), library, model.config)
