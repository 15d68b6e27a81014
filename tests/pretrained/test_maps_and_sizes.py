"""What readers want of somebody else's model: its attention maps, and images of another size."""

import torch

from vit_tutorial import analysis, change_resolution, from_timm, from_transformers

from .families import timm_vit, transformers_vit


def difference(one, other) -> float:
    assert [tensor.dtype for tensor in (*one, *other)] == [torch.float64] * 2 * len(one)
    return max((a - b).abs().max().item() for a, b in zip(one, other, strict=True))


@torch.no_grad()
def test_the_maps_of_a_converted_model_are_those_of_the_original():
    """timm's own maps, from a run of its own code without the fused kernel."""
    theirs, images, their_maps = timm_vit(patch_size=8).eval(), torch.randn(2, 3, 32, 32, dtype=torch.float64), []
    with analysis.record_attention(ours := from_timm(theirs)) as maps:
        ours(images)
    assert [tuple(layer.shape) for layer in maps] == [(2, 4, 17, 17)] * 2
    assert min(layer.std(dim=1).mean().item() for layer in maps) > 1e-3, "heads that look alike prove nothing"
    for block in theirs.blocks:
        block.attn.fused_attn = False
        block.attn.attn_drop.register_forward_hook(lambda module, inputs, output: their_maps.append(output))
    theirs(images)
    assert difference(maps, their_maps) <= 1e-9


@torch.no_grad()
def test_transformers_interpolates_as_ours_without_antialias():
    """How timm and torchvision interpolate is in `test_adapting.py`."""
    theirs, images = transformers_vit(patch_size=8).eval(), torch.randn(2, 3, 48, 24, dtype=torch.float64)
    expected = theirs(images, interpolate_pos_encoding=True).logits
    ours = from_transformers(theirs)  # made for 4×4 patches, and then for 6×3
    assert difference([change_resolution(ours, (48, 24), antialias=False)(images)], [expected]) <= 1e-12
    assert difference([change_resolution(ours, (48, 24))(images)], [expected]) > 1e-3
