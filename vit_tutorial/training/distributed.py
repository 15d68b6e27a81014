"""One process or several, started by `torchrun`: everything that differs between the two is in this file."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch import Tensor, nn


def rank_and_world() -> tuple[int, int]:
    """Return the number of this process and how many there are: (0, 1) unless `torchrun` started more."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_available() and dist.is_initialized() else (0, 1)


def is_first() -> bool:
    """Tell whether this process is the one that writes files, prints and warns."""
    return rank_and_world()[0] == 0


def say(*lines: object) -> None:
    """Print these lines once, and not in every process."""
    if is_first():
        print(*lines, sep="\n", flush=True)


def my_part(pixels: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, float]:
    """Return this process's rows of a batch, and what their mean counts for when DistributedDataParallel averages."""
    rank, world = rank_and_world()
    part = labels.tensor_split(world)[rank]
    return pixels.tensor_split(world)[rank], part, world * len(part) / len(labels)


def seed_process(seed: int) -> None:
    """Seed PyTorch's generator with the seed and the rank: each process draws its own dropout and mixing."""
    torch.manual_seed(4096 * (1 + seed) + rank_and_world()[0])


def distribute(model: nn.Module) -> nn.Module:
    """Wrap the model in DistributedDataParallel, which averages gradients, if there are several processes."""
    return nn.parallel.DistributedDataParallel(model) if rank_and_world()[1] > 1 else model


@contextmanager
def process_group(device: str | None = None) -> Iterator[torch.device]:
    """Join the processes that `torchrun` started, if it did; yield the device that this process computes on."""
    several = int(os.environ.get("WORLD_SIZE", 1)) > 1
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if device is None:
        device = "cuda" if there["cuda"] else "mps" if there["mps"] and not several else "cpu"  # gloo takes no mps
    if not there[device]:
        raise ValueError(f"PyTorch finds no {device} here")
    if device == "cuda":
        device = f"cuda:{os.environ.get('LOCAL_RANK', 0)}"
        torch.cuda.set_device(device)
    if several:
        dist.init_process_group("nccl" if device.startswith("cuda") else "gloo")
    if not is_first():
        warnings.simplefilter("ignore")
    try:
        yield torch.device(device)
    finally:
        if several:
            dist.destroy_process_group()
