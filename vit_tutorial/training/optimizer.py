"""How the weights move: which of them decay, and how large the steps are."""

from __future__ import annotations

import math

from torch import nn


def parameter_groups(model: nn.Module, weight_decay: float) -> list[dict]:
    """Return two groups for AdamW: matrices of linear layers and convolutions decay, everything else does not.

    Norms, biases, class token and position embeddings do not: pulling them towards zero does not make the
    function simpler, it only moves it. Frozen parameters are left out.
    """
    matrices = {layer.weight for layer in model.modules() if isinstance(layer, (nn.Linear, nn.Conv2d))}
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    return [
        {"params": [weight for weight in trained if weight in matrices], "weight_decay": weight_decay},
        {"params": [weight for weight in trained if weight not in matrices], "weight_decay": 0.0},
    ]


def warmup_cosine(step: int, warmup_steps: int, total_steps: int) -> float:
    """Return the learning rate of a step (from 0) as a share of its peak: a straight line up, then half a cosine down.

    The first step is 1/warmup_steps of the peak, not zero, and the cosine would reach zero one step after the last.
    Source: appendix B.1 (linear warm-up of 10k steps; cosine decay in Table 3).
    """
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    return (1 + math.cos(math.pi * (step - warmup_steps) / max(total_steps - warmup_steps, 1))) / 2
