"""Trace the shapes of everything on the way through a model."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from functools import partial
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from ..inference import changing, require_thread


class Step(NamedTuple):
    """One module's turn in a forward pass: its name in the model, its class, the shape that it returns."""

    name: str
    module: str
    shape: tuple[int, ...]


@torch.no_grad()
def trace_shapes(model: nn.Module, images: Float[Tensor, "B C H W"]) -> list[Step]:
    """Call the model once and return the shape of what every module returns, in the order in which they finish.

    Works for any module of PyTorch, and leaves it as it was; the model itself comes last, under the name "". A module
    that returns no tensor is left out. Another thread that uses the model meanwhile gets a RuntimeError.
    """
    steps, thread = [], threading.get_ident()

    def note(name: str, module: nn.Module, inputs: tuple, output: object) -> None:
        require_thread(thread)
        if isinstance(output, Tensor):
            steps.append(Step(name, type(module).__name__, tuple(output.shape)))

    with changing(model), ExitStack() as hooks:
        for name, module in model.named_modules():
            hooks.enter_context(module.register_forward_hook(partial(note, name)))
        model(images)
    return steps
