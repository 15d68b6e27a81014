"""Attention's weights in a reader's module: every layout they may be in, read into the reference's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations, product
from typing import NamedTuple

import torch
from einops import rearrange
from torch import Tensor

from .modules import Inventory, Layer, paired
from .verdict import Wrong


class Weights(NamedTuple):
    """What attention learns, q, k and v head by head.

    `sliced`: a head sees only its own slice of a token; `shared`: all heads have the same q, k and v.
    """

    qkv: Tensor  # (3, D, D)
    bias: Tensor  # (3, D)
    out: Tensor | None  # (D, D)
    out_bias: Tensor | None  # (D,)
    heads: int
    sliced: bool = False
    shared: bool = False


class Layout(NamedTuple):
    """How to read the layers of a module: all but `out`, stacked, hold n = 3 times h heads times d rows, in `order`."""

    out: int | None  # counted in order of registration
    order: str = "n h d"
    roles: tuple[int, ...] = (0, 1, 2)  # where q, k and v stand
    columns: str = "h d"  # of the output projection
    last: bool = False  # a bare matrix is applied to its last axis, x @ W.T, not x @ W
    pair: str | None = None  # how one layer for two of q, k and v holds its n = 2 times h times d rows


ORDERS = ("n h d", "h n d", "h d n", "d h n", "n d h", "d n h")


def layouts(layers: Sequence[Layer], D: int, heads: int) -> Iterator[Layout]:
    """Every way in which these layers may hold attention's weights, the usual ones first."""
    sizes = {"n": 3, "h": heads, "d": D // heads}
    lasts = (False, True) if any(layer.raw for layer in layers) else (False,)
    for columns, order, out, last in product(("h d", "d h"), ORDERS, (-1, 0, 1, 2, None), lasts):
        count = len(layers) - (out is not None)
        outer = sizes[order[0]], sizes[order[0]] * sizes[order[2]]
        # Several layers follow one another along the outer axes: three for n = q, k, v, or one for each head, or both.
        if count in (1, *outer) and (out is None or out < count):
            for roles in permutations(range(3)):
                yield Layout(out, order, roles, columns, last)
        elif order == "n h d" and count == 2 and out is not None:  # one layer for q, say, and one for k and v
            for pair, roles in product(ORDERS, permutations(range(3))):
                yield Layout(out, order, roles, columns, last, pair)


def plain(ways: Sequence[Layout]) -> list[Layout]:
    """The usual ways: the mistakes are looked for in these only."""
    return [way for way in ways if way.columns == "h d" and way.order in ORDERS[:3]]


def attention_layers(parts: Inventory, embed_dim: int) -> list[Layer]:
    return [*parts.layers, *paired(parts.loose, 3 * embed_dim)]


def read(layers: Sequence[Layer], layout: Layout, D: int, heads: int) -> Weights | None:
    """The weights in the reference's layout, or None if these layers cannot be read so. Gradients pass through."""
    layers = list(layers)
    if len(layers) <= max(layout.out or 0, 0):
        return None
    out = layers.pop(layout.out) if layout.out is not None else None
    if not layers or (out is not None and out.weight.numel() != D * D):
        return None
    sliced = all(not layer.raw and layer.weight.shape[1] == D // heads for layer in layers)
    weight, bias = stacked(layers, D // heads if sliced else D, layout.last)
    shared = heads > 1 and len(weight) == 3 * (D // heads)
    if shared:  # one small matrix for all heads
        weight, bias = (rearrange(p, "(n d) ... -> n d ...", n=3) for p in (weight, bias))
        weight, bias = (p[:, None].expand(3, heads, *p.shape[1:]).flatten(0, 2) for p in (weight, bias))
    if len(weight) != 3 * D or len(bias) != 3 * D:
        return None
    if layout.pair is not None:
        weight, bias = (unpaired(p, len(layers[0].weight) == D, layout.pair, heads) for p in (weight, bias))
    roles = list(layout.roles)
    weight = rearrange(weight, f"({layout.order}) i -> n h d i", n=3, h=heads)[roles]
    bias = rearrange(bias, f"({layout.order}) -> n (h d)", n=3, h=heads)[roles]
    if sliced:  # each head's matrix in its own columns, zeros in the others
        weight = torch.einsum("nhdi,hg->nhdgi", weight, torch.eye(heads)).flatten(3)
    weight = weight.flatten(1, 2)
    if out is None:
        return Weights(weight, bias, None, None, heads, sliced, shared)
    square = Layer(out.name, out.weight.reshape(D, D), None, out.raw).rows(D, layout.last)
    square = rearrange(square, f"o ({layout.columns}) -> o (h d)", h=heads)
    return Weights(weight, bias, square, out.bias, heads, sliced, shared)


def stacked(layers: Sequence[Layer], in_size: int, last: bool) -> tuple[Tensor, Tensor]:
    """The matrices that take `in_size` numbers, one below the other, and their biases, zero where there is none."""
    rows, biases = [], []
    for layer in layers:
        matrix = layer.rows(in_size, last)
        rows.append(layer.weight.new_zeros(0, in_size) if matrix is None else matrix)
        biases.append(rows[-1].new_zeros(len(rows[-1])) if layer.bias is None else layer.bias.flatten())
    return torch.cat(rows), torch.cat(biases)


def unpaired(rows: Tensor, single_first: bool, pair: str, heads: int) -> Tensor:
    """The D rows of a layer of its own, and the 2·D of one for two of q, k and v brought into the order "n h d"."""
    double = slice(len(rows) // 3, None) if single_first else slice(None, -(len(rows) // 3))
    changed = rearrange(rows[double], f"({pair}) ... -> (n h d) ...", n=2, h=heads)
    return torch.cat([rows[: double.start], changed] if single_first else [changed, rows[double.stop :]])


def complain(w: Weights) -> None:
    """Raise Wrong for weights with which the values are right but which are not the paper's."""
    if w.sliced:
        raise Wrong(
            "The heads slice the input before projecting: a head's q, k and v see only d of the D numbers of a token.",
            "Project all D numbers first (`nn.Linear(embed_dim, embed_dim)`), then split the result into heads.",
        )
    if w.shared:
        raise Wrong(
            "All heads share one q, one k and one v of d numbers: they find the same, h times.",
            "Each head has its own: `nn.Linear(embed_dim, embed_dim)` makes D = h·d numbers, d for each head.",
        )
    if w.out is None:
        raise Wrong(
            "The output projection is missing: what the heads found is put side by side and never joined.",
            "One more `nn.Linear(embed_dim, embed_dim)` after the heads are merged (Eq. 8).",
        )
