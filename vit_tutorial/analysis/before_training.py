"""Test a new image classifier before you train it: what each test should find is known in advance.

The tests work on copies in train mode without dropout: the model and the global random generator stay as they were.
"""

import copy
import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook

from ..config import Size
from ..patchify import patchify, unpatchify

Images, Labels = Float[Tensor, "B C H W"], Int64[Tensor, " B"]


class FirstTests(NamedTuple):
    """What the tests measure on one batch of B images."""

    first_loss: float  # cross-entropy before any training: ln K for a model that finds K classes equally likely
    right: int  # of the images, after training on this batch alone
    last_loss: float
    image_leak: float  # largest gradient of an image's largest logit with respect to another image's pixels
    shuffle_change: float  # largest change of a logit when the patches are shuffled, over the largest logit

    def noticed(self, num_classes: int) -> dict[str, bool]:
        """Return which of the four tests notice that something is wrong with a model of so many classes."""
        return {
            "first loss": abs(self.first_loss - math.log(num_classes)) > 0.5,
            "one batch": self.last_loss > 0.5,
            "leak (gradient)": self.image_leak > 0,
            "shuffle (change)": self.shuffle_change < 1e-4,
        }


def first_tests(model: nn.Module, images: Images, labels: Labels, patch_size: Size, steps: int = 40) -> FirstTests:
    """Run all tests on a model (B, C, H, W) → (B, K) with one batch, of 16 images or so."""
    learned = memorise(model, images, labels, steps)
    return FirstTests(*learned, image_leak(model, images), shuffle_change(model, images, patch_size))


def memorise(model: nn.Module, images: Images, labels: Labels, steps: int) -> tuple[float, int, float]:
    """Train a copy on this one batch with AdamW; return the loss before, the images then right, the loss after."""
    trial, losses = trial_copy(model), []
    optimizer = torch.optim.AdamW(trial.parameters(), lr=3e-3, fused=True)
    for _ in range(steps):
        loss = F.cross_entropy(trial(images), labels)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        logits = trial(images)
    return losses[0], (logits.argmax(dim=1) == labels).sum().item(), F.cross_entropy(logits, labels).item()


def image_leak(model: nn.Module, images: Images) -> float:
    """Return the largest gradient of an image's largest logit with respect to another image's pixels."""
    pixels = images.clone().requires_grad_()
    logits = with_random_head(model, images)(pixels)
    largest = 0.0
    for i, own in enumerate(logits.max(dim=1).values):
        (gradient,) = torch.autograd.grad(own, pixels, retain_graph=True)
        gradient[i] = 0
        largest = max(largest, gradient.abs().max().item())
    return largest


@torch.no_grad()
def shuffle_change(model: nn.Module, images: Images, patch_size: Size) -> float:
    """Shuffle all images alike; return the largest change of a logit over the largest logit, and nan for one patch."""
    patches = patchify(images, patch_size)  # (B, N, C·P·P)
    N, dice = patches.shape[1], torch.Generator().manual_seed(0)
    if N == 1:
        return math.nan
    order = torch.randperm(N, generator=dice)
    if torch.equal(order, torch.arange(N)):  # a random order of few patches may move none
        order = order.roll(1)
    shuffled = unpatchify(patches[:, order], patch_size, tuple(images.shape[2:]))
    trial = with_random_head(model, images)
    before, after = trial(images), trial(shuffled)
    return ((after - before).abs().max() / before.abs().max()).item()


def trial_copy(model: nn.Module) -> nn.Module:
    """Return a copy in train mode without dropout."""
    trial = copy.deepcopy(model).train()
    for module in trial.modules():
        if "Drop" in type(module).__name__:  # nn.Dropout and its kin, and stochastic depth of any library
            module.eval()
        for name in ("dropout", "attention_dropout"):  # of attention weights
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
    return trial


@torch.no_grad()
def with_random_head(model: nn.Module, images: Images) -> nn.Module:
    """Return a `trial_copy` in which the linear layer that runs last has new random weights: zeros would hide all."""
    trial, ran = trial_copy(model), []
    with register_module_forward_hook(lambda module, inputs, output: ran.append(module)):
        trial(images)
    head = [module for module in ran if isinstance(module, nn.Linear)][-1]
    weights = torch.empty(head.weight.shape)  # drawn on the CPU, as the generator is
    head.weight.copy_(nn.init.normal_(weights, std=0.02, generator=torch.Generator().manual_seed(0)))
    return trial
