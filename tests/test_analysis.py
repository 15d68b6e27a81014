"""Measuring changes nothing: what is recorded or masked, and that the model is afterwards what it was."""

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from published import randomize
from torch import nn

from vit_tutorial import VisionTransformer, ViTConfig, attend
from vit_tutorial.analysis import mask_heads, position_similarity, record_attention, trace_shapes
from vit_tutorial.attention import FusedAttention, split_heads
from vit_tutorial.inference import eval_mode


def small_model(**options) -> VisionTransformer:
    config = ViTConfig(
        image_size=(8, 12), patch_size=4, num_classes=5, embed_dim=12, depth=2, num_heads=3, mlp_dim=20, **options
    )
    return randomize(VisionTransformer(config).double()).eval()


@pytest.fixture
def model():
    return small_model()


@pytest.fixture
def images():
    return torch.randn(2, 3, 8, 12, dtype=torch.float64)


def strategies(model: VisionTransformer) -> list[nn.Module]:
    return [block.attention.strategy for block in model.encoder]


def unchanged(model: VisionTransformer, images: torch.Tensor, before: torch.Tensor) -> bool:
    """Fused again, the same logits, and nothing left behind."""
    return (
        all(type(strategy) is FusedAttention for strategy in strategies(model))
        and all(strategy.training == model.training for strategy in strategies(model))
        and torch.equal(model(images), before)
        and not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    )


# --- recording


def test_recorded_logits_are_the_fused_ones(model, images):
    before = model(images)
    with record_attention(model) as maps:
        assert maps == [None, None]
        recorded = model(images)
    torch.testing.assert_close(recorded, before, atol=1e-11, rtol=0)
    assert unchanged(model, images, before)


def test_what_is_recorded_are_the_weights_of_the_equation(model, images):
    with record_attention(model) as maps:
        model(images)
    z = model.embeddings(images)
    for block, weights in zip(model.encoder, maps, strict=True):
        q, k, v = (split_heads(part, 3) for part in block.attention.qkv(block.norm1(z)).chunk(3, dim=2))
        assert weights.shape == (2, 3, 7, 7)
        torch.testing.assert_close(weights, attend(q, k, v)[1], atol=1e-11, rtol=0)
        torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, 7, dtype=torch.float64))
        z = block(z)


def test_recording_again_gives_the_latest_pass(model, images):
    with record_attention(model) as maps:
        model(images)
        first = list(maps)
        model(images)
        assert torch.equal(maps[0], first[0])
        model(images[:1])
        assert maps[0].shape[0] == 1
    with record_attention(model) as again:
        model(images)
    assert torch.equal(again[1], first[1])
    assert maps[0].shape[0] == 1, "what was recorded before is left alone"


def test_recording_twice_at_once_records_twice(model, images):
    before = model(images)
    with record_attention(model) as outer, record_attention(model) as inner:
        model(images)
    assert torch.equal(outer[0], inner[0])
    assert torch.equal(outer[1], inner[1])
    assert unchanged(model, images, before)


def test_recorded_weights_carry_gradients(model, images):
    """A map may be asked what it depends on, and the model can be trained while it is watched."""
    with record_attention(model) as maps:
        model(images)
    (gradient,) = torch.autograd.grad(maps[1][0, 0, 0, 3], model.embeddings.class_token)
    assert gradient.abs().max() > 1e-6
    with record_attention(model) as maps, torch.no_grad():
        model(images)
    assert not maps[0].requires_grad


@pytest.mark.parametrize("measure", [record_attention, lambda model: mask_heads(model, {0: 1, 1: [0, 2]})])
def test_all_is_restored_when_the_body_raises(model, images, measure):
    before = model(images)

    def interrupted():
        with measure(model):
            model(images)
            raise KeyError("stop")

    with pytest.raises(KeyError, match="stop"):
        interrupted()
    assert unchanged(model, images, before)


