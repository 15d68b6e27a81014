"""Exercises of notebook 06: the learning rate's schedule, what decays, and the accuracy over all batches."""

from __future__ import annotations

import torch

from .accuracy_mistakes import ACCURACY_MISTAKES, TRIALS, by_trial, right_share
from .comparing import at_another_size, recognise
from .decay_groups import CASES, check_groups, groups_from, right_decay
from .differences import kind, same, to_number
from .exercise import exercise
from .running import call
from .schedule import judge_schedule
from .verdict import Wrong


@exercise(
    hint="Two cases. In the warm-up (`step < warmup_steps`) the factor is `(step + 1) / warmup_steps`. After it, with "
    "p the part of the remaining steps that is over, from 0 to 1, it is `(1 + math.cos(math.pi * p)) / 2`.",
    solution="""
import math


def warmup_cosine(step, warmup_steps, all_steps):
    if step < warmup_steps:
        return (step + 1) / warmup_steps  # 1/warmup_steps, 2/warmup_steps, …, 1
    p = (step - warmup_steps) / (all_steps - warmup_steps)  # 0 → 1
    return (1 + math.cos(math.pi * p)) / 2  # 1 → 0
""",
)
def warmup_cosine(function):
    """`fn(step, warmup_steps, all_steps) -> factor`: up to 1 on a straight line, down to 0 along half a cosine."""
    return judge_schedule(function)


@exercise(
    hint="Matrices decay: the weights of linear layers and of the patch convolution. Biases, norms, class token and "
    "positions do not. Go through `model.named_parameters()`, or through `model.modules()`, and put every parameter "
    "into one of two lists.",
    solution="""
from torch import nn


def parameter_groups(model, weight_decay):
    matrices = [layer.weight for layer in model.modules() if isinstance(layer, (nn.Linear, nn.Conv2d))]
    decays = {id(matrix) for matrix in matrices}
    others = [parameter for parameter in model.parameters() if id(parameter) not in decays]
    return [
        {"params": matrices, "weight_decay": weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
""",
)
def parameter_groups(function):
    """`fn(model, weight_decay) -> [{"params": …, "weight_decay": …}, …]`: groups for AdamW; only matrices decay."""
    for number, (build, weight_decay) in enumerate(CASES):
        model = build()
        right = right_decay(model, weight_decay)  # before the reader's function, which may freeze what it is given
        try:
            check_groups(groups_from(function, model, weight_decay), model, weight_decay, right)
        except Wrong as wrong:
            if number:
                start = f"Right for the first model, wrong for one with {model.config.position} positions."
                wrong.message = f"{start}\n{wrong.message}"
            raise


@exercise(
    hint="Count: add up the right answers of all batches, `(logits.argmax(dim=1) == labels).sum()`, and the images, "
    "`len(labels)`. Divide once, at the end.",
    solution="""
def accuracy(batches):
    right = images = 0
    for logits, labels in batches:
        right += (logits.argmax(dim=1) == labels).sum().item()
        images += len(labels)
    return right / images
""",
)
def accuracy(function):
    """`fn(batches) -> share`: for batches of (logits (B, K), labels (B,)), the right answers over all images."""
    for number, trial in enumerate(TRIALS):
        shares = torch.stack([share_of(function, batches) for batches in trial])
        expected = by_trial(right_share)(*trial)
        if not same(shares, expected, 1e-7):
            if number == 0:
                recognise(shares, trial, ACCURACY_MISTAKES, 1e-7)
            at = next(i for i, share in enumerate(expected) if not same(shares[i], share, 1e-7))
            sizes = [len(labels) for _, labels in trial[at]]
            text = (
                f"{expected[at]:.4f} expected, got {shares[at]:.4f}. The batches have {', '.join(map(str, sizes))} "
                f"images: {expected[at] * sum(sizes):.0f} of {sum(sizes)} answers are right."
            )
            raise Wrong(at_another_size(text, number, TRIALS))


def share_of(function, batches: list) -> torch.Tensor:
    result = call(function, batches)
    share = to_number(result)
    if share is None:
        each = " One for each batch?" if hasattr(result, "__len__") and len(result) == len(batches) else ""
        raise Wrong(f"The accuracy is one number; got {kind(result)}.{each}")
    return torch.tensor(share, dtype=torch.float64, device="cpu")
