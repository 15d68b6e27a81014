"""Four encoder blocks with the same parts and shapes. One is ViT's: lesson 04 finds it by an experiment."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor

from ..encoder import EncoderBlock


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


class NormedStream(EncoderBlock):
    """Normalise the tokens themselves, instead of a copy for each branch."""

    def forward(self, z: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        z = self.norm1(z)
        z = self.norm2(z + self.attention(z))
        return z + self.mlp(z)


SUSPECTS = {"A": PostNorm, "B": EncoderBlock, "C": NoSums, "D": NormedStream}
