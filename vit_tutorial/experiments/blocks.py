"""Remove one thing from the encoder block: what becomes of its tokens and gradients, and does it still learn?"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from ..data import Shapes
from ..encoder import EncoderBlock
from ..errors import require_choice
from ..model import VisionTransformer
from ..pretrained import load_checkpoint
from ..training import PRESETS, parameter_groups, warmup_cosine
from .rows import OWN_SCENES

CONFIG = replace(PRESETS["shapes"].config, depth=12)
RECIPE = replace(PRESETS["shapes"].recipe, batch_size=64, learning_rate=1e-3)  # at 3e-3 "no norms" ends in nan
STEPS = 150


class NoSums(EncoderBlock):
    def forward(self, z: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        return self.mlp(self.norm2(self.attention(self.norm1(z))))


class NoNorms(EncoderBlock):
    def __init__(self, *sizes: int):
        super().__init__(*sizes)
        self.norm1, self.norm2 = nn.Identity(), nn.Identity()


class BatchNormBlock(EncoderBlock):
    def __init__(self, embed_dim: int, *sizes: int):
        super().__init__(embed_dim, *sizes)
        self.norm1, self.norm2 = BatchNorm(embed_dim), BatchNorm(embed_dim)


class PostNorm(EncoderBlock):
    def forward(self, z: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        z = self.norm1(z + self.attention(z))
        return self.norm2(z + self.mlp(z))


class BatchNorm(nn.BatchNorm1d):
    """Normalise each feature over all tokens of all images: (B, T, D) → (B, T, D)."""

    def forward(self, z: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        return super().forward(z.flatten(0, 1)).view_as(z)


class NormedStream(EncoderBlock):
    def forward(self, z: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        z = self.norm1(z)
        z = self.norm2(z + self.attention(z))
        return z + self.mlp(z)


SUSPECTS = {"A": PostNorm, "B": EncoderBlock, "C": NoSums, "D": NormedStream}  # lesson 04: which is the block of ViT?

# The block, the steps over which the learning rate rises, and the rate, as a share of the recipe's.
VARIANTS = {
    "complete block": (EncoderBlock, 15, 1.0),
    "no residual sums": (NoSums, 15, 1.0),
    "no norms": (NoNorms, 15, 1.0),
    "BatchNorm": (BatchNormBlock, 15, 1.0),
    "post-norm": (PostNorm, 15, 1.0),
    "post-norm, long warm-up": (PostNorm, 75, 1.0),
    "complete block, half the rate": (EncoderBlock, 15, 0.5),
    "post-norm, half the rate": (PostNorm, 15, 0.5),
    "complete block, a tenth": (EncoderBlock, 15, 0.1),
    "no residual sums, a tenth": (NoSums, 15, 0.1),
    "no norms, a tenth": (NoNorms, 15, 0.1),
    "post-norm, a tenth": (PostNorm, 15, 0.1),
}


class BlockRun(NamedTuple):
    """What `measure_block` returns: (L+1,) for the tokens before and after each of L blocks, (L,) and (steps,).

    `lengths`: root mean square over a token's values, mean over the tokens of 64 images, at the start.
    `apart`: how far tokens are from the mean token of their image, as a share of their length, at the start.
    `gradients`: norm of the loss gradient by the matrices of each block, at the start. Without norms only their order
    of magnitude holds from one machine to the next: rounding is enough to change them several times over.
    `losses`: cross-entropy of each step's 64 images, which are new in every step.
    """

    lengths: Tensor
    apart: Tensor
    gradients: Tensor
    losses: Tensor


def measure_block(variant: str, seed: int, steps: int = STEPS) -> BlockRun:
    """Build twelve blocks of a variant, measure them at the start, and take the first `steps` of 150 training steps.

    Same seed, same weights at the start and same images, whatever the variant. Raises ValueError for an unknown one.
    """
    require_choice("variant", variant, VARIANTS)
    kind, warmup, share = VARIANTS[variant]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = VisionTransformer(CONFIG)
        sizes = (CONFIG.embed_dim, CONFIG.num_heads, CONFIG.mlp_dim)
        model.encoder = nn.Sequential(*(kind(*sizes) for _ in range(CONFIG.depth)))
        head = torch.randn(CONFIG.num_classes, CONFIG.embed_dim) / CONFIG.embed_dim**0.5
        scenes = Shapes(steps * RECIPE.batch_size, CONFIG.image_size, OWN_SCENES + seed)
        images = load_checkpoint("shapes").card.normalise(scenes.pixels)
        batches = list(zip(images.split(RECIPE.batch_size), scenes.labels.split(RECIPE.batch_size), strict=True))
        return BlockRun(*measure_start(model, head, *batches[0]), train(model, batches, warmup, share))


def measure_start(model: VisionTransformer, head: Tensor, images: Tensor, labels: Tensor) -> tuple[Tensor, ...]:
    """Return lengths, apart and gradients. The model's own head is zero and lets no gradient through: use another."""
    tokens = [model.embeddings(images)]
    for block in model.encoder:
        tokens.append(block(tokens[-1]))
    F.cross_entropy(model.pool(model.norm(tokens[-1])) @ head.T, labels).backward()
    matrices = ([weight.grad for weight in block.parameters() if weight.ndim == 2] for block in model.encoder)
    gradients = torch.stack([nn.utils.get_total_norm(block) for block in matrices])
    z = torch.stack(tokens).detach()  # (L+1, B, T, D)
    lengths, apart = (x.square().mean(dim=3).sqrt().mean(dim=(1, 2)) for x in (z, z - z.mean(dim=2, keepdim=True)))
    return lengths, apart / lengths, gradients


def train(model: nn.Module, batches: list[tuple[Tensor, Tensor]], warmup: int, share: float) -> Float[Tensor, " steps"]:
    """Take one optimizer step for each batch, as `fit` does; return the losses."""
    groups, losses = parameter_groups(model, RECIPE.weight_decay), []
    optimizer = torch.optim.AdamW(groups, betas=(0.9, RECIPE.beta2), fused=True)
    for step, (images, labels) in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = share * RECIPE.learning_rate * warmup_cosine(step, warmup, STEPS)
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), RECIPE.clip_norm)
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)
