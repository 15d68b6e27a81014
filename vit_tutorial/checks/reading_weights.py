"""Read the weights of a reader's module as the references take them: attention's, a block's, Eq. 1's and a model's.

`Parts` are a module's layers and parameters, sorted by what their sizes allow them to be. A `Reading` is one way in
which they may hold the weights; `modules.Search` tries them all. Names are never looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations, product
from typing import NamedTuple

import torch
from einops import rearrange
from torch import Tensor

from . import references as ref
from .modules import LISTS, Inventory, Layer, Norm, Trial, paired
from .running import Wrong

EPS = "The paper's code has eps = 1e-6: `nn.LayerNorm(embed_dim, eps=1e-6)`."


class Layout(NamedTuple):
    """How layers hold attention: all but `out`, stacked, have n = 3 times h heads times d rows, in `order`."""

    out: int | None  # counted in order of registration
    order: str = "n h d"
    roles: tuple[int, ...] = (0, 1, 2)  # where q, k and v stand
    columns: str = "h d"  # of the output projection
    last: bool = False  # a bare matrix is applied to its last axis, x @ W.T, not x @ W
    pair: str | None = None  # how one layer for two of q, k and v holds its n = 2 times h times d rows


class Reading(NamedTuple):
    """One way to read a block's parts, a model's, or the bare parameters of Eq. 1."""

    norms: tuple[int, int] = (0, 1)  # which norm of a block comes first
    final: int = -1  # where the final norm is registered
    layout: Layout | None = None  # attention's; None: attention is silenced
    order: str = ref.OURS  # of the values in a patch
    roles: tuple[str, ...] = ()  # what each bare parameter is, in order of registration


NORM_ORDERS = ((0, 1), (1, 0), (0, 0), (1, 1))
ROW_ORDERS = ("n h d", "h n d", "h d n", "d h n", "n d h", "d n h")


class Parts(NamedTuple):
    """The parts of a block, of several one after another, or of a model, which has all of these."""

    norms: list[Norm]
    expand: list[Layer]
    contract: list[Layer]
    attention: list[Layer]
    patch: Sequence[Layer] = ()
    head: Sequence[Layer] = ()
    class_token: Sequence[Tensor] = ()
    position: Sequence[Tensor] = ()  # one for all tokens, or the class token's and the patches'
    of_patches: Sequence[Tensor] = ()  # positions for the patches only

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


def model_parts(trial: Trial) -> Parts:
    """Sort the parts of a whole model."""
    (c,), parts = trial.args, trial.parts
    D = c.embed_dim
    of_tokens = D, c.num_tokens * D, c.num_patches * D
    class_token, position, of_patches = ([p for _, p in parts.loose if p.numel() == n] for n in of_tokens)
    if of_patches and not position and len(class_token) == 2:
        # The class token has a position of its own. Which of the two is which makes no difference: they are added.
        position = [class_token.pop(), *of_patches]
    matrices = paired([(name, p) for name, p in parts.loose if p.numel() not in of_tokens], 3 * D)
    layers, ends = [*parts.layers, *matrices], ((D, c.patch_dim), (c.num_classes, D))
    blocks = sort_layers([layer for layer in layers if layer.sizes not in ends], parts.norms, D, c.num_heads)
    patch, head = ([layer for layer in layers if layer.sizes == size] for size in ends)
    return blocks._replace(patch=patch, head=head, class_token=class_token, position=position, of_patches=of_patches)


def attention_layers(parts: Inventory, embed_dim: int) -> list[Layer]:
    return [*parts.layers, *paired(parts.loose, 3 * embed_dim)]


def silent_parameters(parts: Parts) -> list[Tensor]:
    """Return attention's parameters: with zeros in all of them, attention adds zero, whatever it does."""
    return parameters_of(parts.attention)


def mlp_parameters(parts: Parts) -> list[Tensor]:
    return parameters_of([*parts.expand, *parts.contract])


def parameters_of(layers: Sequence[Layer]) -> list[Tensor]:
    return [p for layer in layers for p in (layer.weight, layer.bias) if p is not None]


