"""See and change how a model attends, for as long as a `with` block lasts."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..attention import SelfAttention, attend, merge_heads, split_heads
from ..errors import not_ours
from ..inference import eval_mode


@contextmanager
def record_attention(model: nn.Module) -> Iterator[list[Tensor | None]]:
    """Keep the model's attention weights, inside `with record_attention(model) as maps:`.

    `maps[layer]` is (B, h, T, T), of the latest forward pass, and None before the first. The rows sum to 1, and carry
    gradients if the pass does. Each layer attends twice, by its own kernel and as the equation says: that takes longer.
    Dropout draws anew. Raises ValueError for a model without attention that can be looked into.
    """
    layers = attention_layers(model)
    maps: list[Tensor | None] = [None] * len(layers)

    def attend_and_keep(i: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        mixed, maps[i] = attend(q, k, v, layers[i].attention_dropout if layers[i].training else 0.0)
        return mixed

    with attending(model, attend_and_keep):
        yield maps


@contextmanager
def mask_heads(model: nn.Module, heads: Mapping[int, int | Sequence[int] | Tensor]) -> Iterator[None]:
    """Keep these heads from adding anything to the tokens, inside `with mask_heads(model, {layer: heads}):`.

    Layers and heads are counted from 0, and -1 is the last; one head or several. Recorded inside, a masked head still
    shows where it would have looked. Raises ValueError for a layer that the model does not have, IndexError for a head.
    """
    layers = attention_layers(model)
    if not isinstance(heads, Mapping):
        raise ValueError(f"heads to mask are given by their layer, such as {{0: [1, 2]}}, got {heads!r:.80}")
    with ExitStack() as masks:
        for i, chosen in heads.items():
            if i not in range(-len(layers), len(layers)):
                raise ValueError(f"no layer {i!r} to mask: the model has layers 0 to {len(layers) - 1}")
            layer, chosen = layers[i], torch.as_tensor(chosen)
            keep = layer.projection.weight.new_ones(layer.num_heads, layer.head_dim)
            keep[chosen if chosen.numel() else []] = 0
            masks.enter_context(layer.projection.register_forward_pre_hook(partial(scale, keep.flatten())))
        yield


@torch.no_grad()
def head_outputs(model: nn.Module, images: Float[Tensor, "B C H W"]) -> list[Float[Tensor, "B h T d"]]:
    """Return what the heads of each layer make of the images before they are joined, in eval mode: (B, h, T, d)."""
    outputs: list[Tensor] = []

    def keep(i: int, q: Tensor, k: Tensor, v: Tensor) -> None:
        outputs.append(attend(q, k, v)[0])

    with eval_mode(model), attending(model, keep):
        model(images)
    return outputs


@contextmanager
def swap_head(model: nn.Module, layer: int, head: int, output: Float[Tensor, "#B T d"]) -> Iterator[None]:
    """Let a head return `output`, (B, T, d), or (1, T, d) for all images, inside `with swap_head(…):`.

    Layers and heads are counted from 0. Raises ValueError for a layer that the model does not have, IndexError for a
    head.
    """
    if layer not in range(count := len(attention_layers(model))):
        raise ValueError(f"no layer {layer!r} to swap a head of: the model has layers 0 to {count - 1}")

    def swapped(i: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor | None:
        if i != layer:
            return None
        mixed, _ = attend(q, k, v)
        mixed[:, head] = output
        return mixed

    with attending(model, swapped):
        yield


def scale(shares: Tensor, joining: nn.Module, inputs: tuple) -> Tensor:
    return inputs[0] * shares  # (B, T, D): what the layer that joins the heads is given


@contextmanager
def attending(model: nn.Module, function: Callable[[int, Tensor, Tensor, Tensor], Tensor | None]) -> Iterator[None]:
    """Inside a `with` block, let `function(layer, q, k, v)` attend instead of each layer's heads: all (B, h, T, d).

    Where it returns None, the layer's own result stays. The hooks are on the layer that makes q, k and v, and on the
    one that joins the heads.
    """
    layers = attention_layers(model)
    made: dict[int, Tensor] = {}  # for each layer q, k and v, one beside the other: (B, T, 3·D)

    def note(i: int, maker: nn.Module, inputs: tuple, output: Tensor) -> None:
        made[i] = output

    def instead(i: int, joining: nn.Module, inputs: tuple) -> tuple | None:
        mixed = function(i, *(split_heads(part, layers[i].num_heads) for part in made[i].chunk(3, dim=-1)))
        return None if mixed is None else (merge_heads(mixed),)

    with ExitStack() as hooks:
        if "torch._dynamo" in sys.modules:  # a compiled model does not see hooks that come later
            hooks.enter_context(torch.compiler.set_stance("force_eager"))
        for i, layer in enumerate(layers):
            hooks.enter_context(layer.qkv.register_forward_hook(partial(note, i)))
            # First, so that heads are masked after it, however the two are nested.
            hooks.enter_context(layer.projection.register_forward_pre_hook(partial(instead, i), prepend=True))
        yield


def attention_layers(model: nn.Module) -> list[SelfAttention]:
    """Return the model's attention layers, first to last. Raises ValueError if there is none that we can look into."""
    layers = [module for module in model.modules() if isinstance(module, SelfAttention)]
    if not layers:
        raise not_ours(model)
    return layers
