"""How large a step is, which weights decay, and what no recipe can be."""

import math

import pytest
from torch import nn

from vit_tutorial.training import Recipe, parameter_groups, warmup_cosine


def test_the_schedules_by_hand():
    up = [0.25, 0.5, 0.75, 1]
    down = [1, 0.5 + math.sqrt(0.125), 0.5, 0.5 - math.sqrt(0.125), 0]
    assert [warmup_cosine(step, 4, 8) for step in range(9)] == pytest.approx(up + down)
    constant = Recipe(epochs=8, learning_rate=2.0, warmup_epochs=4.0, schedule="constant")
    assert [constant.learning_rate_at(step, 1) for step in range(8)] == [2 * share for share in up + [1] * 4]
    assert warmup_cosine(9, 10, 10) == warmup_cosine(10, 10, 10) == 1, "nothing but warm-up, and a step beyond it"
    assert warmup_cosine(0, 0, 10) == 1, "no warm-up: the first step is the largest"


def test_matrices_and_kernels_decay_and_frozen_weights_are_left_out():
    """Of a ViT, the check of lesson 06 judges the groups."""
    cnn = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4, 2))
    names = {parameter: name for name, parameter in cnn.named_parameters()}
    for trained, kernels in ((True, ["0.weight"]), (False, [])):
        cnn[0].weight.requires_grad_(trained)
        decaying, staying = parameter_groups(cnn, 0.05)
        assert (decaying["weight_decay"], staying["weight_decay"]) == (0.05, 0)
        assert [names[parameter] for parameter in decaying["params"]] == [*kernels, "4.weight"]
        assert [names[parameter] for parameter in staying["params"]] == ["0.bias", "1.weight", "1.bias", "4.bias"]


def test_the_matrix_of_pytorchs_own_attention_decays():
    attention = nn.MultiheadAttention(4, 2)
    decaying, _ = parameter_groups(attention, 0.05)
    assert {id(weight) for weight in decaying["params"]} == {
        id(attention.in_proj_weight),
        id(attention.out_proj.weight),
    }


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"epochs": 2.0}, "epochs must be a whole number of at least 1, got 2.0"),
        ({"learning_rate": math.inf}, "learning_rate must be a finite number, got inf"),
        ({"clip_norm": 0}, "clip_norm must be above 0, got 0"),
        ({"crop": -1}, "crop must be a whole number of at least 0, got -1"),
        ({"label_smoothing": 1.5}, r"label_smoothing must be a number in \[0, 1\), got 1.5"),
        ({"schedule": "cosin"}, "did you mean 'cosine'"),
        ({"epochs": 1, "warmup_epochs": 2.0}, "warmup_epochs 2.0 is more than all epochs, 1"),
    ],
)
def test_a_recipe_that_cannot_be(wrong, told):
    with pytest.raises(ValueError, match=told):
        Recipe(**wrong)
