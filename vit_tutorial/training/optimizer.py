"""How the weights move: which of them decay, and how large the steps are."""

from __future__ import annotations

import math

from torch import nn


def parameter_groups(model: nn.Module, weight_decay: float, layer_decay: float = 1.0) -> list[dict]:
    """Two groups for AdamW: the matrices of linear layers and convolutions decay, everything else does not.

    What does not: norms, biases, class token and position embeddings. Pulling these towards zero does not
    make the function simpler, it only moves it. Frozen parameters are left out.

    With a `layer_decay` below 1 there are two groups for each layer, and their `lr_scale` is 1 for head and
    last norm, layer_decay for the last block, its square for the block before, and so on to the embeddings.
    Raises ValueError for a model without `embeddings` and `encoder` then.
    Source: Clark et al. 2020 (arXiv 2003.10555), section 3.1.
    """
    matrices = {id(layer.weight) for layer in model.modules() if isinstance(layer, (nn.Linear, nn.Conv2d))}
    groups = []
    for scale, parameters in layers_by_rate(model, layer_decay).items():
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        for decay, members in (
            (weight_decay, [p for p in trained if id(p) in matrices]),
            (0.0, [p for p in trained if id(p) not in matrices]),
        ):
            groups.append({"params": members, "weight_decay": decay, "lr_scale": scale})
    return groups


def layers_by_rate(model: nn.Module, layer_decay: float) -> dict[float, list[nn.Parameter]]:
    """{share of the learning rate: the parameters that have it}, all of them once."""
    if layer_decay == 1.0:
        return {1.0: list(model.parameters())}
    if not (hasattr(model, "embeddings") and hasattr(model, "encoder")):
        raise ValueError(f"layer_decay needs embeddings and an encoder of blocks, {type(model).__name__} has not both")
    below = [list(layer.parameters()) for layer in (model.embeddings, *model.encoder)]
    known = {id(parameter) for layer in below for parameter in layer}
    top = [parameter for parameter in model.parameters() if id(parameter) not in known]  # last norm and head
    return {layer_decay**above: layer for above, layer in enumerate(reversed([*below, top]))}


def warmup_cosine(step: int, warmup_steps: int, total_steps: int) -> float:
    """The learning rate of a step (from 0) as a share of its peak: a straight line up to 1, then half a cosine down.

    The first step is 1/warmup_steps of the peak, not zero, and the cosine would reach zero one step after the last.
    Source: appendix B.1 (linear warm-up of 10k steps; cosine decay in Table 3).
    """
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    return (1 + math.cos(math.pi * (step - warmup_steps) / (total_steps - warmup_steps))) / 2


def warmup_constant(step: int, warmup_steps: int, total_steps: int) -> float:
    """Warm-up, and then the peak to the end."""
    return min((step + 1) / max(warmup_steps, 1), 1.0)


SCHEDULES = {"cosine": warmup_cosine, "constant": warmup_constant}
