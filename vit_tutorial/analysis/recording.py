"""See and change how a model attends, for as long as a `with` block lasts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import SupportsIndex

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..attention import SelfAttention, attend
from ..errors import kind_of

Heads = Float[Tensor, "B h T d"]


class RecordingAttention(nn.Module):
    """Attend as the equation says and keep the weights, which takes more time and memory than the fused kernel."""

    def __init__(self, dropout: float, maps: list[Tensor | None], layer: int):
        super().__init__()
        self.dropout, self.maps, self.layer = dropout, maps, layer

    def forward(self, q: Heads, k: Heads, v: Heads):
        out, weights = attend(q, k, v, self.dropout if self.training else 0.0)
        self.maps[self.layer] = weights
        return out, weights


@contextmanager
def record_attention(model: nn.Module) -> Iterator[list[Tensor | None]]:
    """Keep the model's attention weights, inside `with record_attention(model) as maps:`.

    `maps[layer]` is (B, h, T, T), of the latest forward pass, and None before the first. The rows sum to 1, and carry
    gradients if the pass does. Raises ValueError for a model without this package's attention.
    """
    layers = self_attentions(model)
    maps: list[Tensor | None] = [None] * len(layers)
    recording = {layer: RecordingAttention(layer.strategy.dropout, maps, i) for i, layer in enumerate(layers)}
    with swapped(recording):
        yield maps


@contextmanager
def mask_heads(model: nn.Module, heads: Mapping[int, SupportsIndex | Sequence[int]]) -> Iterator[None]:
    """Keep these heads from adding anything to the tokens, inside `with mask_heads(model, {layer: heads}):`.

    Layers and heads are counted from 0; one head or several. Recorded inside, a masked head still shows where it would
    have looked. Raises ValueError for a layer or a head that the model does not have.
    """
    layers = self_attentions(model)
    if not isinstance(heads, Mapping):
        raise ValueError(f"heads to mask are given by their layer, such as {{0: [1, 2]}}, got {heads!r:.80}")
    with ExitStack() as masks:
        for i, chosen in heads.items():
            if i not in range(len(layers)):
                raise ValueError(f"no layer {i!r} to mask: the model has layers 0 to {len(layers) - 1}")
            layer = layers[i]
            keep = layer.projection.weight.new_ones(layer.num_heads, layer.head_dim)
            for head in torch.as_tensor(chosen).flatten().tolist():  # one head or several, of any library
                if head not in range(layer.num_heads):
                    raise ValueError(f"no head {head!r} in layer {i}: it has heads 0 to {layer.num_heads - 1}")
                keep[head] = 0

            def mask(joining: nn.Module, inputs: tuple, keep: Tensor = keep) -> Tensor:
                return inputs[0] * keep.flatten()  # (B, T, D): what the layer that joins the heads is given

            masks.enter_context(layer.projection.register_forward_pre_hook(mask))
        yield


def self_attentions(model: nn.Module) -> list[SelfAttention]:
    """Return the model's attention layers, first to last. Raises ValueError if there is none."""
    layers = [module for module in model.modules() if isinstance(module, SelfAttention)]
    if not layers:
        raise ValueError(f"no SelfAttention of this package to measure in {kind_of(model)}")
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
