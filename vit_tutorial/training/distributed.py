"""One process or several: the few things that differ, in one place."""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import Tensor, nn


def rank_and_world() -> tuple[int, int]:
    """Which process this is and how many there are: (0, 1) unless `torchrun` started more."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_available() and dist.is_initialized() else (0, 1)


def sum_over_processes(tensor: Tensor) -> Tensor:
    """The sum of every process's tensor, the same in all of them."""
    if rank_and_world()[1] > 1:
        dist.all_reduce(tensor)
    return tensor


def distribute(model: nn.Module) -> nn.Module:
    """The model as it trains: with several processes, in DistributedDataParallel, which averages their gradients."""
    if rank_and_world()[1] == 1:
        return model
    device = next(model.parameters()).device
    return nn.parallel.DistributedDataParallel(model, device_ids=[device] if device.type == "cuda" else None)


def start_processes(device: str | None = None) -> torch.device:
    """Join the processes that `torchrun` started, if it did; the device that this one computes on."""
    chosen = torch.device(device) if device else best_device()
    if chosen.type == "cuda":
        if chosen.index is None:
            chosen = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        torch.cuda.set_device(chosen)
    if int(os.environ.get("WORLD_SIZE", 1)) > 1 and not dist.is_initialized():
        dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
    return chosen


def leave_processes() -> None:
    """The end of what `start_processes` began."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


def best_device() -> torch.device:
    """The GPU if there is one (CUDA, or Apple's MPS), the CPU otherwise."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
