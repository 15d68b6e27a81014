"""How large a step is, and which weights decay."""

import math

import pytest
import torch
from torch import nn

from vit_tutorial.config import POSITIONS
from vit_tutorial.training import parameter_groups, warmup_cosine
from vit_tutorial.training.optimizer import warmup_constant

from .toys import small_vit


def test_the_schedules_by_hand():
    up = [0.25, 0.5, 0.75, 1]
    down = [1, 0.5 + math.sqrt(0.125), 0.5, 0.5 - math.sqrt(0.125), 0]
    assert [warmup_cosine(step, 4, 8) for step in range(9)] == pytest.approx(up + down)
    assert [warmup_constant(step, 4, 8) for step in range(8)] == up + [1] * 4
    assert warmup_cosine(9, 10, 10) == warmup_cosine(10, 10, 10) == 1, "nothing but warm-up, and a step beyond it"
    assert warmup_cosine(0, 0, 10) == warmup_constant(0, 0, 8) == 1, "no warm-up: the first step is the largest"


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
    assert named_groups(cnn) == ({"0.weight", "4.weight"}, {"0.bias", "1.weight", "1.bias", "4.bias"})
    cnn[0].requires_grad_(False)
    assert named_groups(cnn) == ({"4.weight"}, {"1.weight", "1.bias", "4.bias"})


def test_lower_layers_take_smaller_steps():
    """A parameter beside the layers, in a model of one's own, learns at the rate of the head."""
    model = small_vit(depth=2)
    model.temperature = nn.Parameter(torch.ones(()))
    names = {parameter: name for name, parameter in model.named_parameters()}
    groups = parameter_groups(model, 0.05, layer_decay=0.5)
    scale = {names[p]: group["lr_scale"] for group in groups for p in group["params"]}
    assert sum(len(group["params"]) for group in groups) == len(scale) == len(names)
    parts = {"head": 1, "norm": 1, "temperature": 1, "encoder.1": 0.5, "encoder.0": 0.25, "embeddings": 0.125}
    for name, found in scale.items():
        assert found == next(expected for part, expected in parts.items() if name.startswith(part)), name
    decaying = {names[parameter] for group in groups if group["weight_decay"] for parameter in group["params"]}
    assert decaying == named_groups(model)[0], "which weights decay does not depend on the layer"


def test_layer_decay_needs_layers():
    with pytest.raises(ValueError, match="layer_decay needs embeddings and an encoder of blocks, Linear has not both"):
        parameter_groups(nn.Linear(2, 2), 0.05, layer_decay=0.5)
