"""Three linear layers in one: which of their rows are where."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import groupby

import torch
from torch import Tensor, nn

from .comparing import at_another_size
from .differences import difference, kind, same
from .running import call, unreadable
from .verdict import Wrong

SIZES = ((4,), (6,), (3,))  # D
ORDER = "q's rows first, then k's, then v's: `torch.cat([q, k, v])` of the weights, and the same of the biases."
BOTH = "`return weight, bias`, of (3·D, D) and (3·D,)."


def judge_fused(function: Callable) -> None:
    for number, (D,) in enumerate(SIZES):
        layers = [nn.Linear(D, D) for _ in "qkv"]
        before = [p.detach().clone() for layer in layers for p in layer.parameters()]
        result = call(function, *layers)
        after = [p for layer in layers for p in layer.parameters()]
        if not same(after, before, 0.0):
            raise Wrong("Your function changes the layers it is given: the result is a new tensor, or a new layer.")
        try:
            weight, bias = read(result, D)
            check_weight(weight, layers)
            check_bias(bias, layers)
        except Wrong as wrong:
            wrong.message = at_another_size(wrong.message, number, SIZES)
            raise


def read(result, D: int) -> tuple:
    """Weight and bias, be they in a pair, in a layer or under their names."""
    if isinstance(result, nn.Linear):
        result = (result.weight, result.bias)
    if isinstance(result, Mapping) and {"weight", "bias"} <= set(result):
        result = (result["weight"], result["bias"])
    if isinstance(result, Tensor):
        which = {(3 * D, D): "the weight, and the bias is missing", (3 * D,): "the bias, and the weight is missing"}
        only = which.get(tuple(result.shape), f"one tensor, of {tuple(result.shape)}")
        raise Wrong(f"Two tensors are asked for, weight and bias. This is {only}.", BOTH)
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        got = f"{len(result)} values" if isinstance(result, (tuple, list)) else kind(result)
        raise Wrong(f"Two tensors are asked for, weight and bias; got {got}.", BOTH)
    weight, bias = result
    for part in filter(torch.is_tensor, (weight, bias)):
        if text := unreadable(part):
            raise Wrong(f"The result {text}.", BOTH)
    if isinstance(weight, Tensor) and bias is None:
        raise Wrong("The bias is missing: q, k and v each have one.", BOTH)
    if isinstance(weight, Tensor) and isinstance(bias, Tensor) and (weight.ndim, bias.ndim) == (1, 2):
        raise Wrong("Weight and bias are exchanged: the weight comes first.", BOTH)
    return weight, bias


def check_weight(weight, layers: list[nn.Linear]) -> None:
    """Raise Wrong unless the rows of q, k and v are there, in this order."""
    matrices = [layer.weight.detach() for layer in layers]
    expected, D = torch.cat(matrices), len(matrices[0])
    if (found := difference(weight, expected, "(3·D, D)", 1e-6, "The weight")) is None:
        return
    if not isinstance(weight, Tensor):
        raise Wrong(found, BOTH)
    known = {
        "The weight is transposed, (D, 3·D): `nn.Linear` keeps it as (out, in).": expected.T,
        "The matrices stand side by side, (D, 3·D): that is a layer from 3·D numbers to D, which adds q, k and v up. "
        "One below the other they give 3·D numbers.": torch.cat(matrices, dim=1),
        "The matrices are stacked, (3, D, D). A layer's weight has two axes.": torch.stack(matrices),
        "The matrices are added up: what comes out is q + k + v.": sum(matrices),
        "The matrices are averaged: what comes out is the mean of q, k and v.": sum(matrices) / 3,
        "The matrices are multiplied: that is one layer after another.": torch.linalg.multi_dot(matrices[::-1]),
    }
    for message, mistake in known.items():
        if same(weight, mistake, 1e-6):
            raise Wrong(message, "`torch.cat([q.weight, k.weight, v.weight], dim=0)`: one below the other.")
    if weight.shape != expected.shape or same(weight, expected, 1e-6):
        raise Wrong(found, ORDER)
    if not weight.isfinite().all():
        raise Wrong("Not all numbers of the weight are finite: `torch.empty` holds what was in memory before.", ORDER)
    places = [place(row, matrices) for row in weight.detach()]
    if all(places):
        there = {name for name, _ in places}
        gone = " and ".join(f"{name}'s" for name in "qkv" if name not in there)
        start = f"None of {gone} rows is in the weight." if gone else "The rows of the weight are in another order."
        raise Wrong(f"{start} From the top: {runs(places)}.", ORDER)
    changed = [f"rows {i * D} to {i * D + D - 1} are {text}" for i, block in enumerate(weight.detach().chunk(3))
               if (text := alike(block, matrices))]  # fmt: skip
    if changed:
        raise Wrong(f"Not all matrices are there as they were: {', '.join(changed)}.", ORDER)
    if not any(places):
        raise Wrong(
            "None of the rows is q's, k's or v's: a new `nn.Linear` has random weights until others are copied in.",
            "Inside `with torch.no_grad():`, `layer.weight.copy_(...)` and `layer.bias.copy_(...)`; or "
            "`torch.cat([...])` of the weights, and of the biases.",
        )
    raise Wrong(found, ORDER)


def check_bias(bias, layers: list[nn.Linear]) -> None:
    """Raise Wrong unless the biases are there, in the weight's order."""
    vectors = [layer.bias.detach() for layer in layers]
    expected = torch.cat(vectors)
    if (found := difference(bias, expected, "(3·D,)", 1e-6, "The bias")) is None:
        return
    start = "The weight is right, the bias is not. "
    if not isinstance(bias, Tensor):
        raise Wrong(start + found, BOTH)
    if not bias.any():
        raise Wrong("The weight is right, and the bias is zero: q, k and v each have one.", ORDER)
    if same(bias, torch.stack(vectors), 1e-6):
        raise Wrong(start + "The three are stacked, (3, D). A layer's bias has one axis.", ORDER)
    if same(bias, sum(vectors), 1e-6):
        raise Wrong(start + "The three are added up, (D,): there is one number for each of the 3·D rows.", ORDER)
    if bias.shape == expected.shape and not same(bias, expected, 1e-6):
        places = [place(number, vectors) for number in bias.detach()]
        if all(places):
            raise Wrong(f"{start}Its numbers are in another order than the rows: {runs(places)}.", ORDER)
    raise Wrong(start + found, ORDER)


