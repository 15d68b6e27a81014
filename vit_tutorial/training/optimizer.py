"""How the weights move: which of them decay, and how large the steps are."""

from __future__ import annotations

import math

from torch import nn


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict]:
    """Two groups for AdamW: the matrices of linear layers and convolutions decay, everything else does not.

    What does not: norms, biases, class token and position embeddings. Pulling these towards zero does not
    make the function simpler, it only moves it. Frozen parameters are left out.
    """
    matrices = {id(layer.weight) for layer in model.modules() if isinstance(layer, (nn.Linear, nn.Conv2d))}
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    return [
        {"params": [p for p in trained if id(p) in matrices], "weight_decay": weight_decay},
        {"params": [p for p in trained if id(p) not in matrices], "weight_decay": 0.0},
    ]


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
