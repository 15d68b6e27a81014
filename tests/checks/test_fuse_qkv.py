"""The check of notebook 09 on three layers in one, on right and wrong answers."""

import pytest
import torch
from einops import rearrange
from torch import nn

from vit_tutorial import check

from .variants import assert_not_attempted, assert_passes, assert_wrong, cell, solved, stubs


def cat(*tensors):
    return torch.cat(tensors)


def new_layer(q, k, v):
    layer = nn.Linear(q.in_features, 3 * q.out_features)
    layer.weight.data, layer.bias.data = cat(q.weight, k.weight, v.weight).data, cat(q.bias, k.bias, v.bias).data
    return layer


def filled_in_place(q, k, v):
    D = len(q.bias)
    weight, bias = torch.empty(3 * D, D), torch.empty(3 * D)
    with torch.no_grad():
        for i, layer in enumerate((q, k, v)):
            weight[i * D : (i + 1) * D], bias[i * D : (i + 1) * D] = layer.weight, layer.bias
    return weight, bias


def by_probing(q, k, v):
    """The bias is what comes out for nothing, the columns what comes out for the unit vectors."""
    D = q.in_features
    bias = cat(*(layer(torch.zeros(D)) for layer in (q, k, v)))
    return cat(*(layer(torch.eye(D)).T for layer in (q, k, v))) - bias[:, None], bias


RIGHT = {
    "solution": solved(check.fuse_qkv),
    "layer": new_layer,
    "in place": filled_in_place,
    "vstack": lambda q, k, v: [torch.vstack([q.weight, k.weight, v.weight]), torch.hstack([q.bias, k.bias, v.bias])],
    "stack and flatten": lambda *qkv: tuple(torch.stack([getattr(x, n) for x in qkv]).flatten(0, 1)
                                            for n in ("weight", "bias")),
    "einops": lambda *qkv: (rearrange([x.weight for x in qkv], "n o i -> (n o) i"), cat(*(x.bias for x in qkv))),
    "state dict": lambda *qkv: {n: cat(*(x.state_dict()[n] for x in qkv)) for n in ("weight", "bias")},
    "parameters": lambda *qkv: tuple(nn.Parameter(cat(*p)) for p in zip(*(x.parameters() for x in qkv), strict=True)),
    "probing": by_probing,
}  # fmt: skip


@pytest.mark.parametrize("mine", RIGHT.values(), ids=RIGHT)
def test_right_answers_pass(mine):
    assert assert_passes(check.fuse_qkv, mine).message == ""


def weights(change):
    """`change(three matrices)` as the weight, the bias as it should be."""
    return lambda *qkv: (change(*(x.weight for x in qkv)), cat(*(x.bias for x in qkv)))


def biases(change):
    return lambda *qkv: (cat(*(x.weight for x in qkv)), change(*(x.bias for x in qkv)))


def both(change):
    return lambda *qkv: tuple(change(*p) for p in zip(*(x.parameters() for x in qkv), strict=True))


def by_heads(*parts):
    """Two heads where D is even: a head's q, k and v stand together."""
    return rearrange(list(parts), "n (h d) ... -> (h n d) ...", h=2 if len(parts[0]) % 2 == 0 else 1)


def writes(q, k, v):
    q.weight.data = cat(q.weight, k.weight, v.weight).data
    return q.weight, cat(q.bias, k.bias, v.bias)


def scaled(q, k, v):
    return cat(q * 0.5, k, v)


def keeps(*qkv, kept=[]):  # noqa: B006
    kept.append(both(cat)(*qkv))
    return kept[0]


