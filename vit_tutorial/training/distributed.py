"""One process or several: the few things that differ, in one place. The command prints this after its options.

several processes
  torchrun --nproc-per-node=4 -m vit_tutorial.train …   starts one process for each GPU (or, on a CPU, for each share
  of the cores). --batch-size stays that of the whole batch: every process takes its part of it, and the gradients
  are averaged by the number of images. So the run is the same but for rounding, and but for what each process draws
  for its own part: dropout, mixup, cutmix, RandAugment.

the scale that a laptop outgrows, on paper
  ViT-L/16 has 304 million parameters. In fp32, weights, gradients and AdamW's two moments are 4 × 1.2 GB = 4.9 GB
  before any activation, in every process: DistributedDataParallel copies all of it. What changes on many GPUs:
  batch     The paper trains with 4096 images a batch (Table 3). On 64 GPUs that is 64 images each. A larger batch
            wants a longer warm-up (10,000 steps there) and, up to a point, a larger learning rate.
  memory    FSDP (torch.distributed.fsdp) gives every GPU only its share of weights, gradients and moments, and
            collects a block's weights just before they are used: 4.9 GB becomes 76 MB on each of 64. Wrap it around
            each EncoderBlock. Activations are then the larger part: recompute them (torch.utils.checkpoint), or
            use bf16, which halves them.
  loader    This loop holds all images in memory, as bytes. ImageNet does not fit. At 64 GPUs × 500 images a second
            someone must decode 32,000 JPEGs a second, at about 100 to 200 a core: 160 to 320 cores, or smaller
            images stored ready to use.
  restart   Hardware fails. A checkpoint for each epoch is too seldom when an epoch takes hours: write one every few
            hundred steps, each GPU its own part (torch.distributed.checkpoint), and keep the order of the images
            a function of (seed, epoch), as here, so that a restart finds its place.
"""

from __future__ import annotations

import os

import torch
import torch.distributed as dist
from torch import Tensor, nn

# Sums live until the processes part. In torch 2.6, gloo's thread needs Python to free a tensor, and the main thread
# holds on to Python while it waits for that thread to end: the last sum, given up too early, made them wait for ever.
summed: list[Tensor] = []


def rank_and_world() -> tuple[int, int]:
    """Which process this is and how many there are: (0, 1) unless `torchrun` started more."""
    return (dist.get_rank(), dist.get_world_size()) if dist.is_available() and dist.is_initialized() else (0, 1)


def sum_over_processes(tensor: Tensor) -> Tensor:
    """The sum of every process's tensor, the same in all of them."""
    if rank_and_world()[1] > 1:
        dist.all_reduce(tensor)
        summed.append(tensor)
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
    """Leave the processes that `start_processes` joined."""
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()
        summed.clear()


def best_device() -> torch.device:
    """The GPU if there is one (CUDA, or for one process Apple's MPS, which gloo does not know), the CPU otherwise."""
    if torch.cuda.is_available():
        return torch.device("cuda")
    alone = int(os.environ.get("WORLD_SIZE", 1)) == 1
    return torch.device("mps" if alone and torch.backends.mps.is_available() else "cpu")
