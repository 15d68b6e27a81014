"""Equations 2 and 3: the encoder block, and a stack of them."""

from jaxtyping import Float
from torch import Tensor, nn

from .attention import SelfAttention
from .config import GELUS, ViTConfig
from .errors import require_choice


class Mlp(nn.Module):
    """Pass each token on its own through two linear layers with a GELU between: (B, T, D) → (B, T, D). Section 3.1.

    `gelu` is "exact", x·Φ(x), or "tanh", the approximation in section 2 of Hendrycks & Gimpel 2016 (arXiv 1606.08415).
    """

    def __init__(self, embed_dim: int, mlp_dim: int, dropout: float = 0.0, gelu: str = "exact"):
        super().__init__()
        require_choice("gelu", gelu, GELUS)
        self.expand = nn.Linear(embed_dim, mlp_dim)
        self.activation = nn.GELU(approximate=GELUS[gelu])
        self.dropout1 = nn.Dropout(dropout)
        self.contract = nn.Linear(mlp_dim, embed_dim)
        self.dropout2 = nn.Dropout(dropout)
        for layer in (self.expand, self.contract):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, tokens: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        hidden = self.dropout1(self.activation(self.expand(tokens)))  # (B, T, mlp_dim)
        return self.dropout2(self.contract(hidden))


class DropPath(nn.Dropout):
    """Leave a branch out for each image with probability `p`; the branches that stay grow by 1 / (1 − p).

    (B, T, D) → (B, T, D), in training alone. Source: Huang et al. 2016 (arXiv 1603.09382), *stochastic depth*.
    """

    def forward(self, branch: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        keep = super().forward(branch.new_ones(len(branch), 1, 1))  # for each image 0 or 1 / (1 − p)
        return branch * keep


class EncoderBlock(nn.Module):
    """Let the tokens attend to each other, then pass each through an MLP; add both results to what came in.

    (B, T, D) → (B, T, D). Pre-norm: the sum itself is never normalised. In training, `drop_path` is the
    probability that an image skips a branch. Source: Eqs. 2 and 3.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        mlp_dim: int,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        drop_path: float = 0.0,
        norm_eps: float = 1e-6,
        gelu: str = "exact",
    ):
        super().__init__()
        self.norm1 = nn.LayerNorm(embed_dim, eps=norm_eps)
        self.attention = SelfAttention(embed_dim, num_heads, dropout, attention_dropout)
        self.drop_path1 = DropPath(drop_path) if drop_path else nn.Identity()
        self.norm2 = nn.LayerNorm(embed_dim, eps=norm_eps)
        self.mlp = Mlp(embed_dim, mlp_dim, dropout, gelu)
        self.drop_path2 = DropPath(drop_path) if drop_path else nn.Identity()

    def forward(self, z: Float[Tensor, "B T D"]) -> Float[Tensor, "B T D"]:
        z = z + self.drop_path1(self.attention(self.norm1(z)))  # Eq. 2
        return z + self.drop_path2(self.mlp(self.norm2(z)))  # Eq. 3


class Encoder(nn.Sequential):
    """Stack `depth` blocks: (B, T, D) → (B, T, D). The rate of drop path rises linearly, from 0 in the first block."""

    def __init__(self, config: ViTConfig):
        sizes = (config.embed_dim, config.num_heads, config.mlp_dim, config.dropout, config.attention_dropout)
        rates = [config.drop_path * block / max(config.depth - 1, 1) for block in range(config.depth)]
        super().__init__(*(EncoderBlock(*sizes, rate, config.norm_eps, config.gelu) for rate in rates))

    def __getitem__(self, index):  # nn.Sequential would pass a slice's blocks to `__init__`, as if they were a config
        return nn.Sequential(*list(self)[index]) if isinstance(index, slice) else super().__getitem__(index)
