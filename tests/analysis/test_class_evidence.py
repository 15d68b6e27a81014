"""What a model would answer early, and which patches speak for a class, each computed a second way."""

import copy

import pytest
import torch
from torch.testing import assert_close

from vit_tutorial import attend
from vit_tutorial.analysis import class_attention, occlusion, readout, record_attention
from vit_tutorial.analysis.recording import attending

from .test_recording import EXACT, small_model

CLASSES = torch.tensor([1, 4])


@pytest.fixture
def images():
    return torch.randn(2, 3, 8, 12, dtype=torch.float64)


@pytest.mark.parametrize("pool", ["cls", "mean"])
def test_the_readout_after_a_block_is_the_answer_of_a_model_that_ends_there(pool, images):
    model = small_model(pool=pool, representation_size=7)
    shorter = copy.deepcopy(model)
    none, first, last = readout(model, images)
    assert_close(last, model(images), **EXACT)
    del shorter.encoder[1]
    assert_close(first, shorter(images), **EXACT)
    del shorter.encoder[0]
    assert_close(none, shorter(images), **EXACT)
    assert min((none - first).abs().max(), (first - last).abs().max()) > 1e-3


def test_occlusion_is_the_fall_of_a_logit_when_one_patch_alone_is_zero(images):
    model = small_model()
    found = occlusion(model, images)
    assert found.shape == (2, 5, 2, 3)
    covered = images.clone()
    covered[1, :, 4:8, 8:12] = 0  # the last patch of the second image
    fall = model(images) - model(covered)
    assert fall[0].abs().max() == 0
    assert_close(found[1, :, 1, 2], fall[1], **EXACT)


@torch.no_grad()
def by_differences(model, images, classes):
    """Change every weight a little up and down, and add up the paths through both layers one by one."""
    change = torch.zeros(2, 3, 7, 7, dtype=torch.float64)  # of layers and heads, the same for every image

    def nudged(layer, q, k, v):
        return (attend(q, k, v)[1] + change[layer]) @ v

    with record_attention(model) as maps:
        model(images)
    added = torch.zeros(2, 2, 7, 7, dtype=torch.float64)  # layer, image, row, column
    with attending(model, nudged):
        for index in torch.cartesian_prod(*map(torch.arange, change.shape)).tolist():
            layer, head, row, column = index
            logits = []
            for step in (1e-5, -1e-5):
                change[tuple(index)] = step
                logits.append(model(images)[range(2), classes])
            change[tuple(index)] = 0
            slope = (logits[0] - logits[1]) / 2e-5
            added[layer, :, row, column] += (slope * maps[layer][:, head, row, column]).clamp(min=0) / 3
    first, second = added
    return torch.eye(7, dtype=torch.float64) + first + second + second @ first


@pytest.mark.parametrize("pool", ["cls", "mean"])
def test_evidence_is_what_small_changes_of_each_weight_do_to_the_class(pool, images):
    """Of the class token, or the mean over the patches without themselves."""
    model = small_model(pool=pool)
    found = class_attention(model, images, CLASSES)
    paths = by_differences(model, images, CLASSES) - torch.eye(7, dtype=torch.float64)
    expected = paths[:, 0, 1:] if pool == "cls" else paths[:, 1:, 1:].mean(dim=1)
    assert found.shape == (2, 2, 3)
    assert found.min() >= 0
    assert_close(found.flatten(1), expected, atol=1e-8, rtol=1e-6)
    assert torch.equal(class_attention(model, images, CLASSES.tolist()), found)


@pytest.mark.parametrize(("mode", "frozen"), [(torch.no_grad, True), (torch.enable_grad, False)])
def test_it_needs_no_gradients_and_leaves_those_that_are_there(mode, frozen, images):
    model = small_model()
    expected = class_attention(model, images, CLASSES)
    model.requires_grad_(not frozen)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    with mode():
        found = class_attention(model, images.clone(), CLASSES)
    assert torch.equal(found, expected)
    assert not found.requires_grad
    assert not images.requires_grad
    assert all((parameter.grad == 1).all() for parameter in model.parameters())


@pytest.mark.parametrize("measure", [readout, occlusion, lambda *given: class_attention(*given, CLASSES)])
def test_a_model_in_training_is_measured_in_eval_mode_and_goes_on_training(measure, images):
    model = small_model(dropout=0.5, attention_dropout=0.5)
    expected = measure(model, images)
    assert torch.equal(measure(model.train(), images), expected)
    assert all(module.training for module in model.modules())
    assert not expected.requires_grad


@pytest.mark.parametrize("classes", [[1], [1, 9], [1, -1], [[1, 2]]])
@pytest.mark.usefixtures("unchecked")
def test_one_class_of_the_model_is_asked_for_each_image(classes, images):
    with pytest.raises(IndexError, match="one class for each of 2 images, of the model's 5"):
        class_attention(small_model(), images, classes)
