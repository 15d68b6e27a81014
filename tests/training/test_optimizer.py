"""How large a step is, and which weights decay."""

import math

import pytest
from torch import nn

from vit_tutorial.config import POSITIONS
from vit_tutorial.training import Recipe, parameter_groups, warmup_cosine

from .toys import small_vit


def test_the_schedules_by_hand():
    up = [0.25, 0.5, 0.75, 1]
    down = [1, 0.5 + math.sqrt(0.125), 0.5, 0.5 - math.sqrt(0.125), 0]
    assert [warmup_cosine(step, 4, 8) for step in range(9)] == pytest.approx(up + down)
    constant = Recipe(epochs=8, learning_rate=2.0, warmup_epochs=4.0, schedule="constant")
    assert [constant.learning_rate_at(step, 1) for step in range(8)] == [2 * share for share in up + [1] * 4]
    assert warmup_cosine(9, 10, 10) == warmup_cosine(10, 10, 10) == 1, "nothing but warm-up, and a step beyond it"
    assert warmup_cosine(0, 0, 10) == 1, "no warm-up: the first step is the largest"


def named_groups(model: nn.Module) -> tuple[set[str], set[str]]:
    """The names of the weights that decay and of those that do not; each name once over both."""
    names = {parameter: name for name, parameter in model.named_parameters()}
    decaying, staying = parameter_groups(model, 0.05)
    assert (decaying["weight_decay"], staying["weight_decay"]) == (0.05, 0)
    found = [names[parameter] for group in (decaying, staying) for parameter in group["params"]]
    assert len(found) == len(set(found))
    return {names[p] for p in decaying["params"]}, {names[p] for p in staying["params"]}


@pytest.mark.parametrize("position", POSITIONS)
def test_of_a_vit_only_the_matrices_decay(position):
    decaying, staying = named_groups(small_vit(position=position, depth=1))
    layers = ["embeddings.patches.projection", "encoder.0.attention.qkv", "encoder.0.attention.projection"]
    layers += ["encoder.0.mlp.expand", "encoder.0.mlp.contract", "head"]
    assert decaying == {f"{layer}.weight" for layer in layers}
    positions = {"learned": {"table"}, "factorized": {"class_token", "rows", "columns"}}.get(position, set())
    norms = {f"{norm}.{kind}" for norm in ("encoder.0.norm1", "encoder.0.norm2", "norm") for kind in ("weight", "bias")}
    biases = {f"{layer}.bias" for layer in layers}
    tokens = {"embeddings.class_token", *(f"embeddings.position.{name}" for name in positions)}
    assert staying == norms | biases | tokens


def test_of_a_cnn_the_kernels_decay_too_and_frozen_weights_are_left_out():
    cnn = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(4, 2))
    cnn[0].requires_grad_(False)
    assert named_groups(cnn) == ({"4.weight"}, {"1.weight", "1.bias", "4.bias"})
    cnn[0].requires_grad_(True)
    assert named_groups(cnn) == ({"0.weight", "4.weight"}, {"0.bias", "1.weight", "1.bias", "4.bias"})
