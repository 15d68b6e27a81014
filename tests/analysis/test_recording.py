"""Recording and masking change nothing but what they should, and leave the model as it was."""

import pytest
import torch
from published import randomize
from torch.testing import assert_close

from vit_tutorial import VisionTransformer, ViTConfig, attend
from vit_tutorial.analysis import head_outputs, mask_heads, record_attention, swap_head
from vit_tutorial.attention import split_heads

EXACT = {"atol": 1e-11, "rtol": 0}


def small_model(**options) -> VisionTransformer:
    config = ViTConfig((8, 12), 4, 3, 5, embed_dim=12, depth=2, num_heads=3, mlp_dim=20, **options)
    return randomize(VisionTransformer(config).double()).eval()


@pytest.fixture
def model():
    return small_model()


@pytest.fixture
def images():
    return torch.randn(2, 3, 8, 12, dtype=torch.float64)


def unchanged(model: VisionTransformer, images: torch.Tensor, before: torch.Tensor) -> bool:
    """The same logits, and nothing left behind."""
    hooks = [hook for module in model.modules() for hook in (*module._forward_hooks, *module._forward_pre_hooks)]
    return torch.equal(model(images), before) and not hooks


def run(model, images, *blocks):
    """Return the logits inside these blocks, which are entered from left to right, and what each of them gave."""
    if not blocks:
        return [model(images)]
    with blocks[0](model) as given:
        return [*run(model, images, *blocks[1:]), given]


def masking(heads):
    return lambda model: mask_heads(model, heads)


def test_a_head_returns_what_is_put_in_its_place(model, images):
    """Its own output changes nothing; zeros mask it; another image's output makes it blind to this one."""
    before, outputs = model(images), head_outputs(model, images)
    assert [tuple(each.shape) for each in outputs] == [(2, 3, 7, 4)] * 2
    with swap_head(model, 1, 2, outputs[1][:, 2]):
        assert_close(model(images), before, **EXACT)
    with mask_heads(model, {1: 2}):
        masked = model(images)
    with swap_head(model, 1, 2, torch.zeros(1, 7, 4, dtype=torch.float64)):
        assert_close(model(images), masked, **EXACT)
    with swap_head(model, 0, 1, outputs[0][:1, 1]):
        assert_close(model(images)[0], before[0], **EXACT)
        assert not torch.allclose(model(images)[1], before[1])
    assert unchanged(model, images, before)
    with pytest.raises(ValueError, match=r"no layer -1 .* layers 0 to 1"), swap_head(model, -1, 0, outputs[0][:, 0]):
        pass


def test_recorded_are_the_weights_of_the_equation_and_the_logits_stay(model, images):
    before = model(images)
    with record_attention(model) as maps:
        assert maps == [None, None]
        assert_close(model(images), before, **EXACT)
    assert unchanged(model, images, before)
    z = model.embeddings(images)
    for block, weights in zip(model.encoder, maps, strict=True):
        q, k, v = (split_heads(part, 3) for part in block.attention.qkv(block.norm1(z)).chunk(3, dim=2))
        assert weights.shape == (2, 3, 7, 7)
        assert_close(weights, attend(q, k, v)[1], **EXACT)
        z = block(z)


@pytest.mark.parametrize("measure", [record_attention, masking({0: 1, 1: [0, 2]})])
def test_all_is_restored_when_the_body_raises(model, images, measure):
    before = model(images)
    with pytest.raises(ValueError, match="built for 8×12"):
        run(model, images.transpose(2, 3), measure)
    assert unchanged(model, images, before)


def test_in_training_the_weights_are_those_before_dropout_and_some_are_dropped(images):
    model = small_model(attention_dropout=0.5).train()
    recorded, maps = run(model, images, record_attention)
    again, same = run(model, images, record_attention)
    assert_close(maps[0], same[0], **EXACT)
    assert maps[0].count_nonzero() == maps[0].numel()
    assert (recorded - again).abs().max() > 1e-3
    assert_close(run(model.eval(), images, record_attention)[0], model(images), **EXACT)


@pytest.mark.usefixtures("unchecked")
def test_a_compiled_model_can_be_looked_into(model, images):
    compiled = torch.compile(model, backend="eager")
    before = compiled(images)
    with record_attention(compiled) as maps:
        assert_close(compiled(images), before, **EXACT)
    assert maps[1].shape == (2, 3, 7, 7)


def without_heads(model: VisionTransformer, heads: dict[int, list[int]]) -> VisionTransformer:
    """Return the same model with the columns of the joining layer that read these heads set to zero."""
    twin = small_model()
    twin.load_state_dict(model.state_dict())
    with torch.no_grad():
        for layer, chosen in heads.items():
            for head in chosen:
                twin.encoder[layer].attention.projection.weight[:, 4 * head : 4 * head + 4] = 0
    return twin


@pytest.mark.parametrize("heads", [{0: [1]}, {0: [0, 1, 2], 1: [2]}, {0: []}])
def test_masking_is_zeroing_the_columns_that_read_the_heads(model, images, heads):
    before = model(images)
    masked, _ = run(model, images, masking(heads))
    assert_close(masked, without_heads(model, heads)(images), **EXACT)
    assert ((masked - before).abs().max() > 1e-3) == any(heads.values())
    assert unchanged(model, images, before)
    assert torch.equal(*(run(model, images, masking(last))[0] for last in ({-1: -1}, {1: 2})))


def test_recording_inside_masking_is_masking_inside_recording(model, images):
    before, heads = model(images), {0: [1], 1: [0]}
    inside, inner, _ = run(model, images, masking(heads), record_attention)
    assert unchanged(model, images, before)
    outside, _, outer = run(model, images, record_attention, masking(heads))
    assert unchanged(model, images, before)
    assert_close(inside, outside, **EXACT)
    assert_close(inside, without_heads(model, heads)(images), **EXACT)
    assert_close(inner, outer, **EXACT)
    _, free = run(model, images, record_attention)
    assert_close(inner[0], free[0], **EXACT, msg="a masked head still shows where it would have looked")
    assert (inner[1] - free[1]).abs().max() > 1e-3, "the next layer sees other tokens"


@pytest.mark.usefixtures("unchecked")
def test_heads_without_their_layer_are_refused(model, images):
    before = model(images)
    for heads in ([0], 0, {(0, 1)}):
        with pytest.raises(ValueError, match="heads to mask are given by their layer, such as"):
            run(model, images, masking(heads))
    assert unchanged(model, images, before)


def test_dropout_follows_the_mode_of_each_pass(images):
    model = small_model(attention_dropout=0.5).train()
    with record_attention(model):
        assert_close(model.eval()(images), small_copy(model)(images), **EXACT)


def small_copy(model: VisionTransformer) -> VisionTransformer:
    twin = small_model().eval()
    twin.load_state_dict(model.state_dict())
    return twin
