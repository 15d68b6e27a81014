"""Follow a forward pass: the tokens after every block, and the parameters and FLOPs of each part."""

from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from ..errors import require_vit
from ..inference import eval_mode
from ..model import VisionTransformer
from .recording import attention_layers


def stages(model: VisionTransformer, images: Float[Tensor, "B C H W"]) -> list[Tensor]:
    """Return the tokens before the first block and after every block: L+1 tensors (B, T, D)."""
    require_vit(model)
    tokens = [model.embeddings(images)]
    for block in model.encoder:
        tokens.append(block(tokens[-1]))
    return tokens


class Cost(NamedTuple):
    """What a part of a model holds, and what it does in one forward pass."""

    parameters: int
    flops: int


@torch.no_grad()
def multiply_adds(network: nn.Module, images: Float[Tensor, "B C H W"]) -> float:
    """Return how many multiply-adds a network does for these images, in matrix products and convolutions."""
    with eval_mode(network), FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):  # counts all
        network(images)
    return counter.get_total_flops() / 2


@torch.no_grad()
def cost_by_part(model: VisionTransformer, images: Float[Tensor, "B C H W"]) -> dict[str, Cost]:
    """Return parameters and FLOPs of each part of the model, for one forward pass of these images.

    Every parameter is in exactly one part. FLOPs are those of matrix products and convolutions, two for
    each multiply-add. "pairs" is q·kᵀ and weights·v, the part that grows with the square of T.
    The counts are the same on the meta device, which computes nothing.
    """
    require_vit(model)
    layers, blocks = attention_layers(model), list(model.encoder)
    parts = {
        "embeddings": [model.embeddings],
        "q, k, v, out": [module for layer in layers for module in (layer.qkv, layer.projection)],
        "MLP": [block.mlp for block in blocks],
        "norms": [*(norm for block in blocks for norm in (block.norm1, block.norm2)), model.norm],
        "head": [model.head],
    }
    flops = dict.fromkeys(parts, 0)

    def note(part: str, sign: int, *call) -> None:
        flops[part] += sign * counter.get_total_flops()  # so far

    with eval_mode(model), FlopCounterMode(display=False) as counter, ExitStack() as hooks:
        for part, modules in parts.items():
            for module in modules:
                hooks.enter_context(module.register_forward_pre_hook(partial(note, part, -1)))
                hooks.enter_context(module.register_forward_hook(partial(note, part, 1)))
        model(images)
    counts = {part: sum(p.numel() for each in modules for p in each.parameters()) for part, modules in parts.items()}
    costs = {part: Cost(counts[part], flops[part]) for part in parts}
    # Two products of T·T pairs, in D values. Not counted, since the counter does not know every fused kernel.
    pairs = len(layers) * len(images) * 4 * model.config.num_tokens**2 * model.config.embed_dim
    return costs | {"pairs": Cost(0, pairs)}
