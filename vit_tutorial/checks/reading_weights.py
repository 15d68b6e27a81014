"""Read the weights of a reader's module as the references take them: attention's, a block's, Eq. 1's and a model's.

`Parts` are a module's layers and parameters, sorted by what their sizes allow them to be. A `Reading` is one way in
which they may hold the weights; `modules.Trial.find` tries them all. Names are never looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, permutations, product
from typing import NamedTuple

import torch
from einops import rearrange
from torch import Tensor

from ..config import ViTConfig
from . import references as ref
from .modules import Inventory, paired
from .references import Layer, Norm
from .running import Problem

EPS = "The paper's code has eps = 1e-6: `nn.LayerNorm(embed_dim, eps=1e-6)`."


class Layout(NamedTuple):
    """How layers hold attention: all but `out`, stacked, have n = 3 times h heads times d rows, in `order`.

    Of two layers, one for two of q, k and v, each has its own rows in this order.
    """

    out: int | None  # counted in order of registration
    order: str = "n h d"
    roles: tuple[int, ...] = (0, 1, 2)  # where q, k and v stand
    columns: str = "h d"  # of the output projection
    last: bool = False  # a bare matrix is applied to its last axis, x @ W.T, not x @ W

    @property
    def usual(self) -> bool:
        """The mistakes are looked for in the usual layouts only."""
        return self.columns == "h d" and self.order in ROW_ORDERS[:3]


class Reading(NamedTuple):
    """One way to read a block's parts, a model's, or those of Eq. 1."""

    norms: tuple[int, int] = (0, 1)  # which norm of a block comes first
    final: int = -1  # where the final norm is registered
    layout: Layout | None = None  # attention's; None: attention is silenced
    order: str = ref.OURS  # of the values in a patch
    vectors: tuple[int, ...] = (0,)  # which vector is the class token, which its position, which a bare bias


ROW_ORDERS = ("n h d", "h n d", "h d n", "d h n", "n d h", "d n h")


class Parts(NamedTuple):
    """The parts of a block, of several one after another, or of a model, which has all of these."""

    norms: list[Norm]
    expand: list[Layer]
    contract: list[Layer]
    attention: list[Layer]
    patch: Sequence[Layer] = ()
    head: Sequence[Layer] = ()
    vectors: Sequence[Tensor] = ()  # the class token, and its position if that is not in the table
    tables: Sequence[Tensor] = ()  # the positions of all tokens, or of all but the class token

    def one(self, i: int, depth: int) -> Parts:
        """Return the parts of block i of `depth`: each kind of part is registered block by block."""
        return Parts(*(part[i * len(part) // depth : (i + 1) * len(part) // depth] for part in self[:4]))


def sort_layers(layers: Sequence[Layer], norms: list[Norm], D: int, heads: int) -> Parts:
    """Sort the layers of blocks: the MLP's second leads to D from another width, its first from D to that width."""
    contract = [layer for layer in layers if layer.sizes[0] == D and layer.sizes[1] not in (D, D // heads)]
    widths = {layer.sizes[1] for layer in contract}
    expand = [layer for layer in layers if layer.sizes[1] == D and layer.sizes[0] in widths]
    rest = [layer for layer in layers if not any(layer is other for other in (*contract, *expand))]
    return Parts(norms, expand, contract, rest)


def model_parts(found: Inventory, c: ViTConfig) -> Parts:
    loose = {kind: [] for kind in ("vector", "table", "patch table", "other")}
    for name, p in found.loose:
        loose.get(kind_of(p, c), loose["other"]).append((name, p))
    vectors, tables, patch_tables = ([p for _, p in loose[kind]] for kind in ("vector", "table", "patch table"))
    layers = [*found.layers, *paired(loose["other"], 3 * c.embed_dim)]
    ends = (c.embed_dim, c.patch_dim), (c.num_classes, c.embed_dim)
    blocks = sort_layers([layer for layer in layers if layer.sizes not in ends], found.norms, c.embed_dim, c.num_heads)
    patch, head = ([layer for layer in layers if layer.sizes == size] for size in ends)
    return blocks._replace(patch=patch, head=head, vectors=vectors, tables=tables or patch_tables)


def layouts(layers: Sequence[Layer], D: int, heads: int) -> Iterator[Layout]:
    """Yield every way in which these layers may hold attention's weights, the usual ones first."""
    sizes = {"n": 3, "h": heads, "d": D // heads}
    lasts = (False, True) if any(layer.raw for layer in layers) else (False,)
    for columns, order, out, last in product(("h d", "d h"), ROW_ORDERS, (-1, 0, 1, 2, None), lasts):
        count = len(layers) - (out is not None)
        outer = sizes[order[0]], sizes[order[0]] * sizes[order[2]]
        # Several layers follow one another along the outer axes: three for n = q, k, v, or one for each head, or both.
        # Of two, one is for q, say, and one for k and v.
        if count in (1, 2, *outer) and (out is None or out < count):
            yield from (Layout(out, order, roles, columns, last) for roles in permutations(range(3)))


def read_attention(layers: Sequence[Layer], layout: Layout, D: int, heads: int) -> ref.AttentionWeights | None:
    """Read attention's weights, or None if these layers cannot be read so. Gradients pass through."""
    layers = list(layers)
    if len(layers) <= max(layout.out or 0, 0):
        return None
    out = layers.pop(layout.out) if layout.out is not None else None
    if not layers or (out is not None and out.weight.numel() != D * D):
        return None
    sliced = all(not layer.raw and layer.weight.shape[1] == D // heads for layer in layers)
    in_size, order = D // heads if sliced else D, layout.order
    weights, biases = zip(*(rows_of(layer, in_size, layout.last) for layer in layers), strict=True)
    if {len(rows) for rows in (*weights, *biases)} == {D, 2 * D}:  # a layer for two of q, k and v
        sort = partial(rearrange, pattern=f"({order}) ... -> (n h d) ...", h=heads, d=D // heads)
        weights, biases, order = [*map(sort, weights)], [*map(sort, biases)], "n h d"
    weight, bias = torch.cat(weights), torch.cat(biases)
    shared = heads > 1 and len(weight) == 3 * (D // heads)
    if shared:  # one small matrix for all heads
        weight, bias = (rearrange(p, "(n d) ... -> n d ...", n=3) for p in (weight, bias))
        weight, bias = (p[:, None].expand(3, heads, *p.shape[1:]).flatten(0, 2) for p in (weight, bias))
    if len(weight) != 3 * D or len(bias) != 3 * D:
        return None
    roles = list(layout.roles)
    weight = rearrange(weight, f"({order}) i -> n h d i", n=3, h=heads)[roles]
    bias = rearrange(bias, f"({order}) -> n (h d)", n=3, h=heads)[roles]
    if sliced:  # each head's matrix in its own columns, zeros in the others
        weight = torch.einsum("nhdi,hg->nhdgi", weight, torch.eye(heads)).flatten(3)
    weight = weight.flatten(1, 2)
    if out is None:
        return ref.AttentionWeights(weight, bias, None, heads, sliced, shared)
    square = out._replace(weight=out.weight.reshape(D, D)).rows(D, layout.last)
    square = rearrange(square, f"o ({layout.columns}) -> o (h d)", h=heads)
    return ref.AttentionWeights(weight, bias, Layer(square, out.bias), heads, sliced, shared)


def rows_of(layer: Layer, in_size: int, last: bool) -> tuple[Tensor, Tensor]:
    """Return the matrix, without rows unless it takes `in_size` values, and its bias, zero if there is none."""
    rows = layer.rows(in_size, last)
    rows = layer.weight.new_zeros(0, in_size) if rows is None else rows
    return rows, rows.new_zeros(len(rows)) if layer.bias is None else layer.bias.flatten()


def read_mlp(first: Layer, second: Layer, D: int) -> ref.Mlp | None:
    """Read two layers as the MLP's, or None if their sizes do not fit."""
    expand = first.rows(D)
    contract = None if expand is None else second.rows(len(expand))
    if contract is None or len(contract) != D:
        return None
    layers = Layer(expand, first.bias), Layer(contract, second.bias)
    fit = all(layer.bias is None or len(layer.bias) == len(layer.weight) for layer in layers)
    return layers if fit else None


def read_block(parts: Parts, reading: Reading, D: int, heads: int) -> ref.BlockWeights | None:
    """Read the weights of one block, or None if its parts cannot be read so."""
    mlp = read_mlp(parts.expand[0], parts.contract[0], D) if parts.expand and parts.contract else None
    attention = reading.layout and read_attention(parts.attention, reading.layout, D, heads)
    if mlp is None or max(reading.norms) >= len(parts.norms) or (reading.layout and attention is None):
        return None
    return ref.BlockWeights(*(parts.norms[i] for i in reading.norms), mlp, attention)


def read_model(parts: Parts, reading: Reading, c: ViTConfig) -> ref.ModelWeights | None:
    """Read the weights of the whole model, or None if its parts cannot be read so."""
    norms = list(parts.norms)
    final = norms.pop(reading.final)
    blocks = parts._replace(norms=norms)
    blocks = [read_block(blocks.one(i, c.depth), reading, c.embed_dim, c.num_heads) for i in range(c.depth)]
    if None in blocks:
        return None
    (head,) = parts.head
    head = head._replace(weight=head.rows(c.embed_dim))
    return ref.ModelWeights(read_eq1(parts, reading, c), blocks, final, head)


# Eq. 1, alone and in the model ----------------------------------------------------------------------------------------


def bare_parameters(found: Inventory) -> list[Tensor]:
    """Return the parameters of no layer. `inventory` may have taken two vectors side by side for a norm."""
    vectors = [vector for norm in found.norms if norm.eps is None for vector in (norm.weight, norm.bias)]
    return [parameter for _, parameter in found.loose] + vectors


def kind_of(parameter: Tensor, c: ViTConfig) -> str:
    """Return what a bare parameter can be, by its sizes: "vector", "table", "patch table", "matrix" or ""."""
    D, sides = c.embed_dim, sorted(side for side in parameter.shape if side > 1)
    if sides == [D]:
        return "vector"
    kinds = {c.num_tokens * D: "table", c.num_patches * D: "patch table", c.patch_dim * D: "matrix"}
    return kinds.get(parameter.numel(), "") if D in sides else ""


def eq1_parts(found: Inventory, c: ViTConfig) -> Parts | None:
    """Sort the parameters of Eq. 1 alone; None if they are too few or too many for it."""
    bare = [(kind_of(p, c), p) for p in bare_parameters(found)]
    matrix = [Layer(as_rows(p, c.embed_dim).T) for kind, p in bare if kind == "matrix"]
    patch = matrix + [layer for layer in found.layers if kind_of(layer.weight, c) == "matrix"]
    tables = [p for kind, p in bare if kind in ("table", "patch table")]
    vectors = [p for kind, p in bare if kind == "vector"]
    needed = 1 + sum(kind == "patch table" for kind, _ in bare)
    norms = any(norm.eps is not None for norm in found.norms)
    complete = len(vectors) in (needed, needed + len(matrix)) and len(tables) == len(patch) == 1
    known = len(bare) == len(vectors) + len(tables) + len(matrix) and len(found.layers) + len(matrix) == 1
    return Parts([], [], [], [], patch, (), vectors, tables) if complete and known and not norms else None


def read_eq1(parts: Parts, reading: Reading, c: ViTConfig) -> ref.EmbeddingWeights:
    """Read the weights of Eq. 1. Gradients pass through."""
    (patch,), (table,), vectors = parts.patch, parts.tables, [parts.vectors[i] for i in reading.vectors]
    patch = patch._replace(weight=patch.rows(c.patch_dim))
    if len(vectors) > 1 + (kind_of(table, c) == "patch table"):
        patch = patch._replace(bias=vectors.pop().reshape(-1))
    position = torch.cat([as_rows(p, c.embed_dim) for p in (*vectors[1:], table)])
    return ref.EmbeddingWeights(c, reading.order, patch, vectors[0].reshape(-1), position)


def as_rows(parameter: Tensor, D: int) -> Tensor:
    """Turn a table so that its vectors of D values are rows, whichever axis they lie along."""
    axis = max(axis for axis, side in enumerate(parameter.shape) if side == D)
    return parameter.movedim(axis, -1).reshape(-1, D)


# What is said of right values from odd weights ------------------------------------------------------------------------


def attention_problems(w: ref.AttentionWeights) -> list[Problem]:
    return [
        (w.sliced, "The heads slice the input before projecting: a head's q, k and v see only d of the D numbers of a "
         "token.", "Project all D numbers first (`nn.Linear(embed_dim, embed_dim)`), then split the result into "
         "heads."),
        (w.shared, "All heads share one q, one k and one v of d numbers: they find the same, h times.",
         "Each head has its own: `nn.Linear(embed_dim, embed_dim)` makes D = h·d numbers, d for each head."),
        (w.out is None, "The output projection is missing: what the heads found is put side by side and never joined.",
         "One more `nn.Linear(embed_dim, embed_dim)` after the heads are merged (Eq. 8)."),
    ]  # fmt: skip


def block_problems(w: ref.BlockWeights) -> list[Problem]:
    shared = "One LayerNorm stands at both places: its weight and bias must serve two inputs."
    two = "Two objects: `self.norm1 = nn.LayerNorm(...)` and `self.norm2 = nn.LayerNorm(...)`."
    return [*attention_problems(w.attention), (w.norm1 is w.norm2, shared, two), *map(eps_problem, (w.norm1, w.norm2))]


def model_problems(w: ref.ModelWeights) -> list[Problem]:
    return [*chain(*map(block_problems, w.blocks)), eps_problem(w.norm)]


def eps_problem(norm: Norm) -> Problem:
    default = ", PyTorch's default" if norm.eps == 1e-5 else ""
    message = f"All is right but one number: the eps of your LayerNorm is {norm.eps or 0:g}{default}."
    return norm.eps not in (None, ref.PAPER_EPS), message, EPS


def hidden_problem(hidden: int, asked: int, D: int) -> Problem:
    """Return what is wrong if the MLP's hidden layer has another width than `mlp_dim`."""
    factor = f", {hidden // D} times embed_dim" if hidden % D == 0 else ""
    message = f"The hidden layer of the MLP has {hidden} values{factor}; mlp_dim = {asked} was asked."
    return hidden != asked, message, "`nn.Linear(embed_dim, mlp_dim)`, then `nn.Linear(mlp_dim, embed_dim)`."
