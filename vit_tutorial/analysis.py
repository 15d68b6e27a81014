"""Measuring a model: arrays in, arrays out, nothing drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from .attention import SelfAttention
from .model import VisionTransformer


class Step(NamedTuple):
    """One module's turn in a forward pass: its name in the model, its class, the shape that it returns."""

    name: str
    module: str
    shape: tuple[int, ...]


@torch.no_grad()
def trace_shapes(model: nn.Module, images: Float[Tensor, "B C H W"]) -> list[Step]:
    """The shape of what every module returns, in the order in which they finish.

    The model is called once, without gradients, and is left as it was. A module that returns no tensor
    is left out. Works for any module of PyTorch; the model itself comes last, under the name "".
    """
    steps = []

    def note(name):
        def hook(module, inputs, output):
            if isinstance(output, Tensor):
                steps.append(Step(name, type(module).__name__, tuple(output.shape)))

        return hook

    handles = [module.register_forward_hook(note(name)) for name, module in model.named_modules()]
    try:
        model(images)
    finally:
        for handle in handles:
            handle.remove()
    return steps


class RecordingAttention(nn.Module):
    """A strategy that attends as the one it wraps and keeps the weights."""

    def __init__(self, inner: nn.Module, maps: list[Tensor | None], layer: int):
        super().__init__()
        self.inner, self.maps, self.layer = inner.explicit(), maps, layer

    def forward(self, q: Float[Tensor, "B h T d"], k: Float[Tensor, "B h T d"], v: Float[Tensor, "B h T d"]):
        out, weights = self.inner(q, k, v)
        self.maps[self.layer] = weights
        return out, weights

    def explicit(self) -> nn.Module:
        return self


class MaskedHeads(nn.Module):
    """A strategy that attends as the one it wraps, with nothing to take from some heads: their values are zero."""

    def __init__(self, inner: nn.Module, keep: Float[Tensor, "h 1 1"]):
        super().__init__()
        self.inner = inner
        self.register_buffer("keep", keep, persistent=False)

    def forward(self, q: Float[Tensor, "B h T d"], k: Float[Tensor, "B h T d"], v: Float[Tensor, "B h T d"]):
        return self.inner(q, k, v * self.keep)

    def explicit(self) -> nn.Module:
        return MaskedHeads(self.inner.explicit(), self.keep)


@contextmanager
def record_attention(model: nn.Module) -> Iterator[list[Tensor | None]]:
    """Inside `with record_attention(model) as maps:` the model keeps its attention weights.

    `maps[layer]` is (B, h, T, T), of the latest forward pass, and None before the first. The rows sum
    to 1. The weights carry gradients where the forward pass does. Outside the block the model is as it was.
    Raises ValueError for a model without this package's attention.
    """
    layers = self_attentions(model)
    maps: list[Tensor | None] = [None] * len(layers)
    with swapped({layer: RecordingAttention(layer.strategy, maps, i) for i, layer in enumerate(layers)}):
        yield maps


@contextmanager
def mask_heads(model: nn.Module, heads: Mapping[int, int | Iterable[int]]) -> Iterator[None]:
    """Inside `with mask_heads(model, {layer: heads}):` these heads add nothing to the tokens.

    Layers and heads are counted from 0; one head or several. Recorded inside, a masked head still shows
    where it would have looked. Raises ValueError for a layer or a head that the model does not have.
    """
    layers = self_attentions(model)
    strategies = {}
    for i, chosen in heads.items():
        if not 0 <= i < len(layers):
            raise ValueError(f"no layer {i} to mask: the model has layers 0 to {len(layers) - 1}")
        chosen = [chosen] if isinstance(chosen, int) else list(chosen)
        if wrong := [head for head in chosen if not 0 <= head < layers[i].num_heads]:
            raise ValueError(f"no head {wrong[0]} in layer {i}: it has heads 0 to {layers[i].num_heads - 1}")
        weight = layers[i].projection.weight
        keep = torch.ones(layers[i].num_heads, 1, 1, dtype=weight.dtype, device=weight.device)
        keep[chosen] = 0
        strategies[layers[i]] = MaskedHeads(layers[i].strategy, keep)
    with swapped(strategies):
        yield


def self_attentions(model: nn.Module) -> list[SelfAttention]:
    """The model's attention layers, first to last; a ValueError where there is none to measure."""
    layers = [module for module in model.modules() if isinstance(module, SelfAttention)]
    if not layers:
        raise ValueError(f"{type(model).__name__} has no SelfAttention of this package to measure")
    return layers


@contextmanager
def swapped(strategies: Mapping[SelfAttention, nn.Module]) -> Iterator[None]:
    """Give each layer its new strategy, and back the one it had, also when the body raises."""
    found = {layer: layer.strategy for layer in strategies}
    for layer, strategy in strategies.items():
        layer.strategy = strategy.train(layer.training)
    try:
        yield
    finally:
        for layer, strategy in found.items():
            layer.strategy = strategy.train(layer.training)


@torch.no_grad()
def position_similarity(model: VisionTransformer) -> Float[Tensor, "h w h w"]:
    """Cosine similarity of every patch's position embedding with every other's: (h, w, h, w).

    `position_similarity(model)[i, j]` is the map of the patch in row i and column j. The class token's
    position is left out. Source: Figure 7 (centre).
    """
    h, w = model.config.grid
    unit = nn.functional.normalize(model.embeddings.position()[1:], dim=-1)  # (N, D)
    return (unit @ unit.T).reshape(h, w, h, w)


class Cost(NamedTuple):
    """What a part of a model holds, and what it does in one forward pass."""

    parameters: int
    flops: int


@torch.no_grad()
def cost_by_part(model: VisionTransformer, images: Float[Tensor, "B C H W"]) -> dict[str, Cost]:
    """Parameters and FLOPs of each part of the model, for one forward pass of these images.

    Every parameter is in exactly one part. FLOPs are those of matrix products and convolutions, two for
    each multiply-add, as `torch.utils.flop_counter` counts them; it leaves out additions on their own,
    norms, softmax and GELU. "pairs" is q·kᵀ and weights·v, the part that grows with the square of T.
    On the meta device nothing is computed, and the counts are the same.
    """
    names = {module: f"{type(model).__name__}.{name}" for name, module in model.named_modules()}
    blocks = list(model.encoder)
    parts = {
        "embeddings": [model.embeddings],
        "q, k, v, out": [layer for block in blocks for layer in (block.attention.qkv, block.attention.projection)],
        "pairs": [block.attention.strategy for block in blocks],
        "MLP": [block.mlp for block in blocks],
        "norms": [*(norm for block in blocks for norm in (block.norm1, block.norm2)), model.norm],
        "head": [model.head],
    }
    # Recorded, since the counter does not know every fused kernel.
    with record_attention(model), FlopCounterMode(display=False) as counter:
        model(images)
    flops = {name: sum(operations.values()) for name, operations in counter.get_flop_counts().items()}
    return {
        part: Cost(
            sum(p.numel() for module in modules for p in module.parameters()),
            sum(flops.get(names[module], 0) for module in modules),
        )
        for part, modules in parts.items()
    }
