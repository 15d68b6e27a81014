"""How the weights move: which of them decay, and how large the steps are."""

from __future__ import annotations

import math

import torch
from torch import nn


def require_trainable(model: nn.Module) -> None:
    """Raise ValueError unless there are weights to train, in float32 or float64."""
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    if not trained or not torch.is_grad_enabled():
        raise ValueError("nothing to train: all weights are frozen, or gradients are off here (torch.no_grad)")
    if dtypes := {weight.dtype for weight in trained} - {torch.float32, torch.float64}:
        raise ValueError(f"fit trains weights in float32 or float64, these are {dtypes}: model.float() makes them so")


def parameter_groups(model: nn.Module, weight_decay: float, layer_decay: float = 1.0) -> list[dict]:
    """Return two groups for AdamW: matrices of linear layers and convolutions decay, everything else does not.

    Norms, biases, class token and position embeddings do not: pulling them towards zero does not make the
    function simpler, it only moves it. Frozen parameters are left out.

    With a `layer_decay` below 1, return two groups for each layer. Their `lr_scale` is 1 for head and last norm,
    layer_decay for the last block, its square for the block before, and so on down to the embeddings. Raises
    ValueError then for a model without `embeddings` and `encoder`.
    Source: Clark et al. 2020 (arXiv 2003.10555), section 3.1.
    """
    matrices = {layer.weight for layer in model.modules() if isinstance(layer, (nn.Linear, nn.Conv2d))}
    groups = []
    for scale, layer in layers_by_scale(model, layer_decay).items():
        for decay, decaying in ((weight_decay, True), (0.0, False)):
            chosen = [weight for weight in layer if weight.requires_grad and (weight in matrices) == decaying]
            groups.append({"params": chosen, "weight_decay": decay, "lr_scale": scale})
    return groups


def layers_by_scale(model: nn.Module, layer_decay: float) -> dict[float, list[nn.Parameter]]:
    """Return {share of the learning rate: the parameters that have it}, with every parameter once."""
    if layer_decay == 1.0:
        return {1.0: list(model.parameters())}
    if not (hasattr(model, "embeddings") and hasattr(model, "encoder")):
        raise ValueError(f"layer_decay needs embeddings and an encoder of blocks, {type(model).__name__} has not both")
    below = [list(layer.parameters()) for layer in (model.embeddings, *model.encoder)]
    known = {parameter for layer in below for parameter in layer}
    top = [parameter for parameter in model.parameters() if parameter not in known]  # last norm and head
    return {layer_decay**above: layer for above, layer in enumerate(reversed([*below, top]))}


def warmup_cosine(step: int, warmup_steps: int, total_steps: int) -> float:
    """Return the learning rate of a step (from 0) as a share of its peak: a straight line up, then half a cosine down.

    The first step is 1/warmup_steps of the peak, not zero, and the cosine would reach zero one step after the last.
    Source: appendix B.1 (linear warm-up of 10k steps; cosine decay in Table 3).
    """
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    return (1 + math.cos(math.pi * (step - warmup_steps) / max(total_steps - warmup_steps, 1))) / 2


def warmup_constant(step: int, warmup_steps: int, total_steps: int) -> float:
    """Return the learning rate of a step as a share of its peak: a straight line up, and no way down."""
    return min((step + 1) / max(warmup_steps, 1), 1.0)


SCHEDULES = {"cosine": warmup_cosine, "constant": warmup_constant}
