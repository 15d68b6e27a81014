"""What readers want of somebody else's model: its attention maps, and images of another size."""

import pytest
import torch
from timm.models.vision_transformer import checkpoint_filter_fn
from torch import nn
from torch.overrides import TorchFunctionMode

from vit_tutorial import analysis, change_resolution, from_timm, from_transformers

from .families import MAKE, READ, timm_vit, transformers_vit

SIZE = (48, 24)  # 6×3 patches; the models are made for 4×4


def draw(*size: int) -> torch.Tensor:
    return torch.randn(2, 3, *size, dtype=torch.float64)


def difference(one, other) -> float:
    assert [tensor.dtype for tensor in (*one, *other)] == [torch.float64] * 2 * len(one)
    return max((a - b).abs().max().item() for a, b in zip(one, other, strict=True))


# ---- attention maps


class OwnDtype(TorchFunctionMode):
    """Every softmax is computed in the dtype of what it is given, whatever is asked for."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}) | ({"dtype": None} if function is nn.functional.softmax else {}))


def eager_maps(theirs: nn.Module, library: str, images: torch.Tensor) -> list[torch.Tensor]:
    """The library's own maps, from a run of its own code without the fused kernel."""
    maps = []
    if library == "transformers":
        theirs.set_attn_implementation("eager")
        return list(theirs(images, output_attentions=True).attentions)
    if library == "timm":
        for block in theirs.blocks:
            assert block.attn.fused_attn
            block.attn.fused_attn = False
            block.attn.attn_drop.register_forward_hook(lambda module, inputs, output: maps.append(output))
    else:
        asked = {"need_weights": True, "average_attn_weights": False}
        for layer in theirs.encoder.layers:
            attention = layer.self_attention
            attention.register_forward_pre_hook(lambda module, args, kwargs: (args, kwargs | asked), with_kwargs=True)
            attention.register_forward_hook(lambda module, inputs, output: maps.append(output[1]))
    theirs(images)
    return maps


@torch.no_grad()
@pytest.mark.parametrize("library", MAKE)
def test_the_maps_of_a_converted_model_are_those_of_the_original(library):
    """transformers computes its eager softmax in float32; in the dtype of its input, it gives the same maps."""
    theirs = MAKE[library](patch_size=8).eval()
    ours, images = READ[library](theirs), draw(32, 32)
    with analysis.record_attention(ours) as maps:
        ours(images)
    assert [tuple(layer.shape) for layer in maps] == [(2, 4, 17, 17)] * 2
    assert min(layer.std(dim=1).mean().item() for layer in maps) > 1e-3, "heads that look alike prove nothing"
    if library == "transformers":
        assert 1e-9 < difference(maps, eager_maps(theirs, library, images)) < 1e-6
        with OwnDtype():
            assert difference(maps, eager_maps(theirs, library, images)) <= 1e-9
    else:
        assert difference(maps, eager_maps(theirs, library, images)) <= 1e-9


# ---- other sizes; how torchvision interpolates is in `test_adapting.py`


@torch.no_grad()
def test_transformers_interpolates_as_ours_without_antialias():
    theirs, images = transformers_vit(patch_size=8).eval(), draw(*SIZE)
    expected = theirs(images, interpolate_pos_encoding=True).logits
    ours = from_transformers(theirs)
    assert difference([change_resolution(ours, SIZE, antialias=False)(images)], [expected]) <= 1e-12
    assert difference([change_resolution(ours, SIZE)(images)], [expected]) > 1e-3


def built_anew(theirs: nn.Module) -> nn.Module:
    other = timm_vit(patch_size=8, img_size=SIZE)
    other.load_state_dict(checkpoint_filter_fn(theirs.state_dict(), other))
    return other


TIMMS = {
    "img_size=, and its filter of checkpoints": built_anew,
    "set_input_size": lambda theirs: theirs.set_input_size(SIZE) or theirs,
    "dynamic_img_size=True": lambda theirs: theirs,
}


@torch.no_grad()
@pytest.mark.parametrize("way", TIMMS)
def test_timm_interpolates_as_ours_in_float32(way):
    theirs = timm_vit(patch_size=8, dynamic_img_size="dynamic" in way).eval()
    ours, images = from_timm(theirs), draw(*SIZE)
    moved, expected = change_resolution(ours, SIZE), TIMMS[way](theirs).eval()(images)
    assert 1e-12 < difference([moved(images)], [expected]) < 1e-6
    in_single = change_resolution(ours.float(), SIZE).embeddings.position()
    moved.embeddings.position.table[1:] = in_single[1:].double()
    assert difference([moved(images)], [expected]) <= 1e-12
