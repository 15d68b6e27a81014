"""Bugs that raise no error, each one change to a working Vision Transformer, and what `first_tests` finds of them."""

import random
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import nn

from ..analysis.before_training import FirstTests, Images, Labels, first_tests
from ..config import Size, ViTConfig
from ..errors import require_choice
from ..model import MeanPool, VisionTransformer
from ..positions import NoPosition

BUGS = (
    "none", "softmax inside the model", "no final norm", "head reads the last token", "positions never added",
    "attention across the batch", "across, mean of patches", "blocks in a plain list", "labels shifted by one",
    "head drawn with std 1", "no residual",
)  # fmt: skip
MORE_BUGS = ("no residual in the last block", "head reads the mean")  # for a reader's own test


class AcrossTheBatch(nn.Sequential):
    """Attend along the first dimension, as `nn.MultiheadAttention` does unless told `batch_first=True`."""

    def forward(self, tokens):
        return super().forward(tokens.transpose(0, 1)).transpose(0, 1)


class PlainList(nn.Module):
    """Run blocks that stand in a plain list, in which PyTorch finds no parameters, instead of an nn.ModuleList."""

    def __init__(self, blocks):
        super().__init__()
        self.blocks = blocks

    def forward(self, z):
        for block in self.blocks:
            z = block(z)
        return z


def without_sums(block: nn.Module) -> nn.Sequential:
    """Return the block's layers, one after the other and without its residual sums."""
    return nn.Sequential(OrderedDict(block.named_children()))


def plant(bug: str, model: VisionTransformer, labels: Labels) -> tuple[nn.Module, Labels]:
    """Plant one of BUGS or MORE_BUGS in the model, in place, or in the labels; return both."""
    require_choice("bug", bug, BUGS + MORE_BUGS)
    match bug:
        case "softmax inside the model":
            model = nn.Sequential(model, nn.Softmax(dim=1))
        case "no final norm":
            model.norm = nn.Identity()
        case "head reads the last token":
            model.pool.forward = lambda tokens: tokens[:, -1]  # a patch, and not the class token
        case "positions never added":
            model.embeddings.position = NoPosition(model.config.grid, model.config.embed_dim)
        case "attention across the batch" | "across, mean of patches":
            for block in model.encoder:
                block.attention = AcrossTheBatch(block.attention)
            if bug == "across, mean of patches":
                model.pool = MeanPool()
        case "blocks in a plain list":
            model.encoder = PlainList(list(model.encoder))
        case "labels shifted by one":
            labels = labels.roll(1)
        case "head drawn with std 1":
            nn.init.normal_(model.head.weight)
        case "no residual":
            model.encoder = nn.Sequential(*map(without_sums, model.encoder))
        case "no residual in the last block":
            model.encoder[-1] = without_sums(model.encoder[-1])
        case "head reads the mean":
            model.pool = MeanPool()
    return model, labels


@torch.random.fork_rng(devices=[])
def bug_table(config: ViTConfig, images: Images, labels: Labels, bugs: Sequence[str]) -> dict[str, FirstTests]:
    """Run the first tests on the same untrained model with each of these bugs in turn."""
    table = {}
    for bug in bugs:
        torch.manual_seed(0)
        model, its_labels = plant(bug, VisionTransformer(config), labels)
        table[bug] = first_tests(model, images, its_labels, config.patch_size)
    return table


@dataclass
class BrokenModel:
    """A model and the labels of a batch, one of them with a bug. Printing it does not tell which bug."""

    model: nn.Module = field(repr=False)
    labels: Labels = field(repr=False)
    bug: str = field(repr=False)
    patch_size: Size = field(repr=False)

    def measured(self, images: Images) -> str:
        """Say what `first_tests` and a count of the parameters find."""
        found = first_tests(self.model, images, self.labels, self.patch_size)
        count = sum(parameter.numel() for parameter in self.model.parameters())
        return (
            f"first loss {found.first_loss:.2f}; {found.right} of {len(images)} memorised, loss {found.last_loss:.2f}; "
            f"leak {found.image_leak:.3f}; a shuffle changes {found.shuffle_change:.2%}; {count:,} parameters"
        )


SEEDS_THAT_SHOW = range(1, 6)  # with these, each bug shows in the same tests as in the lesson's table, of seed 0


@torch.random.fork_rng(devices=[])
def draw_bug(config: ViTConfig, labels: Labels, seed: int | None = None) -> BrokenModel:
    """Plant a random one of BUGS in a new model, or in the labels. The same `seed` gives the same."""
    dice = random.Random(seed)
    bug = dice.choice(BUGS[1:])
    torch.manual_seed(dice.choice(SEEDS_THAT_SHOW))
    return BrokenModel(*plant(bug, VisionTransformer(config), labels), bug, config.patch_size)
