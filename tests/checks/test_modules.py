"""Weights found by what they are: a reader's module at a small size."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from vit_tutorial.checks.comparing import Mistake, random_tensor
from vit_tutorial.checks.lesson_03_attention import ATTENTION_MISTAKES
from vit_tutorial.checks.lesson_04_encoder_block import MIXING_MISTAKES, STRUCTURE_MISTAKES
from vit_tutorial.checks.lesson_05_vision_transformer import LOUD_MISTAKES, SILENT_MISTAKES
from vit_tutorial.checks.modules import Trial, find, inventory, paired, randomise, recognise_module
from vit_tutorial.checks.reading_weights import (
    ROW_ORDERS,
    BlockReading,
    layouts,
    read_attention,
    read_block,
    sort_layers,
)
from vit_tutorial.checks.references import attention, block, by_head, joined
from vit_tutorial.checks.running import Wrong

D, HEADS = 20, 5


class Mixed(nn.Module):
    """Some of everything."""

    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.zeros(1, 1, 6))
        self.attention = nn.MultiheadAttention(6, 2)
        self.norm = nn.LayerNorm(6, eps=1e-3)
        self.conv = nn.Conv2d(3, 6, 2)
        self.hand = HandNorm(6)
        self.table = nn.Embedding(4, 6)


class HandNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.beta, self.gamma = nn.Parameter(torch.zeros(dim)), nn.Parameter(torch.ones(dim))


def test_an_inventory_sorts_parameters_by_what_they_are():
    module = Mixed()
    randomise(module)
    parts = inventory(module)
    assert [layer.name for layer in parts.layers] == [
        "attention.in_proj_weight",
        "attention.out_proj.weight",
        "conv.weight",
    ]
    assert parts.layers[2].sizes == (6, 12)  # a row for each output, as in a linear layer
    assert [name for name, _ in parts.loose] == ["token", "table.weight"]
    assert [norm.eps for norm in parts.norms] == [1e-3, None]
    assert parts.norms[1].weight is module.hand.gamma  # found by its numbers around 1, though registered second
    assert parts.norms[1].bias is module.hand.beta


def test_vectors_pair_up_as_norms_only_if_they_can():
    module = nn.ParameterDict({"g1": torch.ones(6), "g2": torch.ones(6), "b1": torch.zeros(6), "b2": torch.zeros(6)})
    randomise(module)
    parts = inventory(module)
    assert [
        (norm.weight is module[f"g{i}"], norm.bias is module[f"b{i}"]) for i, norm in enumerate(parts.norms, 1)
    ] == [
        (True, True),
        (True, True),
    ]
    assert parts.loose == []
    del module["b2"]
    assert inventory(module).norms == []


def test_random_weights_leave_nothing_at_its_start_and_are_the_same_each_time():
    first, second = Mixed(), Mixed()
    randomise(first)
    randomise(second)
    for (name, p), q in zip(first.named_parameters(), second.parameters(), strict=True):
        assert p.equal(q), name
        assert p.std() > 0.1, name
    assert first.norm.weight.mean() > 0.5 > first.norm.bias.mean()


def test_bare_parameters_pair_up_in_order():
    p = {
        name: nn.Parameter(torch.randn(shape)) for name, shape in {"w1": (4, 8), "w2": (8, 4), "b1": 8, "b2": 4}.items()
    }
    assert [layer.bias.shape[0] for layer in paired(list(p.items()), 8)] == [8, 4]
    del p["b1"]
    assert [layer.bias is None for layer in paired(list(p.items()), 8)] == [True, False]  # the output's remains
    first, second = paired(list(p.items()), 8)
    assert first.rows(4).shape == (8, 4)
    assert second.rows(8).shape == (4, 8)


def fused(order):
    """The parts of a module with q, k and v in one layer, their rows in this order, and what it computes."""
    module = nn.Sequential(nn.Linear(D, 3 * D), nn.Linear(D, D))
    randomise(module)
    sizes = {"n": 3, "h": HEADS, "d": D // HEADS}
    axes = order.split()

    def forward(x):
        qkv = module[0](x).unflatten(-1, [sizes[axis] for axis in axes])
        q, k, v = qkv.permute(2 + axes.index("n"), 0, 2 + axes.index("h"), 1, 2 + axes.index("d"))
        return module[1](joined(F.scaled_dot_product_attention(q, k, v)))

    return inventory(module).layers, forward


@pytest.mark.parametrize("order", ROW_ORDERS)
def test_every_order_of_a_fused_layer_is_read(order):
    layers, forward = fused(order)
    x = random_tensor(2, 7, D)
    fitting = [
        layout
        for layout in layouts(layers, D, HEADS)
        if (w := read_attention(layers, layout, D, HEADS)) and torch.allclose(attention(w, x), forward(x), atol=1e-5)
    ]
    assert [layout.order for layout in fitting] == [order]
    assert fitting[0].roles == (0, 1, 2)


def test_gradients_pass_through_a_reading():
    layers, _ = fused("h d n")
    layout = next(layout for layout in layouts(layers, D, HEADS) if layout.order == "h d n")
    attention(read_attention(layers, layout, D, HEADS), random_tensor(2, 7, D)).square().sum().backward()
    assert all(layer.weight.grad.abs().sum() > 0 for layer in layers)


def test_the_layers_of_an_mlp_are_told_from_those_of_attention():
    layers = inventory(nn.Sequential(*(nn.Linear(a, b) for a, b in [(D, D), (33, D), (D, 3 * D), (D, 33)]))).layers
    parts = sort_layers(layers, [], D, HEADS)
    assert [layer.sizes for layer in (*parts.expand, *parts.contract)] == [(33, D), (D, 33)]
    assert [layer.sizes for layer in parts.attention] == [(D, D), (3 * D, D)]


class Linear(nn.Linear):
    """A right answer to `cls(3, 4)`: one linear layer."""


def trial():
    return Trial(Linear, (3, 4), random_tensor(2, 5, 3), (2, 5, 4), "(B, T, K)", "3 and 4")


def read_linear(trial, reading):
    _, weight, bias, _ = trial.parts.layers[0]
    return None if reading == "unreadable" else (weight * reading, bias * reading)


def linear(w, x):
    return F.linear(x, *w)


def test_the_reading_that_fits_is_found():
    assert find(trial(), linear, ["unreadable", 2.0, 1.0], read_linear) == 1.0
    assert find(trial(), linear, ["unreadable", 2.0], read_linear) is None


def test_a_mistake_is_recognised_only_if_it_gives_the_readers_result():
    halved = Mistake(lambda w, x: linear(w, x) / 2, "Half is missing.")
    impossible = Mistake(lambda w, x: x @ torch.ones(7, 7), "Does not fit this size.")
    recognise_module(trial(), [impossible, halved], [1.0], read_linear)  # says nothing
    with pytest.raises(Wrong, match="Half is missing"):
        recognise_module(trial(), [impossible, halved], [2.0], read_linear)


def test_silenced_parameters_come_back():
    first = trial()
    before = first.out.clone()
    with first.silenced([first.module.weight]):
        assert first.out.equal(first.module.bias.expand(2, 5, 4))
    assert first.out.equal(before)
    assert first.run().equal(before)


@pytest.mark.parametrize(
    "mistakes", [ATTENTION_MISTAKES, STRUCTURE_MISTAKES, MIXING_MISTAKES, SILENT_MISTAKES, LOUD_MISTAKES]
)
def test_every_mistake_has_its_own_words(mistakes):
    messages = [mistake.message for mistake in mistakes]
    assert len(set(messages)) == len(messages)


def block_weights():
    module = nn.Sequential(
        nn.LayerNorm(D), nn.Linear(D, 3 * D), nn.Linear(D, D), nn.LayerNorm(D), nn.Linear(D, 33), nn.Linear(33, D)
    )
    randomise(module)
    parts = inventory(module)
    blocks = sort_layers(parts.layers, parts.norms, D, HEADS)
    return read_block(blocks, BlockReading((0, 1), next(iter(layouts(blocks.attention, D, HEADS)))), D, HEADS)


def results(mistakes, right, w, x):
    with torch.no_grad():
        return {"right": right(w, x), **{m.message: m.function(w, x) for m in mistakes}}


@pytest.mark.parametrize(
    ("mistakes", "right", "attribute"), [(ATTENTION_MISTAKES, attention, "attention"), (MIXING_MISTAKES, block, None)]
)
def test_no_two_mistakes_give_the_same_result(mistakes, right, attribute):
    """Each is named for certain: at the checks' sizes no mistake does what the reference or another mistake does."""
    w = block_weights()
    w = w if attribute is None else getattr(w, attribute)
    fixed = ("head here", "heads here", "√4")  # a number written into the code is right at some size
    mistakes = [m for m in mistakes if not any(words in m.message for words in fixed)]
    found = list(results(mistakes, right, w, 0.05 * random_tensor(2, 7, D)).items())
    for i, (one, a) in enumerate(found):
        for two, b in found[i + 1 :]:
            assert not (a.shape == b.shape and torch.allclose(a, b, rtol=1e-4, atol=1e-5)), (one, two)


def test_by_head_and_joined_undo_each_other():
    x = random_tensor(2, 7, D)
    assert joined(by_head(x, HEADS)).equal(x)
    assert by_head(x, HEADS)[1, 3, 4].equal(x[1, 4, 12:16])  # image 1, head 3, token 4