@pytest.mark.parametrize("measure", [record_attention, lambda model: mask_heads(model, {0: [], 1: []})])
def test_attention_dropout_follows_the_mode_of_the_model(images, measure):
    """On in training, off in evaluation, and when the mode changes inside the block it changes what is measured too."""
    model = small_model(attention_dropout=0.5)
    before = model(images)
    with measure(model):
        torch.testing.assert_close(model(images), before, atol=1e-11, rtol=0)
        model.train()
        assert (model(images) - before).abs().max() > 1e-3
    assert model.encoder[0].attention.strategy.training
    with measure(model):
        assert (model(images) - before).abs().max() > 1e-3
        model.eval()
        torch.testing.assert_close(model(images), before, atol=1e-11, rtol=0)
    assert unchanged(model, images, before)


def test_recorded_weights_are_those_before_dropout(images):
    model = small_model(attention_dropout=0.5).train()
    with record_attention(model) as maps:
        model(images)
    torch.testing.assert_close(maps[0].sum(-1), torch.ones(2, 3, 7, dtype=torch.float64))
    assert maps[0].count_nonzero() == maps[0].numel()


def test_recording_and_fused_drop_the_same_weights_under_one_seed(images):
    model = small_model(attention_dropout=0.5, dropout=0.1, drop_path=0.2).train()
    torch.manual_seed(1)
    fused = model(images)
    torch.manual_seed(1)
    with record_attention(model):
        torch.testing.assert_close(model(images), fused, atol=1e-11, rtol=0)


def test_weights_are_saved_and_moved_as_ever_inside_the_blocks(model, images):
    names = set(model.state_dict())
    with mask_heads(model, {0: 1}), record_attention(model) as maps:
        assert set(model.state_dict()) == names
        model.float()
        model(images.float())
        assert maps[0].dtype == torch.float32


# --- masking


def without_heads(model: VisionTransformer, heads: dict[int, list[int]]) -> VisionTransformer:
    """The same model with the columns of the joining layer that read these heads set to zero."""
    twin = small_model()
    twin.load_state_dict(model.state_dict())
    with torch.no_grad():
        for layer, chosen in heads.items():
            for head in chosen:
                twin.encoder[layer].attention.projection.weight[:, 4 * head : 4 * head + 4] = 0
    return twin


@pytest.mark.parametrize("heads", [{0: [1]}, {1: [0, 2]}, {0: [0, 1, 2], 1: [2]}, {0: []}])
def test_masking_is_zeroing_the_columns_that_read_the_heads(model, images, heads):
    before = model(images)
    with mask_heads(model, heads):
        masked = model(images)
    torch.testing.assert_close(masked, without_heads(model, heads)(images), atol=1e-11, rtol=0)
    assert ((masked - before).abs().max() > 1e-3) == any(heads.values())
    assert unchanged(model, images, before)


def test_one_head_needs_no_list(model, images):
    with mask_heads(model, {1: 2}):
        one = model(images)
    with mask_heads(model, {1: [2]}):
        assert torch.equal(model(images), one)


SAME = {
    "tensor": torch.tensor([2, 0]),
    "array": np.array([2, 0]),
    "their numbers": [torch.tensor(2), np.int64(0)],
    "set": {0, 2},
    "generator": (2 - 2 * i for i in range(2)),
}


@pytest.mark.parametrize("heads", SAME.values(), ids=SAME)
def test_heads_may_be_numbers_of_any_library(model, images, heads):
    with mask_heads(model, {1: [2, 0]}):
        expected = model(images)
    with mask_heads(model, {np.int64(1): heads}):
        assert torch.equal(model(images), expected)


def test_one_head_may_be_a_tensor_and_a_layer_too(model, images):
    with mask_heads(model, {1: [2, 0]}):
        expected = model(images)
    with mask_heads(model, {torch.tensor(1): torch.tensor(2), 1: np.int64(0)}):
        assert torch.equal(model(images), expected)


