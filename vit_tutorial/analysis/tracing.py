"""The shape of everything on the way through a model."""

from __future__ import annotations

import threading
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
    """The shape of what every module returns, in the order in which they finish.

    The model is called once, without gradients, and is left as it was. A module that returns no tensor
    is left out. Works for any module of PyTorch; the model itself comes last, under the name "". Another thread
    that uses the model meanwhile gets a RuntimeError.
    """
    steps, thread = [], threading.get_ident()

    def note(name):
        def hook(module, inputs, output):
            require_thread(thread)
            if isinstance(output, Tensor):
                steps.append(Step(name, type(module).__name__, tuple(output.shape)))

        return hook

    with changing(model):
        handles = [module.register_forward_hook(note(name)) for name, module in model.named_modules()]
        try:
            model(images)
        finally:
            for handle in handles:
                handle.remove()
    return steps
