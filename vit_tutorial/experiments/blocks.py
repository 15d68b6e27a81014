"""Encoder blocks that lack one thing, and what becomes of a stack of twelve; four suspects, one of them ViT's block."""

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
from .small_tasks import OWN_SCENES
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

    def __init__(self, embed_dim: int, num_heads: int, mlp_dim: int):
        super().__init__(embed_dim, num_heads, mlp_dim)
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
    the peak of the learning rate, after 15 steps. The same seed gives the same scenes and weights.
    """
    require_choice("kind", kind, STACKS)
    config, recipe = PRESETS["shapes"]
    torch.manual_seed(seed)
    model = VisionTransformer(replace(config, depth=DEPTH))
    sizes = (config.embed_dim, config.num_heads, config.mlp_dim)
    model.encoder = nn.Sequential(*(STACKS[kind](*sizes) for _ in range(DEPTH)))
    for parameter in model.encoder.parameters():
        if parameter.ndim == 2 and std is not None:
            nn.init.trunc_normal_(parameter, std=std)
        if parameter.ndim == 2:
            parameter.data *= start
    scenes = Shapes(steps * BATCH, config.image_size, OWN_SCENES + seed)
    images = load_checkpoint("shapes").card.normalise(scenes.pixels)
    batches = list(zip(images.split(BATCH), scenes.labels.split(BATCH), strict=True))
    with torch.no_grad():
        z = torch.stack(stages(model, batches[0][0]))  # (L+1, B, T, D)
    lengths, from_mean = mean_length(z), mean_length(z - z.mean(dim=2, keepdim=True))
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
    return BlockRun(lengths, from_mean / lengths, torch.stack(losses))


def mean_length(z: Float[Tensor, "L B T D"]) -> Float[Tensor, " L"]:
    """Return the root mean square of a token, averaged over all tokens."""
    return z.square().mean(dim=3).sqrt().mean(dim=(1, 2))