def layouts(layers: Sequence[Layer], D: int, heads: int) -> Iterator[Layout]:
    """Yield every way in which these layers may hold attention's weights, the usual ones first."""
    sizes = {"n": 3, "h": heads, "d": D // heads}
    lasts = (False, True) if any(layer.raw for layer in layers) else (False,)
    for columns, order, out, last in product(("h d", "d h"), ROW_ORDERS, (-1, 0, 1, 2, None), lasts):
        count = len(layers) - (out is not None)
        outer = sizes[order[0]], sizes[order[0]] * sizes[order[2]]
        # Several layers follow one another along the outer axes: three for n = q, k, v, or one for each head, or both.
        if count in (1, *outer) and (out is None or out < count):
            for roles in permutations(range(3)):
                yield Layout(out, order, roles, columns, last)
        elif order == "n h d" and count == 2 and out is not None:  # one layer for q, say, and one for k and v
            for pair, roles in product(ROW_ORDERS, permutations(range(3))):
                yield Layout(out, order, roles, columns, last, pair)


def usual_layouts(ways: Sequence[Layout]) -> list[Layout]:
    """Return the usual ways: the mistakes are looked for in these only."""
    return [way for way in ways if way.columns == "h d" and way.order in ROW_ORDERS[:3]]


def read_attention(layers: Sequence[Layer], layout: Layout, D: int, heads: int) -> ref.AttentionWeights | None:
    """Read attention's weights, or None if these layers cannot be read so. Gradients pass through."""
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
        return ref.AttentionWeights(weight, bias, None, None, heads, sliced, shared)
    square = Layer(out.name, out.weight.reshape(D, D), None, out.raw).rows(D, layout.last)
    square = rearrange(square, f"o ({layout.columns}) -> o (h d)", h=heads)
    return ref.AttentionWeights(weight, bias, square, out.bias, heads, sliced, shared)


def stacked(layers: Sequence[Layer], in_size: int, last: bool) -> tuple[Tensor, Tensor]:
    """Stack the matrices that take `in_size` values, and their biases, zero where there is none."""
    rows, biases = [], []
    for layer in layers:
        matrix = layer.rows(in_size, last)
        rows.append(layer.weight.new_zeros(0, in_size) if matrix is None else matrix)
        biases.append(rows[-1].new_zeros(len(rows[-1])) if layer.bias is None else layer.bias.flatten())
    return torch.cat(rows), torch.cat(biases)


def unpaired(rows: Tensor, single_first: bool, pair: str, heads: int) -> Tensor:
    """Bring the 2·D rows of one layer for two of q, k and v into the order "n h d", beside the D of the third."""
    double = slice(len(rows) // 3, None) if single_first else slice(None, -(len(rows) // 3))
    changed = rearrange(rows[double], f"({pair}) ... -> (n h d) ...", n=2, h=heads)
    return torch.cat([rows[: double.start], changed] if single_first else [changed, rows[double.stop :]])


def read_mlp(first: Layer, second: Layer, D: int) -> ref.MlpWeights | None:
    """Read two layers as the MLP's, or None if their sizes do not fit."""
    expand = first.rows(D)
    contract = None if expand is None else second.rows(len(expand))
    if contract is None or len(contract) != D:
        return None
    biases = [(first.bias, expand), (second.bias, contract)]
    if any(bias is not None and len(bias) != len(matrix) for bias, matrix in biases):
        return None
    return ref.MlpWeights(expand, first.bias, contract, second.bias)


def read_block(parts: Parts, reading: Reading, D: int, heads: int) -> ref.BlockWeights | None:
    """Read the weights of one block, or None if its parts cannot be read so."""
    mlp = read_mlp(parts.expand[0], parts.contract[0], D) if parts.expand and parts.contract else None
    attention = reading.layout and read_attention(parts.attention, reading.layout, D, heads)
    if mlp is None or max(reading.norms) >= len(parts.norms) or (reading.layout and attention is None):
        return None
    return ref.BlockWeights(*(parts.norms[i] for i in reading.norms), mlp, attention)


def read_model(trial: Trial, reading: Reading) -> ref.ModelWeights | None:
    """Read the weights of the whole model, or None if its parts cannot be read so."""
    (c,), parts = trial.args, model_parts(trial)
    norms = list(parts.norms)
    final = norms.pop(reading.final)
    blocks = parts._replace(norms=norms)
    blocks = [read_block(blocks.one(i, c.depth), reading, c.embed_dim, c.num_heads) for i in range(c.depth)]
    if None in blocks:
        return None
    (patch,), (head,) = parts.patch, parts.head
    position = torch.cat([p.reshape(-1, c.embed_dim) for p in parts.position])
    eq1 = patch.rows(c.patch_dim), patch.bias, parts.class_token[0].reshape(-1), position
    embeddings = ref.EmbeddingWeights(c, reading.order, *eq1)
    return ref.ModelWeights(embeddings, blocks, final, head.rows(c.embed_dim), head.bias)


def bare_parameters(parts: Inventory) -> list[Tensor]:
    """Return the parameters of no layer. `inventory` may have taken two vectors side by side for a norm."""
    vectors = [vector for norm in parts.norms if norm.eps is None for vector in (norm.weight, norm.bias)]
    return [parameter for _, parameter in parts.loose] + vectors


def kind_of(parameter: Tensor, sizes: ref.Sizes) -> str:
    """Return what a bare parameter can be, by its sizes: "vector", "table", "patch table", "matrix" or ""."""
    D, sides = sizes.embed_dim, sorted(side for side in parameter.shape if side > 1)
    if sides == [D]:
        return "vector"
    if parameter.numel() == sizes.tokens * D and D in sides:
        return "table"
    if parameter.numel() == sizes.patches * D and D in sides:
        return "patch table"
    return "matrix" if parameter.numel() == sizes.patch_dim * D and D in sides else ""


def eq1_parameters(parts: Inventory, sizes: ref.Sizes) -> list[tuple[str, Tensor]]:
    """Return every parameter with what it can be. Only of a layer's bias it is certain."""
    of_layers = [(kind_of(layer.weight, sizes), layer.weight) for layer in parts.layers]
    of_layers += [("bias", layer.bias) for layer in parts.layers if layer.bias is not None]
    return of_layers + [(kind_of(p, sizes), p) for p in bare_parameters(parts)]


def embedding_readings(parts: Inventory, sizes: ref.Sizes) -> Iterator[Reading]:
    """Yield every way to take the parameters for the parts of Eq. 1; none if they are too few or too many."""
    kinds = [kind for kind, _ in eq1_parameters(parts, sizes)]
    vectors = ["class token"] + ["class position"] * kinds.count("patch table")
    if not parts.layers and kinds.count("vector") > len(vectors):
        vectors.append("bias")
    table = "patch table" if "patch table" in kinds else "table"
    needed = sorted(["matrix", table, *["vector"] * len(vectors)])
    if sorted(kind for kind in kinds if kind != "bias") != needed or any(norm.eps is not None for norm in parts.norms):
        return
    for roles in permutations(vectors):
        rest = iter(roles)
        filled = tuple(next(rest) if kind == "vector" else kind for kind in kinds)
        yield from (Reading(order=order, roles=filled) for order in ref.ORDERS)


def read_embeddings(parts: Inventory, sizes: ref.Sizes, reading: Reading) -> ref.EmbeddingWeights | None:
    """Read the weights of Eq. 1, or None. Gradients pass through."""
    D, found = sizes.embed_dim, dict(zip(reading.roles, (p for _, p in eq1_parameters(parts, sizes)), strict=True))
    matrix = as_rows(found["matrix"], D).T
    bias = found["bias"].reshape(D) if "bias" in found else matrix.new_zeros(D)
    tables = [as_rows(found[role], D) for role in ("class position", "table", "patch table") if role in found]
    return ref.EmbeddingWeights(sizes, reading.order, matrix, bias, found["class token"].reshape(D), torch.cat(tables))


def as_rows(parameter: Tensor, D: int) -> Tensor:
    """Turn a table so that its vectors of D values are rows, whichever axis they lie along."""
    axis = max(axis for axis, side in enumerate(parameter.shape) if side == D)
    return parameter.movedim(axis, -1).reshape(-1, D)


def complain_about_attention(w: ref.AttentionWeights) -> None:
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


def check_hidden(hidden: int, asked: int, D: int) -> None:
    """Raise Wrong if the MLP's hidden layer has another width than `mlp_dim`."""
    if hidden != asked:
        factor = f", {hidden // D} times embed_dim" if hidden % D == 0 else ""
        raise Wrong(
            f"The hidden layer of the MLP has {hidden} values{factor}; mlp_dim = {asked} was asked.",
            "`nn.Linear(embed_dim, mlp_dim)`, then `nn.Linear(mlp_dim, embed_dim)`.",
        )


def check_block_parts(parts: Parts, depth: int, mlp_dim: int, D: int) -> None:
    """Raise Wrong if `depth` blocks cannot be made of these parts; say what is missing or too many."""
    counts = len(parts.expand), len(parts.contract)
    if counts != (depth, depth):
        raise Wrong(
            f"An MLP is two linear layers, D → mlp_dim → D. Among the parameters there are {counts[0]} of the first "
            f"kind and {counts[1]} of the second; {depth} of each were expected.",
            LISTS,
        )
    check_hidden(parts.contract[0].sizes[1], mlp_dim, D)
    if not parts.attention:
        raise Wrong("There are no parameters of an attention layer.", LISTS)


def complain_about_block(w: ref.BlockWeights) -> None:
    """Raise Wrong for weights with which the values are right but which are not the paper's."""
    complain_about_attention(w.attention)
    if w.norm1 is w.norm2:
        raise Wrong(
            "One LayerNorm stands at both places: its weight and bias must serve two inputs.",
            "Two objects: `self.norm1 = nn.LayerNorm(...)` and `self.norm2 = nn.LayerNorm(...)`.",
        )
    for norm in (w.norm1, w.norm2):
        check_eps(norm)


def check_eps(norm: Norm) -> None:
    if norm.eps is not None and norm.eps != ref.PAPER_EPS:
        default = ", PyTorch's default" if norm.eps == 1e-5 else ""
        raise Wrong(f"All is right but one number: the eps of your LayerNorm is {norm.eps:g}{default}.", EPS)
