"""The checks of notebook 02 that take a function, on right and wrong answers."""

import math

import numpy as np
import pytest
import torch
from einops import repeat
from torch import nn

from vit_tutorial import check, sincos_position_embedding

from .variants import assert_not_attempted, assert_passes, assert_wrong, cell, listed, solved, stubs


def linear_with(weight, bias):
    """A linear layer with these numbers in it."""
    linear = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    with torch.no_grad():
        linear.weight.copy_(weight)
        if bias is not None:
            linear.bias.copy_(bias)
    return linear


def by_parameters(conv):
    linear = nn.Linear(math.prod(conv.weight.shape[1:]), conv.out_channels)
    linear.weight = nn.Parameter(conv.weight.detach().reshape(conv.out_channels, -1))
    linear.bias = conv.bias
    return linear


def by_data(conv):
    linear = nn.Linear(conv.in_channels * conv.kernel_size[0] * conv.kernel_size[1], conv.out_channels)
    linear.weight.data = conv.weight.data.flatten(1).clone()
    linear.bias.data = torch.zeros(conv.out_channels) if conv.bias is None else conv.bias.data.clone()
    return linear


def by_state(conv):
    linear = nn.Linear(conv.weight[0].numel(), conv.out_channels, bias=conv.bias is not None)
    linear.load_state_dict({name: p.flatten(1) if p.ndim == 4 else p for name, p in conv.state_dict().items()})
    return linear


def bias_taken_for_granted(conv):
    linear = nn.Linear(conv.weight[0].numel(), conv.out_channels)
    with torch.no_grad():
        linear.weight.copy_(conv.weight.flatten(1))
        linear.bias.copy_(conv.bias)
    return linear


def bias_left_over(conv):
    return bias_taken_for_granted(conv) if conv.bias is not None else linear_with(conv.weight.flatten(1), torch.ones(4))


def turned(conv):
    linear = by_parameters(conv)
    linear.weight = nn.Parameter(linear.weight.T.contiguous())
    return linear


def out_of_place(conv):
    D = conv.out_channels
    return linear_with(conv.weight.reshape(-1, D).T, conv.bias)


def clears_the_convolution(conv):
    linear = by_data(conv)
    nn.init.zeros_(conv.weight)
    return linear


def written_in(conv):
    linear = nn.Linear(12, 5)
    linear.load_state_dict(by_data(conv).state_dict())
    return linear


def permuted(*axes):
    return lambda conv: linear_with(conv.weight.permute(axes).flatten(1), conv.bias)


def per_channel(fill):
    def mine(conv):
        linear = nn.Linear(conv.kernel_size[0] ** 2, conv.out_channels, bias=False)
        fill(linear, conv.weight.detach().flatten(1))
        return linear

    return mine


def filled(patches, token):
    out = patches.new_empty(len(patches), 1 + patches.shape[1], patches.shape[2])
    out[:, 0], out[:, 1:] = token[0, 0], patches
    return out


def expanded(x, token):
    return token.expand(len(x), -1, -1)


def join(*tokens):
    return torch.cat(tokens, dim=1)


def by_numpy(grid, dim):
    out = np.zeros((grid[0] * grid[1], dim), dtype=np.float32)
    quarter = dim // 4
    for n in range(len(out)):
        for i in range(quarter):
            for half, index in enumerate(divmod(n, grid[1])):
                angle = index / 10000 ** (i / quarter)
                out[n, half * 2 * quarter + i] = math.sin(angle)
                out[n, half * 2 * quarter + quarter + i] = math.cos(angle)
    return torch.from_numpy(out)


