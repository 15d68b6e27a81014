"""E_pos of equation 1: where a patch was. Four kinds of positions, and how they move to another grid."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn

from .config import to_pair
from .validation import check_choice, check_positive, check_sincos, check_size

RESIZE_MODES = ("bicubic", "bilinear")


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
        # Kept with the weights: moved to another grid it is no longer the formula's.
        self.register_buffer("table", torch.cat([torch.zeros(1, dim), patches]))

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


def resize_position_embedding(
    position: Float[Tensor, "T D"],
    old_grid: tuple[int, int],
    new_grid: tuple[int, int],
    num_prefix_tokens: int,
    mode: str = "bicubic",
    antialias: bool = True,
    align_corners: bool = False,
) -> Float[Tensor, "S D"]:
    """Position embeddings for another grid: (prefix + h·w, D) → (prefix + h'·w', D), each number interpolated.

    The first `num_prefix_tokens` rows (the class token: 1) have no place in the picture and stay as they are.
    `mode` is "bicubic" or "bilinear". `align_corners=True` and `antialias=False` are torchvision's way.

    Half precision is interpolated in float32. Raises ValueError if the rows are not those of `old_grid`.
    Source: section 3.2, "2D interpolation of the pre-trained position embeddings".
    """
    check_choice("mode", mode, RESIZE_MODES)
    check_size("old_grid", old_grid)
    check_size("new_grid", new_grid)
    (h, w), rows = to_pair(old_grid), len(position)
    if num_prefix_tokens < 0 or rows != num_prefix_tokens + h * w:
        raise ValueError(
            f"{rows} positions are not those of a {h}×{w} grid with {num_prefix_tokens} prefix tokens: "
            f"that takes {num_prefix_tokens} + {h}·{w} = {num_prefix_tokens + h * w}"
        )
    prefix, patches = position[:num_prefix_tokens], position[num_prefix_tokens:]
    image = patches.reshape(1, h, w, -1).movedim(-1, 1)  # (1, D, h, w): a picture with D channels
    # Not every kernel knows half precision, and not every device antialiasing (PyTorch 2.6 and 2.7 on a Mac's GPU).
    image = image.to("meta" if image.is_meta else "cpu", torch.promote_types(image.dtype, torch.float32))
    image = nn.functional.interpolate(
        image, to_pair(new_grid), mode=mode, antialias=antialias, align_corners=align_corners
    )
    return torch.cat([prefix, image[0].flatten(1).T.to(position)])
