"""Encoder blocks that lack one thing, and what becomes of a stack of twelve; four suspects, one of them ViT's block."""

from dataclasses import replace

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
from .short_trainings import OWN_SCENES

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


class ItselfOnly(NoSums):
    """Let each token attend to itself only, without sums: what a token is replaced by holds nothing of the others."""

    def forward(self, z: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        _, _, v = self.attention.qkv(self.norm1(z)).chunk(3, dim=-1)
        return self.mlp(self.norm2(self.attention.projection(v)))


SUSPECTS = {"A": PostNorm, "B": EncoderBlock, "C": NoSums, "D": NormedStream}
STACKS = {"complete block": EncoderBlock, "no residual sums": NoSums, "no norms": NoNorms, "post-norm": PostNorm}
STACKS |= {"no sums, each token alone": ItselfOnly}


@torch.random.fork_rng(devices=[])
def make_stack(kind: str, start: float = 1.0, seed: int = 0) -> VisionTransformer:
    """Build the small model with twelve blocks of one of STACKS; `start` multiplies their matrices, which are Xavier's.

    The same seed gives the same weights.
    """
    require_choice("kind", kind, STACKS)
    config, _ = PRESETS["shapes"]
    torch.manual_seed(seed)
    model = VisionTransformer(replace(config, depth=DEPTH))
    sizes = (config.embed_dim, config.num_heads, config.mlp_dim)
    model.encoder = nn.Sequential(*(STACKS[kind](*sizes) for _ in range(DEPTH)))
    for parameter in model.encoder.parameters():
        if parameter.ndim == 2:
            parameter.data *= start
    return model


def try_stack(
    kind: str, start: float = 1.0, rate: float = 1e-3, seed: int = 0, steps: int = STEPS
) -> Float[Tensor, " steps"]:
    """Train `make_stack(kind, start, seed)` on `Shapes` for `steps` steps; return the loss at each.

    `rate` is the peak of the learning rate, after 15 steps; it falls until the last step, or until step 150 in a
    shorter run. Gradients are clipped to a norm of 1. The same seed gives the same scenes.
    """
    model = make_stack(kind, start, seed)
    config, recipe = PRESETS["shapes"]
    scenes = Shapes(steps * BATCH, config.image_size, OWN_SCENES + seed)
    images = load_checkpoint("shapes").card.normalise(scenes.pixels)
    optimizer = torch.optim.AdamW(parameter_groups(model, recipe.weight_decay), betas=(0.9, recipe.beta2), fused=True)
    losses = []
    for step, (batch, labels) in enumerate(zip(images.split(BATCH), scenes.labels.split(BATCH), strict=True)):
        for group in optimizer.param_groups:
            group["lr"] = rate * warmup_cosine(step, WARMUP, max(steps, STEPS))
        loss = F.cross_entropy(model(batch), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), recipe.clip_norm)
        optimizer.step()
        losses.append(loss.detach())
    return torch.stack(losses)