@pytest.mark.parametrize("heads", [True, [False, True, True], torch.tensor([True]), np.True_, 1.0, "1", None, [[1]]])
def test_what_counts_no_head_is_refused(model, heads, unchecked):
    with pytest.raises(ValueError, match="counted in whole numbers"), mask_heads(model, {0: heads}):
        pass
    with pytest.raises(ValueError, match="no head 3 in layer 0"), mask_heads(model, {0: torch.tensor([0, 3])}):
        pass


def test_masks_add_up(model, images):
    before = model(images)
    with mask_heads(model, {0: 1}), mask_heads(model, {0: 2, 1: 0}):
        nested = model(images)
    with mask_heads(model, {0: [1, 2], 1: [0]}):
        torch.testing.assert_close(model(images), nested, atol=1e-12, rtol=0)
    assert unchanged(model, images, before)


def test_recording_inside_masking_is_masking_inside_recording(model, images):
    before = model(images)
    with mask_heads(model, {0: [1], 1: [0]}), record_attention(model) as inner:
        inside = model(images)
    assert unchanged(model, images, before)
    with record_attention(model) as outer, mask_heads(model, {0: [1], 1: [0]}):
        outside = model(images)
    assert unchanged(model, images, before)
    torch.testing.assert_close(inside, outside, atol=1e-12, rtol=0)
    torch.testing.assert_close(inside, without_heads(model, {0: [1], 1: [0]})(images), atol=1e-11, rtol=0)
    for one, other in zip(inner, outer, strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=0)


def test_a_masked_head_still_shows_where_it_would_have_looked(model, images):
    with record_attention(model) as free:
        model(images)
    with mask_heads(model, {0: 1}), record_attention(model) as masked:
        model(images)
    torch.testing.assert_close(masked[0], free[0], atol=1e-12, rtol=0)
    assert (masked[1] - free[1]).abs().max() > 1e-3, "the next layer sees other tokens"


def test_one_mask_inside_another_comes_off_alone(model, images):
    with mask_heads(model, {0: 1}):
        outer = model(images)
        with mask_heads(model, {0: 2}):
            assert (model(images) - outer).abs().max() > 1e-3
        assert torch.equal(model(images), outer)


def test_measuring_under_autocast():
    model = small_model().float()
    images = torch.randn(2, 3, 8, 12)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        free = model(images)
        with mask_heads(model, {0: []}), record_attention(model) as maps:
            torch.testing.assert_close(model(images), free, atol=0.1, rtol=0)
    torch.testing.assert_close(maps[0].float().sum(-1), torch.ones(2, 3, 7), atol=0.05, rtol=0)


def test_compiled_models_can_be_measured(unchecked):
    model, images = small_model(), torch.randn(2, 3, 8, 12, dtype=torch.float64)
    torch.compiler.reset()
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    free = compiled(images)
    with mask_heads(model, {0: 1}):
        assert (compiled(images) - free).abs().max() > 1e-3
    torch.testing.assert_close(compiled(images), free, atol=1e-12, rtol=0)


# --- threads


def in_a_thread(work):
    """What `work` returns, or the error that it raises, in another thread."""
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(work)
        return future.exception() or future.result()


def entering(block):
    with block:
        pass