WRONG = {
    "k q v": (both(lambda q, k, v: cat(k, q, v)), "another order. From the top: k 0 to 3, q 0 to 3, v 0 to 3."),
    "v k q": (both(lambda q, k, v: cat(v, k, q)), "From the top: v 0 to 3, k 0 to 3, q 0 to 3."),
    "q twice": (both(lambda q, k, v: cat(q, q, v)), "None of k's rows is in the weight. From the top: q 0 to 3"),
    "q only": (both(lambda q, k, v: cat(q, q, q)), "None of k's and v's rows is in the weight."),
    "by heads": (both(by_heads), "From the top: q 0 to 1, k 0 to 1, v 0 to 1, q 2 to 3, k 2 to 3, v 2 to 3."),
    "row by row": (both(lambda *p: torch.stack(p, 1).flatten(0, 1)), "From the top: q 0, k 0, v 0, q 1, k 1, v 1, …"),
    "dim 1": (weights(lambda *p: torch.cat(p, 1)), "The matrices stand side by side, (D, 3·D)"),
    "transposed": (weights(lambda *p: cat(*p).T), "The weight is transposed, (D, 3·D)"),
    "each transposed": (weights(lambda *p: cat(*(x.T for x in p))), "rows 0 to 3 are q's, transposed, rows 4 to 7"),
    "dim 1, transposed": (weights(lambda *p: torch.cat(p, 1).T), "rows 0 to 3 are q's, transposed"),
    "regrouped": (weights(lambda *p: cat(*p).reshape(len(p[0]), -1)), "(12, 4) expected, got (4, 12)"),
    "stacked": (both(lambda *p: torch.stack(p)), "The matrices are stacked, (3, D, D)"),
    "added": (both(lambda q, k, v: q + k + v), "The matrices are added up"),
    "mean": (both(lambda *p: torch.stack(p).mean(0)), "The matrices are averaged"),
    "multiplied": (weights(lambda q, k, v: v @ k @ q), "one layer after another"),
    "scaled": (weights(scaled), "rows 0 to 3 are q's, multiplied by 0.5"),
    "zero v": (weights(lambda q, k, v: cat(q, k, 0 * v)), "rows 8 to 11 are zero"),
    "only q and k": (both(lambda q, k, v: cat(q, k)), "The weight has the wrong shape: (3·D, D) = (12, 4) expected"),
    "no bias": (lambda *qkv: cat(*(x.weight for x in qkv)), "This is the weight, and the bias is missing"),
    "no weight": (lambda *qkv: cat(*(x.bias for x in qkv)), "This is the bias, and the weight is missing"),
    "None": (biases(lambda *p: None), "The bias is missing"),
    "layer without bias": (lambda q, k, v: nn.Linear(4, 12, bias=False), "The bias is missing"),
    "zero bias": (biases(lambda *p: torch.zeros_like(cat(*p))), "The weight is right, and the bias is zero"),
    "q's bias": (biases(lambda *p: p[0]), "The weight is right, the bias is not. The bias has the wrong shape"),
    "bias stacked": (biases(lambda *p: torch.stack(p)), "The three are stacked, (3, D)"),
    "bias added": (biases(lambda *p: sum(p)), "The three are added up"),
    "bias column": (biases(lambda *p: cat(*p)[:, None]), "The bias has the wrong shape"),
    "bias in another order": (biases(lambda q, k, v: cat(k, q, v)), "another order than the rows: k 0 to 3, q 0 to 3"),
    "bias row by row": (biases(lambda *p: torch.stack(p, 1).flatten()), "another order than the rows: q 0, k 0, v 0"),
    "exchanged": (lambda *qkv: both(cat)(*qkv)[::-1], "Weight and bias are exchanged"),
    "three": (lambda *qkv: [x.weight for x in qkv], "Two tensors are asked for, weight and bias; got 3 values"),
    "pairs": (lambda *qkv: nn.ModuleList(qkv), "weight and bias; got a value of type ModuleList"),
    "new layer": (lambda q, k, v: nn.Linear(q.in_features, 3 * q.out_features), "None of the rows is q's, k's or v's"),
    "new weights": (lambda *p: tuple(nn.Linear(4, 12).parameters()), "None of the rows is q's, k's or v's"),
    "memory": (weights(lambda q, k, v: cat(q, k.new_full((8, 4), torch.nan))), "Not all numbers of the weight"),
    "layer turned": (lambda q, k, v: nn.Linear(3 * q.in_features, q.out_features), "(3·D, D) = (12, 4) expected"),
    "written in": (both(lambda *p: torch.stack(p).reshape(12, *p[0].shape[1:])), "Your code stops with an error"),
    "numpy": (weights(lambda *p: cat(*p).detach().numpy()), "The weight must be a tensor"),
    "double": (both(lambda *p: cat(*p).double()), "The weight must be of dtype torch.float32"),
    "writes": (writes, "changes the layers it is given"),
    "keeps": (keeps, "Right at the first size tried, wrong at another"),
    "crash": (lambda q, k, v: (torch.cat(q.weight, k.weight, v.weight), 0), "Your code stops with an error"),
}  # fmt: skip


@pytest.mark.parametrize(("mine", "phrase"), WRONG.values(), ids=WRONG)
def test_wrong_answers_are_told_what_is_wrong(mine, phrase):
    assert_wrong(check.fuse_qkv, mine, phrase)


@pytest.mark.parametrize("stub", stubs("q, k, v").items(), ids=lambda stub: stub[0])
def test_untouched(stub):
    assert_not_attempted(check.fuse_qkv, stub[1])


def test_a_crash_shows_the_readers_line():
    mine = cell("def mine(q, k, v):\n    return torch.cat([q, k, v]), torch.cat([q.bias, k.bias, v.bias])")["mine"]
    assert "return torch.cat([q, k, v])" in check.fuse_qkv(mine).code