def place(row: Tensor, tensors: list[Tensor]) -> tuple[str, int] | None:
    """Whose row this is, and which."""
    return next(
        ((name, i) for name, tensor in zip("qkv", tensors, strict=True) for i in range(len(tensor))
         if same(row, tensor[i], 1e-6)), None,
    )  # fmt: skip


def runs(places: list[tuple[str, int]]) -> str:
    """ "q 0 to 3, v 0 to 3, k 0 to 3": rows that follow one another are told together, six such runs at most."""
    groups = groupby(enumerate(places), key=lambda numbered: (numbered[1][0], numbered[1][1] - numbered[0]))
    parts = []
    for (name, _), group in groups:
        rows = [row for _, (_, row) in group]
        parts.append(f"{name} {rows[0]}" + (f" to {rows[-1]}" if len(rows) > 1 else ""))
    return ", ".join(parts[:6]) + (", …" if len(parts) > 6 else "")


def alike(block: Tensor, matrices: list[Tensor]) -> str | None:
    """What these D rows are, if they are one of the matrices transposed or multiplied by a number, or zero."""
    if not block.any():
        return "zero"
    for name, matrix in zip("qkv", matrices, strict=True):
        factor = (block * matrix).sum() / matrix.square().sum()
        if same(block, matrix.T, 1e-6) and not same(block, matrix, 1e-6):
            return f"{name}'s, transposed"
        if same(block, factor * matrix, 1e-6) and not same(block, matrix, 1e-6):
            return f"{name}'s, multiplied by {factor:.3g}"
    return None
