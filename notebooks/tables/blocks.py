"""Make blocks.csv, for lesson 04: the encoder block, and blocks that lack one thing.

Takes about 25 minutes on two cores.
"""

from dataclasses import replace

import torch
import torch.nn.functional as F
from common import CONFIG, RECIPE, SEEDS, cell, write_table
from torch import Tensor, nn
from vit_tutorial import EncoderBlock, Shapes, VisionTransformer, load_checkpoint
from vit_tutorial.experiments.blocks import NoSums, PostNorm
from vit_tutorial.experiments.sizes import OWN_SCENES
from vit_tutorial.experiments.tables import BlockRun
from vit_tutorial.training import parameter_groups, warmup_cosine

DEPTH, STEPS, BATCH = 12, 150, 64
RATE = 1e-3  # at 3e-3 "no norms" ends in nan


class NoNorms(EncoderBlock):
    def __init__(self, *sizes: int):
        super().__init__(*sizes)
        self.norm1, self.norm2 = nn.Identity(), nn.Identity()


class BatchNormBlock(EncoderBlock):
    def __init__(self, embed_dim: int, *sizes: int):
        super().__init__(embed_dim, *sizes)
        self.norm1, self.norm2 = BatchNorm(embed_dim), BatchNorm(embed_dim)


class BatchNorm(nn.BatchNorm1d):
    """Normalise each feature over all tokens of all images: (B, T, D) → (B, T, D)."""

    def forward(self, z: Tensor) -> Tensor:
        return super().forward(z.flatten(0, 1)).view_as(z)


VARIANTS = {  # the block, the steps of warm-up, and the rate at its peak
    "complete block": (EncoderBlock, 15, RATE),
    "no residual sums": (NoSums, 15, RATE),
    "no norms": (NoNorms, 15, RATE),
    "BatchNorm": (BatchNormBlock, 15, RATE),
    "post-norm": (PostNorm, 15, RATE),
    "post-norm, long warm-up": (PostNorm, 75, RATE),
    "complete block, half the rate": (EncoderBlock, 15, RATE / 2),
    "post-norm, half the rate": (PostNorm, 15, RATE / 2),
    "complete block, a tenth": (EncoderBlock, 15, RATE / 10),
    "no residual sums, a tenth": (NoSums, 15, RATE / 10),
    "no norms, a tenth": (NoNorms, 15, RATE / 10),
    "post-norm, a tenth": (PostNorm, 15, RATE / 10),
}
STARTS = ("Xavier", "half of Xavier", "std 0.02")


def measure(variant: str, seed: int, steps: int = STEPS) -> BlockRun:
    """Build twelve blocks of a variant, measure them at the start, and take the first steps of 150.

    The same seed gives the same weights at the start and the same images, whatever the variant.
    """
    kind, warmup, rate = VARIANTS[variant]
    torch.manual_seed(seed)
    model = VisionTransformer(replace(CONFIG, depth=DEPTH))
    sizes = (CONFIG.embed_dim, CONFIG.num_heads, CONFIG.mlp_dim)
    model.encoder = nn.Sequential(*(kind(*sizes) for _ in range(DEPTH)))
    head = torch.randn(CONFIG.num_classes, CONFIG.embed_dim) / CONFIG.embed_dim**0.5
    scenes = Shapes(steps * BATCH, 28, OWN_SCENES + seed)
    images = load_checkpoint("shapes").card.normalise(scenes.pixels)
    batches = list(zip(images.split(BATCH), scenes.labels.split(BATCH), strict=True))
    start = measure_start(model, head, *batches[0])
    return BlockRun(*start, take_steps(model, batches, warmup, rate))


def measure_start(
    model: VisionTransformer, head: Tensor, images: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return lengths, apart and gradients, through a random head: the model's own is still zero."""
    tokens = [model.embeddings(images)]
    for block in model.encoder:
        tokens.append(block(tokens[-1]))
    F.cross_entropy(model.pool(model.norm(tokens[-1])) @ head.T, labels).backward()
    gradients = []
    for block in model.encoder:
        matrices = [weight.grad for weight in block.parameters() if weight.ndim == 2]
        gradients.append(nn.utils.get_total_norm(matrices))
    z = torch.stack(tokens).detach()  # (L+1, B, T, D)
    lengths = mean_length(z)
    return lengths, mean_length(z - z.mean(dim=2, keepdim=True)) / lengths, torch.stack(gradients)


def mean_length(z: Tensor) -> Tensor:
    """Return the root mean square of a token, (L+1, B, T, D) → (L+1,), averaged over all tokens."""
    return z.square().mean(dim=3).sqrt().mean(dim=(1, 2))


def take_steps(
    model: VisionTransformer, batches: list[tuple[Tensor, Tensor]], warmup: int, rate: float
) -> Tensor:
    """Take one optimizer step for each batch, as `fit` does; return the losses."""
    losses = []
    groups = parameter_groups(model, RECIPE.weight_decay)
    optimizer = torch.optim.AdamW(groups, betas=(0.9, RECIPE.beta2), fused=True)
    for step, (images, labels) in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = rate * warmup_cosine(step, warmup, STEPS)
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), RECIPE.clip_norm)
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)


if __name__ == "__main__":
    lines = (
        (variant, seed, *map(cell, measure(variant, seed)))
        for seed in SEEDS
        for variant in VARIANTS
    )
    write_table("blocks", ["variant", "seed", *BlockRun._fields], lines)
