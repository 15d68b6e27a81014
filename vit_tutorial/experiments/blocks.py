"""Encoder blocks that lack the sums or the norms, or place them elsewhere, and stacks of twelve to train."""

from dataclasses import replace

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from ..data import Shapes
from ..encoder import EncoderBlock
from ..errors import require_choice
from ..model import VisionTransformer
from ..training import PRESETS, parameter_groups, warmup_cosine
from .short_trainings import OWN_SCENES, train_once

DEPTH, STEPS, WARMUP, BATCH = 12, 150, 15, 64


class PostNorm(EncoderBlock):
    """Normalise after each sum, as in the first transformer (Vaswani et al. 2017, arXiv 1706.03762)."""

    def forward(self, z: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        z = self.norm1(z + self.attention(z))
        return self.norm2(z + self.mlp(z))


class NoSums(EncoderBlock):
    """Replace the tokens with what the branches return, instead of adding it to them."""

    def forward(self, z: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        z = self.attention(self.norm1(z))
        return self.mlp(self.norm2(z))


class NoNorms(EncoderBlock):
    """Give the branches the tokens as they are, not normalised."""

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
    """Let each token attend to itself only, without sums: no token ever receives anything from another."""

    def forward(self, z: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        _, _, v = self.attention.qkv(self.norm1(z)).chunk(3, dim=-1)
        return self.mlp(self.norm2(self.attention.projection(v)))


SUSPECTS = {"A": PostNorm, "B": EncoderBlock, "C": NoSums, "D": NormedStream}  # an exercise: which is ViT's block?
STACKS = {"complete block": EncoderBlock, "no residual sums": NoSums, "no norms": NoNorms, "post-norm": PostNorm}
STACKS |= {"no sums, each token alone": ItselfOnly}


@torch.random.fork_rng(devices=[])
def make_stack(kind: str, start: float = 1.0, seed: int = 0) -> VisionTransformer:
    """Build the Shapes model with twelve blocks of a kind, a key of STACKS. The same seed gives the same weights.

    `start` is the scale of the blocks' weight matrices: 1 for Xavier's, 0.5 for half of that.
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
    """Train `make_stack(kind, start, seed)` on `Shapes`; return the loss at each step. A seed has scenes of its own.

    The learning rate rises to `rate` in 15 steps, then falls until step 150, or until the last if there are more.
    """
    model = make_stack(kind, start, seed)
    config, recipe = PRESETS["shapes"]
    scenes, losses = Shapes(steps * BATCH, config.image_size, OWN_SCENES + seed), []
    optimizer = torch.optim.AdamW(parameter_groups(model, recipe.weight_decay), rate, (0.9, recipe.beta2), fused=True)
    schedule = LambdaLR(optimizer, lambda step: warmup_cosine(step, WARMUP, max(steps, STEPS)))
    for loss, _ in train_once(model, optimizer, scenes, BATCH):
        losses.append(loss)
        schedule.step()
    return torch.stack(losses)
