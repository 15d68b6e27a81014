"""Equation 1: z₀ = [x_class; x₁E; …; x_N E] + E_pos. From pixels to the tokens of the encoder."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .config import Size, ViTConfig, to_pair
from .patchify import validate_images
from .validation import check_positive, check_sincos, check_size


class PatchEmbedding(nn.Module):
    """One linear map, the same for every patch: (B, C, H, W) → (B, N, D).

    A convolution whose stride is its kernel size is that map: `projection.weight.flatten(1)` is the
    matrix E (transposed) of Eq. 1 for patches flattened by `patchify`.

    Raises ValueError if the images do not fit (rank, channels, integers, a broken patch), or, where
    `image_size` is given, are of another size.
    """

    def __init__(self, patch_size: Size, in_channels: int, embed_dim: int, image_size: Size | None = None):
        super().__init__()
        check_size("patch_size", patch_size)
        check_positive("in_channels", in_channels)
        check_positive("embed_dim", embed_dim)
        self.patch_size, self.in_channels, self.image_size = to_pair(patch_size), in_channels, image_size
        self.projection = nn.Conv2d(in_channels, embed_dim, kernel_size=self.patch_size, stride=self.patch_size)
        nn.init.normal_(self.projection.weight, std=self.projection.weight[0].numel() ** -0.5)
        nn.init.zeros_(self.projection.bias)

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B N D"]:
        validate_images(images, self.patch_size, self.in_channels, self.image_size)
        return self.projection(images).flatten(2).transpose(1, 2)  # (B, D, h, w) → (B, D, N) → (B, N, D)


class Embeddings(nn.Module):
    """Patches, class token first, and positions: (B, C, H, W) → (B, 1+N, D). Eq. 1.

    The position is added after the class token is prepended, so the class token has one too.
    Dropout follows the positions (appendix B.1). Raises ValueError as `PatchEmbedding` does.
    """

    def __init__(self, config: ViTConfig):
        super().__init__()
        self.patches = PatchEmbedding(config.patch_size, config.in_channels, config.embed_dim, config.image_size)
        self.class_token = nn.Parameter(torch.zeros(1, 1, config.embed_dim))
        self.position = POSITIONS[config.position](config.grid, config.embed_dim)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, images: Float[Tensor, "B C H W"]) -> Float[Tensor, "B T D"]:
        patches = self.patches(images)  # (B, N, D)
        class_token = self.class_token.expand(len(images), -1, -1)  # (B, 1, D)
        tokens = torch.cat([class_token, patches], dim=1)  # (B, 1+N, D)
        return self.dropout(tokens + self.position())


class NoPosition(nn.Module):
    """No positions: the table is all zeros, and the encoder sees a set, not a sequence."""

    def __init__(self, grid: tuple[int, int], dim: int):
        super().__init__()
        self.register_buffer("table", torch.zeros(1 + grid[0] * grid[1], dim), persistent=False)

    def forward(self) -> Float[Tensor, "T D"]:
        return self.table


class LearnedPosition(nn.Module):
    """One learned vector for every token: the paper's choice (appendix D.4), a table of (1+N, D)."""

    def __init__(self, grid: tuple[int, int], dim: int):
        super().__init__()
        self.table = nn.Parameter(nn.init.normal_(torch.empty(1 + grid[0] * grid[1], dim), std=0.02))

    def forward(self) -> Float[Tensor, "T D"]:
        return self.table


class SinCosPosition(nn.Module):
    """Fixed sines and cosines of row and column; zero for the class token. Nothing is learned."""

    def __init__(self, grid: tuple[int, int], dim: int):
        super().__init__()
        patches = sincos_position_embedding(grid, dim)
        self.register_buffer("table", torch.cat([torch.zeros(1, dim), patches]), persistent=False)

    def forward(self) -> Float[Tensor, "T D"]:
        return self.table


class FactorizedPosition(nn.Module):
    """A vector for each row plus one for each column, h+w in place of h·w; the class token has its own."""

    def __init__(self, grid: tuple[int, int], dim: int):
        super().__init__()
        h, w = grid
        self.class_token = nn.Parameter(nn.init.normal_(torch.empty(1, dim), std=0.02))
        self.rows = nn.Parameter(nn.init.normal_(torch.empty(h, 1, dim), std=0.02))
        self.columns = nn.Parameter(nn.init.normal_(torch.empty(1, w, dim), std=0.02))

    def forward(self) -> Float[Tensor, "T D"]:
        patches = (self.rows + self.columns).flatten(0, 1)  # (h, 1, D) + (1, w, D) → (N, D)
        return torch.cat([self.class_token, patches])


POSITIONS = {
    "none": NoPosition,
    "learned": LearnedPosition,
    "sincos": SinCosPosition,
    "factorized": FactorizedPosition,
}


def sincos_position_embedding(grid: tuple[int, int], dim: int) -> Float[Tensor, "N D"]:
    """Two-dimensional sin-cos positions: (h·w, D), row by row.

    The first half of a vector holds the row, the second the column. Each half is the sines, then the
    cosines, of the index times D/4 frequencies that fall from 1 towards 1/10000.

    Raises ValueError if `dim` is not divisible by 4.
    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.5, once for each axis.
    """
    check_size("grid", grid)
    check_positive("dim", dim)
    check_sincos(dim)
    h, w = to_pair(grid)
    frequencies = 10000 ** -(torch.arange(dim // 4) / (dim // 4))  # (D/4,)

    def encode(count: int) -> Tensor:
        angles = torch.arange(count)[:, None] * frequencies  # (count, D/4)
        return torch.cat([angles.sin(), angles.cos()], dim=1)  # (count, D/2)

    rows = encode(h)[:, None].expand(h, w, -1)
    columns = encode(w)[None].expand(h, w, -1)
    return torch.cat([rows, columns], dim=2).flatten(0, 1)
