"""See and change how a model attends, for as long as a `with` block lasts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import SupportsIndex

from jaxtyping import Float
from torch import Tensor, nn

from ..attention import FusedAttention, SelfAttention, attend
from ..errors import to_whole

Heads = Float[Tensor, "B h T d"]


class ExplicitAttention(nn.Module):
    """Attend as the equation says and return the weights too, which takes more time and memory."""

    def __init__(self, dropout: float = 0.0):
        super().__init__()
        self.dropout = dropout

    def forward(self, q: Heads, k: Heads, v: Heads):
        return attend(q, k, v, self.dropout if self.training else 0.0)


class RecordingAttention(nn.Module):
    """Attend as the strategy that it wraps does, and keep the weights."""

    def __init__(self, inner: nn.Module, maps: list[Tensor | None], layer: int):
        super().__init__()
        self.inner, self.maps, self.layer = explicit(inner), maps, layer

    def forward(self, q: Heads, k: Heads, v: Heads):
        out, weights = self.inner(q, k, v)
        self.maps[self.layer] = weights
        return out, weights


class MaskedHeads(nn.Module):
    """Attend as the strategy that it wraps does, with the values of some heads set to zero."""

    def __init__(self, inner: nn.Module, keep: Float[Tensor, "h 1 1"]):
        super().__init__()
        self.inner = inner
        self.register_buffer("keep", keep, persistent=False)

    def forward(self, q: Heads, k: Heads, v: Heads):
        return self.inner(q, k, v * self.keep)


def explicit(strategy: nn.Module) -> nn.Module:
    """Return the same strategy, with the equation instead of the fused kernel, so that there are weights to keep."""
    if isinstance(strategy, FusedAttention):
        return ExplicitAttention(strategy.dropout)
    if isinstance(strategy, MaskedHeads):
        return MaskedHeads(explicit(strategy.inner), strategy.keep)
    return strategy


@contextmanager
def record_attention(model: nn.Module) -> Iterator[list[Tensor | None]]:
    """Keep the model's attention weights, inside `with record_attention(model) as maps:`.

    `maps[layer]` is (B, h, T, T), of the latest forward pass, and None before the first. The rows sum to 1, and carry
    gradients if the pass does. Raises ValueError for a model without this package's attention.
    """
    layers = self_attentions(model)
    maps: list[Tensor | None] = [None] * len(layers)
    with swapped({layer: RecordingAttention(layer.strategy, maps, i) for i, layer in enumerate(layers)}):
        yield maps


@contextmanager
def mask_heads(model: nn.Module, heads: Mapping[int, SupportsIndex | Sequence[int]]) -> Iterator[None]:
    """Keep these heads from adding anything to the tokens, inside `with mask_heads(model, {layer: heads}):`.

    Layers and heads are counted from 0; one head or several. Recorded inside, a masked head still shows where it would
    have looked. Raises ValueError for a layer or a head that the model does not have.
    """
    layers, masked = self_attentions(model), {}
    for i, chosen in heads.items():
        if to_whole(i) not in range(len(layers)):
            raise ValueError(f"no layer {i!r} to mask: the model has layers 0 to {len(layers) - 1}")
        layer = layers[i]
        keep = layer.projection.weight.new_ones(layer.num_heads, 1, 1)
        several = isinstance(chosen, Iterable) and to_whole(chosen) is None
        for head in chosen if several else [chosen]:
            if to_whole(head) not in range(layer.num_heads):
                raise ValueError(f"no head {head!r} in layer {i}: it has heads 0 to {layer.num_heads - 1}")
            keep[head] = 0
        masked[layer] = MaskedHeads(layer.strategy, keep)
    with swapped(masked):
        yield


def self_attentions(model: nn.Module) -> list[SelfAttention]:
    """Return the model's attention layers, first to last. Raises ValueError if there is none."""
    layers = [module for module in model.modules() if isinstance(module, SelfAttention)]
    if not layers:
        raise ValueError(f"{type(model).__name__} has no SelfAttention of this package to measure")
    return layers


@contextmanager
def swapped(strategies: Mapping[SelfAttention, nn.Module]) -> Iterator[None]:
    """Give each layer its new strategy, and afterwards the old one back, also when the block raises."""
    found = {layer: layer.strategy for layer in strategies}
    for layer, strategy in strategies.items():
        layer.strategy = strategy.train(layer.training)
    try:
        yield
    finally:
        for layer, strategy in found.items():
            layer.strategy = strategy.train(layer.training)
