"""Encoder blocks that lack one thing, and what becomes of a stack of twelve; four suspects, one of them ViT's block."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from ..analysis.forward_pass import stages
from ..data import Shapes
from ..encoder import EncoderBlock
from ..errors import require_choice
from ..model import VisionTransformer
from ..pretrained import load_checkpoint
from ..training import PRESETS, parameter_groups, warmup_cosine
from .sizes import OWN_SCENES
from .tables import BlockRun

DEPTH, STEPS, WARMUP, BATCH = 12, 150, 15, 64


class PostNorm(EncoderBlock):
    """Normalise after each sum, as in the first transformer (Vaswani et al. 2017, arXiv 1706.03762)."""

    def forward(self, z: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        z = self.norm1(z + self.attention(z))
        return self.norm2(z + self.mlp(z))


class NoSums(EncoderBlock):
    """Replace the tokens by what the branches return, instead of adding it."""

    def forward(self, z: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        z = self.attention(self.norm1(z))
        return self.mlp(self.norm2(z))


class NoNorms(EncoderBlock):
    """Give the branches the tokens as they are."""

    def __init__(self, *sizes: int):
        super().__init__(*sizes)
        self.norm1, self.norm2 = nn.Identity(), nn.Identity()


class NormedStream(EncoderBlock):
    """Normalise the tokens themselves, instead of a copy for each branch."""

    def forward(self, z: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        z = self.norm1(z)
        z = self.norm2(z + self.attention(z))
        return z + self.mlp(z)


SUSPECTS = {"A": PostNorm, "B": EncoderBlock, "C": NoSums, "D": NormedStream}
STACKS = {"complete block": EncoderBlock, "no residual sums": NoSums, "no norms": NoNorms, "post-norm": PostNorm}


@torch.random.fork_rng(devices=[])
def try_stack(
    kind: str, start: float = 1.0, rate: float = 1e-3, seed: int = 0, steps: int = STEPS, std: float | None = None
) -> BlockRun:
    """Build twelve blocks of one of STACKS, measure them as they start, and train them on `Shapes` for 150 steps.

    `start` multiplies the matrices of the blocks, which are Xavier's, or have the standard deviation `std`. `rate` is
    the peak of the learning rate, after 15 steps. The same seed gives the same scenes and weights, whatever the kind.
    Raises ValueError for another kind.
    """
    require_choice("kind", kind, STACKS)
    config, recipe = PRESETS["shapes"]
    torch.manual_seed(seed)
    model = VisionTransformer(replace(config, depth=DEPTH))
    model.encoder = nn.Sequential(
        *(STACKS[kind](config.embed_dim, config.num_heads, config.mlp_dim) for _ in range(DEPTH))
    )
    head = torch.randn(config.num_classes, config.embed_dim) / config.embed_dim**0.5
    for matrix in (parameter for parameter in model.encoder.parameters() if parameter.ndim == 2):
        if std is not None:
            nn.init.trunc_normal_(matrix, std=std)
        matrix.data *= start
    scenes = Shapes(steps * BATCH, config.image_size, OWN_SCENES + seed)
    images = load_checkpoint("shapes").card.normalise(scenes.pixels)
    batches = list(zip(images.split(BATCH), scenes.labels.split(BATCH), strict=True))
    measured = measure_start(model, head, *batches[0])
    optimizer = torch.optim.AdamW(parameter_groups(model, recipe.weight_decay), betas=(0.9, recipe.beta2), fused=True)
    losses = []
    for step, (images, labels) in enumerate(batches):
        for group in optimizer.param_groups:
            group["lr"] = rate * warmup_cosine(step, WARMUP, STEPS)
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), recipe.clip_norm)
        optimizer.step()
        losses.append(loss.detach())
    return BlockRun(*measured, torch.stack(losses))


def measure_start(
    model: VisionTransformer, head: Float[Tensor, "K D"], images: Float[Tensor, "B C H W"], labels: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return lengths, apart and gradients of a BlockRun, through a random head: the model's own is still zero."""
    tokens = stages(model, images)
    F.cross_entropy(model.pool(model.norm(tokens[-1])) @ head.T, labels).backward()
    matrices = [[weight.grad for weight in block.parameters() if weight.ndim == 2] for block in model.encoder]
    z = torch.stack(tokens).detach()  # (L+1, B, T, D)
    lengths = mean_length(z)
    apart = mean_length(z - z.mean(dim=2, keepdim=True)) / lengths
    return lengths, apart, torch.stack([nn.utils.get_total_norm(gradients) for gradients in matrices])


def mean_length(z: Float[Tensor, "L B T D"]) -> Float[Tensor, " L"]:
    """Return the root mean square of a token, averaged over all tokens."""
    return z.square().mean(dim=3).sqrt().mean(dim=(1, 2))
