"""Change a model for as long as a `with` block lasts, one thread at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import torch
from torch import nn

OWNERS: WeakKeyDictionary[nn.Module, int] = WeakKeyDictionary()  # the thread that is changing a module
LOCK = threading.Lock()


@contextmanager
def eval_mode(model: nn.Module) -> Iterator[None]:
    """Put a model in eval mode inside the block: no dropout. Afterwards every part is in the mode that it was in.

    A model that is in eval mode already stays as it is, and any number of threads may use it. One in train mode is
    changed by one thread at a time: a second one gets a RuntimeError.
    """
    with LOCK:
        check_owner(model)
        modes = [(module, module.training) for module in model.modules()]
    if not any(training for _, training in modes):
        yield
        return
    with changing(model):
        model.eval()
        try:
            yield
        finally:
            for module, training in modes:
                module.training = training


@contextmanager
def changing(model: nn.Module) -> Iterator[None]:
    """Let this thread alone change the model inside the block, which may be nested.

    Raises RuntimeError if another thread is changing the model, or a part of it.
    """
    with LOCK:
        check_owner(model)
        modules = [module for module in model.modules() if module not in OWNERS]
        OWNERS.update(dict.fromkeys(modules, threading.get_ident()))
    try:
        yield
    finally:
        with LOCK:
            for module in modules:
                OWNERS.pop(module, None)


def check_owner(model: nn.Module) -> None:
    """Raise RuntimeError if another thread is changing the model, or a part of it."""
    for module in model.modules():
        check_thread(OWNERS.get(module, threading.get_ident()))


def check_thread(owner: int) -> None:
    """Raise RuntimeError in any thread but the owner. Compiled code does not ask."""
    if not torch.compiler.is_compiling() and threading.get_ident() != owner:
        raise RuntimeError(
            "another thread is training this model, recording or masking its attention, or has put it in eval mode for "
            "a while: "
            "give each thread a copy of its own, made before they start with copy.deepcopy(model)"
        )
