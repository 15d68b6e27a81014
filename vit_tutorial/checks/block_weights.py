"""The weights of encoder blocks in a reader's module: the MLP's layers, attention's, and which norm is which."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from .encoder_mistakes import EPS, PAPER_EPS, BlockWeights, MlpWeights
from .layouts import Layout, complain, read
from .modules import Layer, Norm
from .registered import LISTS
from .verdict import Wrong

NORM_ORDERS = ((0, 1), (1, 0), (0, 0), (1, 1))


class BlockParts(NamedTuple):
    """The parts of one block, or of several one after another."""

    norms: list[Norm]
    expand: list[Layer]
    contract: list[Layer]
    attention: list[Layer]

    def one(self, i: int, depth: int) -> BlockParts:
        """The parts of block i of `depth`: each kind of part is registered block by block."""
        return BlockParts(*(part[i * len(part) // depth : (i + 1) * len(part) // depth] for part in self))


class BlockReading(NamedTuple):
    """Which norm comes first, and how attention's weights lie; `layout` None: attention is silenced."""

    norms: tuple[int, int]
    layout: Layout | None = None


def sort_layers(layers: Sequence[Layer], norms: list[Norm], D: int, heads: int) -> BlockParts:
    """The MLP's second layer leads to D numbers from another width; its first leads from D to that width."""
    contract = [layer for layer in layers if layer.sizes[0] == D and layer.sizes[1] not in (D, D // heads)]
    widths = {layer.sizes[1] for layer in contract}
    expand = [layer for layer in layers if layer.sizes[1] == D and layer.sizes[0] in widths]
    rest = [layer for layer in layers if not any(layer is other for other in (*contract, *expand))]
    return BlockParts(norms, expand, contract, rest)


def read_mlp(first: Layer, second: Layer, D: int) -> MlpWeights | None:
    """Two layers as the MLP's, or None if their sizes do not fit."""
    expand = first.rows(D)
    contract = None if expand is None else second.rows(len(expand))
    if contract is None or len(contract) != D:
        return None
    biases = [(first.bias, expand), (second.bias, contract)]
    if any(bias is not None and len(bias) != len(matrix) for bias, matrix in biases):
        return None
    return MlpWeights(expand, first.bias, contract, second.bias)


def read_block(parts: BlockParts, reading: BlockReading, D: int, heads: int) -> BlockWeights | None:
    """The weights of one block, or None if its parts cannot be read so."""
    mlp = read_mlp(parts.expand[0], parts.contract[0], D) if parts.expand and parts.contract else None
    attention = reading.layout and read(parts.attention, reading.layout, D, heads)
    if mlp is None or max(reading.norms) >= len(parts.norms) or (reading.layout and attention is None):
        return None
    return BlockWeights(*(parts.norms[i] for i in reading.norms), mlp, attention)


def silent_parameters(parts: BlockParts) -> list[Tensor]:
    """Attention's parameters: with zeros in all of them, attention adds zero, whatever it does."""
    return parameters(parts.attention)


def mlp_parameters(parts: BlockParts) -> list[Tensor]:
    return parameters([*parts.expand, *parts.contract])


def parameters(layers: Sequence[Layer]) -> list[Tensor]:
    return [p for layer in layers for p in (layer.weight, layer.bias) if p is not None]


def check_hidden(hidden: int, asked: int, D: int) -> None:
    """Raise Wrong if the MLP's hidden layer has another width than `mlp_dim`."""
    if hidden != asked:
        factor = f", {hidden // D} times embed_dim" if hidden % D == 0 else ""
        raise Wrong(
            f"The hidden layer of the MLP has {hidden} numbers{factor}; mlp_dim = {asked} was asked.",
            "`nn.Linear(embed_dim, mlp_dim)`, then `nn.Linear(mlp_dim, embed_dim)`.",
        )


def check_block_parts(parts: BlockParts, depth: int, mlp_dim: int, D: int) -> None:
    """Raise Wrong if `depth` blocks cannot be made of these parts; names what is missing or too many."""
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


def complain_about_block(w: BlockWeights) -> None:
    """Raise Wrong for weights with which the values are right but which are not the paper's."""
    complain(w.attention)
    if w.norm1 is w.norm2:
        raise Wrong(
            "One LayerNorm stands at both places: its weight and bias must serve two inputs.",
            "Two objects: `self.norm1 = nn.LayerNorm(...)` and `self.norm2 = nn.LayerNorm(...)`.",
        )
    for norm in (w.norm1, w.norm2):
        require_eps(norm)


def require_eps(norm: Norm) -> None:
    if norm.eps is not None and norm.eps != PAPER_EPS:
        default = ", PyTorch's default" if norm.eps == 1e-5 else ""
        raise Wrong(f"All is right but one number: the eps of your LayerNorm is {norm.eps:g}{default}.", EPS)