def by_meshgrid(grid, dim):
    y, x = torch.meshgrid(torch.arange(grid[0]), torch.arange(grid[1]), indexing="ij")
    omega = torch.exp(-math.log(10000) * torch.arange(0, dim // 2, 2) / (dim // 2))
    y, x = y.flatten()[:, None] * omega, x.flatten()[:, None] * omega
    return torch.cat((y.sin(), y.cos(), x.sin(), x.cos()), 1)


def put_together(rows, columns):
    """Right codes, D/2 numbers each, spread over the patches by these two functions."""

    def mine(grid, dim):
        (h, w), code = grid, sincos_position_embedding(grid, dim)
        return torch.cat([rows(code[::w, : dim // 2], w), columns(code[:w, dim // 2 :], h)], dim=1)

    return mine


def whole_list(codes, times):
    return codes.repeat(times, 1)


def each_entry(codes, times):
    return codes.repeat_interleave(times, dim=0)


def sincos(
    layout="row.sin row.cos column.sin column.cos", indexing="ij", start=0, frequencies=lambda i, q: 10000 ** -(i / q)
):
    """Sin-cos positions as people write them, with one thing wrong."""

    def mine(grid, dim):
        row, column = torch.meshgrid(*(torch.arange(side) + start for side in grid), indexing=indexing)
        q = dim // 4
        omega = frequencies(torch.arange(q), q)
        angles = {"row": row.reshape(-1, 1) * omega, "column": column.reshape(-1, 1) * omega}
        return torch.cat([getattr(angles[p.split(".")[0]], p.split(".")[1])() for p in layout.split()], dim=1)

    return mine


def alternating(grid, dim):
    right = sincos_position_embedding(grid, dim).unflatten(1, (2, 2, dim // 4))
    return right.transpose(2, 3).flatten(1)


def as_for_text(grid, dim):
    out, n = torch.zeros(math.prod(grid), dim), torch.arange(math.prod(grid))[:, None]
    omega = 10000 ** -(torch.arange(0, dim, 2) / dim)
    out[:, 0::2], out[:, 1::2] = (n * omega).sin(), (n * omega).cos()
    return out


def added(grid, dim):
    code = [sincos_position_embedding((side, 1), 2 * dim)[:, :dim] for side in grid]
    return (code[0][:, None] + code[1]).flatten(0, 1)


def waves(count, dim):
    """The codes of notebook 02: (count, dim)."""
    return sincos_position_embedding((count, 1), 2 * dim)[:, :dim]


def placed(grid, dim, together):
    h, w = grid
    return together([waves(h, dim).repeat_interleave(w, 0), waves(w, dim).repeat(h, 1)])


RIGHT = {
    check.linear_is_conv: {
        "solution": solved(check.linear_is_conv),
        "copy_": lambda conv: linear_with(conv.weight.flatten(1), conv.bias),
        "nn.Parameter": by_parameters,
        ".data": by_data,
        "state dict": by_state,
    },
    check.class_token: {
        "solution": solved(check.class_token),
        "expand": lambda x, token: torch.cat((token.expand(x.shape[0], -1, -1), x), 1),
        "repeat": lambda x, token: torch.cat([token.repeat(len(x), 1, 1), x], dim=1),
        "expand to the shape": lambda x, token: torch.cat([token.expand(len(x), 1, x.size(-1)), x], dim=-2),
        "einops": lambda x, token: torch.cat([repeat(token, "1 1 d -> b 1 d", b=len(x)), x], dim=1),
        "filled": filled,
        "hstack": lambda x, token: torch.hstack([token.tile(len(x), 1, 1), x]),
        "ones": lambda x, token: torch.cat([token * torch.ones(len(x), 1, 1), x], dim=1),
    },
    check.sincos: {
        "the package's": sincos_position_embedding,
        "solution": solved(check.sincos),
        "numpy": by_numpy,
        "meshgrid": by_meshgrid,
        "waves": put_together(each_entry, whole_list),
        "waves of the notebook": lambda grid, dim: placed(grid, dim // 2, lambda parts: torch.cat(parts, 1)),
    },
}


@pytest.mark.parametrize(("exercise", "answer"), listed(RIGHT))
def test_right_answers_pass(exercise, answer):
    assert assert_passes(exercise, answer).message == ""


PER_CHANNEL = "the P·P values of one channel"
ONE_EACH = "one class token for each of the B images"

WRONG = {
    check.linear_is_conv: [
        (lambda conv: nn.Linear(conv.weight[0].numel(), conv.out_channels), "its own random ones"),
        (lambda conv: linear_with(conv.weight.flatten(1), None), "the bias is missing"),
        (lambda conv: linear_with(conv.weight.flatten(1), 0 * conv.bias), "the bias is missing"),
        (lambda conv: linear_with(conv.weight.flatten(1), torch.rand_like(conv.bias)), "is it still the"),
        (permuted(0, 2, 3, 1), "flattened as (row, column, channel)"),
        (permuted(0, 1, 3, 2), "flattened as (channel, column, row)"),
        (lambda conv: linear_with(conv.weight.flatten(1).T, None), "In and out are exchanged"),
        (bias_taken_for_granted, "Right for a convolution with a bias. This one has none"),
        (bias_left_over, "Your layer adds one all the same"),
        (turned, "The weight is transposed, (12, 5)"),
        (out_of_place, "`reshape` and `.T` mix up the kernels"),
        (lambda conv: linear_with(conv.weight.flip(2, 3).flatten(1), conv.bias), "in other places"),
        (lambda conv: conv, "what came back is of type Conv2d"),
        (lambda conv: linear_with(conv.weight[:, 0].flatten(1), conv.bias), "layer goes from 4 to 5"),
        (written_in, "size mismatch for weight"),
        (clears_the_convolution, "changes the convolution's own weights"),
        (per_channel(lambda linear, weight: None), "your layer goes from 4 to 5"),
        (per_channel(lambda linear, weight: linear.weight.data.copy_(weight)), PER_CHANNEL),
        (per_channel(lambda linear, weight: linear.load_state_dict({"weight": weight})), PER_CHANNEL),
    ],
    check.class_token: [
        (lambda x, t: join(x, expanded(x, t)), "Your class token comes last"),
        (lambda x, t: x + t, "You add the class token to every patch"),
        (lambda x, t: join(expanded(x, t), x[:, 1:]), "the place of the first patch"),
        (lambda x, t: join(expanded(x, t), x[:, :-1]), "The last patch is lost"),
        (lambda x, t: join(expanded(x, torch.zeros(1, 1, x.shape[2])), x), "made inside the function"),
        (lambda x, t: join(x.mean(1, keepdim=True), x), "the mean of the patches"),
        (lambda x, t: join(expanded(x, t), x, expanded(x, t)), "at both ends"),
        (lambda x, t: torch.cat([t.expand(1, x.shape[1], -1), x], 0), "`dim=0` counts images"),
        (lambda x, t: torch.cat([t.expand_as(x), x], 2), "`dim=2` counts the values in a token"),
        (lambda x, t: join(t.expand_as(x), x), "There are N class tokens"),
        (lambda x, t: join(t, x[:1]), "Only the first image is left"),
        (lambda x, t: join(expanded(x, t.detach()), x), "no gradient reaches the class token"),
        (lambda x, t: join(expanded(x, nn.Parameter(t)), x), "reaches the class token"),
        (lambda x, t: join(expanded(x, t), x.data), "no gradient reaches the patches"),
        (lambda x, t: join(expanded(x, t), x).float(), "of dtype torch.float64"),
        (lambda x, t: join(t.expand(3, -1, -1), x), "You put 3 class tokens in front"),
        (lambda x, t: join(torch.randn(len(x), 1, x.shape[2]), x), "made inside the function"),
        (lambda x, t: join(expanded(x, nn.Parameter(torch.randn(1, 1, x.shape[2]))), x), "made inside the function"),
        (lambda x, t: join(2 * expanded(x, t.detach()), x), "differs is at [0, 0, 0]"),
        (lambda x, t: join(expanded(x, t) + torch.rand(()), x), "something in your function is random"),
        (lambda x, t: join(t, x), ONE_EACH),
        (lambda x, t: torch.cat([t, x], 0), "`dim=0` counts images"),
        (lambda x, t: torch.cat([t, x], 2), "`dim=2` counts the values in a token"),
        (lambda x, t: torch.cat([expanded(x, t), x], 0), "`dim=0` counts images"),
        (lambda x, t: join(t.expand(32, -1, -1), x), "You put 32 class tokens in front"),
    ],
    check.sincos: [
        (sincos("column.sin column.cos row.sin row.cos"), "The halves are exchanged"),
        (sincos("row.cos row.sin column.cos column.sin"), "The cosines come before the sines"),
        (sincos("row.sin column.sin row.cos column.cos"), "All sines come first"),
        (sincos("row.sin row.cos row.sin row.cos"), "Both halves hold the row"),
        (sincos("column.sin column.cos column.sin column.cos"), "Both halves hold the column"),
        (sincos(indexing="xy"), "run down the columns of the grid"),
        (put_together(whole_list, whole_list), "Your rows run 0, 1, 2, 0, 1, 2"),
        (put_together(each_entry, each_entry), "Your columns stay the same for h patches"),
        (put_together(whole_list, each_entry), "run down the columns of the grid"),
        (added, "You add the row's code and the column's"),
        (sincos(start=1), "counted from 1"),
        (sincos(frequencies=lambda i, q: 10000 ** -(i / (q - 1))), "divide the exponent by D/4"),
        (sincos(frequencies=lambda i, q: 10000 ** (i / q)), "Your frequencies rise"),
        (sincos(frequencies=lambda i, q: 10000 ** -(2 * i / q)), "fall twice as fast"),
        (sincos(frequencies=lambda i, q: 10000 ** -(i / (2 * q))), "fall half as fast"),
        (sincos(frequencies=lambda i, q: torch.ones(q)), "All your frequencies are 1"),
        (alternating, "Sines and cosines alternate"),
        (as_for_text, "along one line"),
        (lambda grid, dim: torch.cat([torch.zeros(1, dim), sincos()(grid, dim)]), "One row too many"),
        (lambda grid, dim: sincos()(grid, dim).reshape(*grid, dim), "The grid is still there"),
        (lambda grid, dim: sincos_position_embedding(grid, dim)[None], "a batch axis in front"),
        (lambda grid, dim: sincos_position_embedding(grid, dim).double(), "of dtype torch.float32"),
        (sincos(frequencies=lambda i, q: 100 ** -(i / q)), "fall half as fast"),
        (sincos(frequencies=lambda i, q: 1000 ** -(i / q)), "right shape and wrong values"),
        (lambda grid, dim: sincos_position_embedding(grid[0], dim), "(15, 12) expected, got (9, 12)"),
        (lambda grid, dim: placed(grid, dim // 2, sum), "and so a vector has D/2 values"),
        (lambda grid, dim: placed(grid, dim, lambda parts: torch.cat(parts, 1)), "have 2·D values"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("exercise", "answer", "phrase"), listed(WRONG))
def test_wrong_answers_are_named(exercise, answer, phrase):
    assert_wrong(exercise, answer, phrase)


def test_an_error_shows_the_readers_line_then_what_it_means():
    not_expanded = cell("def mine(x, t):\n    return torch.cat([t, x], dim=1)")["mine"]
    for verdict, code, meaning in (
        (check.class_token(not_expanded), "return torch.cat([t, x], dim=1)", ONE_EACH),
        (check.linear_is_conv(bias_taken_for_granted), "linear.bias.copy_(conv.bias)", "Right for a convolution with"),
    ):
        first, *_, last = verdict.message.splitlines()
        assert first.startswith("Your code stops with an error in line")
        assert verdict.code == code
        assert meaning in last


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("linear_is_conv", "conv"), ("class_token", "patches, class_token"), ("sincos", "grid, dim")],
)
def test_untouched_stubs_are_not_attempted(name, parameters):
    for stub in stubs(parameters).values():
        assert_not_attempted(getattr(check, name), stub)
