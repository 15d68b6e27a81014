"""One process or several, started by `torchrun`: everything that differs between the two is in this file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor, nn

# Sums live until the process group ends. In torch 2.6, gloo's thread needs Python to free a tensor, and the main thread
# holds on to Python while it waits for that thread to end: when the last sum was freed too early, they waited for ever.
SUMS: list[Tensor] = []


def rank_and_world() -> tuple[int, int]:
    """Return the number of this process and how many there are: (0, 1) unless `torchrun` started more."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_available() and dist.is_initialized() else (0, 1)


def sum_over_processes(tensor: Tensor) -> Tensor:
    """Add the tensors of all processes, in place; every process gets the sum."""
    if rank_and_world()[1] > 1:
        dist.all_reduce(tensor)
        SUMS.append(tensor)
    return tensor


def distribute(model: nn.Module) -> nn.Module:
    """Wrap the model in DistributedDataParallel, which averages gradients, if there are several processes."""
    if rank_and_world()[1] == 1:
        return model
    device = next(model.parameters()).device
    return nn.parallel.DistributedDataParallel(model, device_ids=[device] if device.type == "cuda" else None)


@contextmanager
def process_group(device: str | None = None) -> Iterator[torch.device]:
    """Join the processes that `torchrun` started, if it did; yield the device that this process computes on."""
    chosen = torch.device(device) if device else best_device()
    if chosen.type == "cuda":
        if chosen.index is None:
            chosen = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(chosen)
    joining = int(os.environ.get("WORLD_SIZE", 1)) > 1 and not dist.is_initialized()
    if joining:
        dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
    try:
        yield chosen
    finally:
        if joining:
            dist.destroy_process_group()
            SUMS.clear()


def best_device() -> torch.device:
    """Return the GPU if there is one, otherwise the CPU. Several processes cannot use MPS: gloo does not support it."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    alone = int(os.environ.get("WORLD_SIZE", 1)) == 1
    return torch.device("mps" if alone and torch.backends.mps.is_available() else "cpu")