CHANGES = {
    "record": record_attention,
    "mask": lambda model: mask_heads(model, {0: 1, 1: 1}),
    "part": lambda model: record_attention(model.encoder),
    "eval": lambda model: eval_mode(model.train()),
}
USES = {
    **CHANGES,
    "eval": eval_mode,
    "trace": lambda model: nullcontext(trace_shapes(model, torch.zeros(1, 3, 8, 12).double())),
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("change", CHANGES)
def test_a_second_thread_is_refused_while_a_first_one_changes_the_model(change, use, model, images):
    before = model(images)
    with CHANGES[change](model):
        assert "copy.deepcopy" in str(in_a_thread(lambda: entering(USES[use](model))))
    assert in_a_thread(lambda: entering(USES[use](model))) is None
    assert unchanged(model.eval(), images, before)


@pytest.mark.parametrize("change", ["record", "mask"])
def test_a_second_thread_cannot_run_a_changed_model(change, model, images):
    before = model(images)
    with CHANGES[change](model) as maps:
        error = in_a_thread(lambda: model(images))
        assert isinstance(error, RuntimeError)
        assert "copy.deepcopy" in str(error)
        assert maps in (None, [None, None])
    assert torch.equal(in_a_thread(lambda: model(images)), before)


def test_many_threads_record_mask_and_predict_without_a_wrong_number(model, images):
    """Each gets the right answer or a RuntimeError, and the model ends as it was."""
    before = model(images)
    with record_attention(model) as maps:
        model(images)
    with mask_heads(model, {0: 1, 1: 1}):
        masked = model(images)

    def record():
        with record_attention(model) as found:
            model(images)
        return all(map(torch.equal, found, maps))

    def mask():
        with mask_heads(model, {0: 1, 1: 1}):
            return torch.equal(model(images), masked)

    def predict():
        with eval_mode(model):
            return torch.equal(model(images), before)

    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(work) for work in (record, mask, predict) * 60]
    errors = [future.exception() for future in futures]
    assert all(future.result() for future, error in zip(futures, errors, strict=True) if error is None)
    assert {type(error) for error in errors} <= {RuntimeError, type(None)}
    assert unchanged(model, images, before)


def test_many_threads_may_put_a_model_in_eval_mode_that_is_there_already(model, images):
    with eval_mode(model), mask_heads(model, {0: []}):
        pass  # nested in one thread as ever
    with eval_mode(model):
        assert in_a_thread(lambda: entering(eval_mode(model))) is None


# --- shapes and positions


def test_trace_shapes_follows_the_data(model, images):
    before = model(images)
    steps = {step.name: (step.module, step.shape) for step in trace_shapes(model, images)}
    assert steps["embeddings.patches.projection"] == ("Conv2d", (2, 12, 2, 3))
    assert steps["embeddings.patches"] == ("PatchEmbedding", (2, 6, 12))
    assert steps["embeddings.position"] == ("LearnedPosition", (7, 12))
    assert steps["embeddings"] == ("Embeddings", (2, 7, 12))
    assert steps["encoder.0.attention.qkv"] == ("Linear", (2, 7, 36))
    assert steps["encoder.1.mlp.expand"] == ("Linear", (2, 7, 20))
    assert steps["encoder.1"] == ("EncoderBlock", (2, 7, 12))
    assert steps["pool"] == ("ClassTokenPool", (2, 12))
    assert steps[""] == ("VisionTransformer", (2, 5))
    names = list(steps)
    assert names.index("embeddings") < names.index("encoder.0") < names.index("encoder.1") < names.index("head")
    assert names[-1] == ""
    assert unchanged(model, images, before)


def test_trace_shapes_takes_its_hooks_away_when_the_model_raises(model, images):
    before = model(images)
    with pytest.raises(ValueError, match="built for 8×12"):
        trace_shapes(model, images.transpose(2, 3))
    assert unchanged(model, images, before)


def test_position_similarity_is_the_cosine_of_two_patches(model):
    similarity = position_similarity(model)
    table = model.embeddings.position.table
    assert similarity.shape == (2, 3, 2, 3)
    cosine = nn.functional.cosine_similarity(table[1 + 1 * 3 + 2], table[1 + 0 * 3 + 1], dim=0)
    torch.testing.assert_close(similarity[1, 2, 0, 1], cosine)
    torch.testing.assert_close(similarity.reshape(6, 6).diag(), torch.ones(6, dtype=torch.float64))
    assert not similarity.requires_grad


def test_sincos_positions_are_most_like_their_neighbours():
    model = VisionTransformer(
        ViTConfig(image_size=40, patch_size=8, embed_dim=64, num_heads=2, depth=1, position="sincos")
    )
    similarity = position_similarity(model)[2, 2]  # the middle of a 5×5 grid
    assert similarity[2, 2] > similarity[2, 3] > similarity[2, 4]
    torch.testing.assert_close(similarity[2, 3], similarity[3, 2])
