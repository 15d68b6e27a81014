"""E_pos of equation 1: four kinds of position embeddings, and how to resize them for another grid."""

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn

from .errors import require_sincos


class TablePosition(nn.Module):
    """Return one vector for every token, from the `table` (1+N, D) that a subclass makes."""

    def forward(self) -> Float[Tensor, "T D"]:
        return self.table


class NoPosition(TablePosition):
    """Add no positions: the table is all zeros, and the encoder sees a set of tokens, not a sequence."""

    def __init__(self, grid: tuple[int, int], dim: int):
        super().__init__()
        self.register_buffer("table", torch.zeros(1 + grid[0] * grid[1], dim), persistent=False)


class LearnedPosition(TablePosition):
    """Learn one vector for every token, a table of (1+N, D): the paper's choice (appendix D.4)."""

    def __init__(self, grid: tuple[int, int], dim: int):
        super().__init__()
        self.table = nn.Parameter(nn.init.normal_(torch.empty(1 + grid[0] * grid[1], dim), std=0.02))


class SinCosPosition(TablePosition):
    """Use fixed sines and cosines of row and column, and zero for the class token. Nothing is learned."""

    def __init__(self, grid: tuple[int, int], dim: int):
        super().__init__()
        patches = sincos_position_embedding(grid, dim)
        # Saved with the weights: after a resize it no longer follows the formula.
        self.register_buffer("table", torch.cat([torch.zeros(1, dim), patches]))


class FactorizedPosition(nn.Module):
    """Learn a vector for each row and one for each column, h+w instead of h·w; the class token has its own."""

    def __init__(self, grid: tuple[int, int], dim: int):
        super().__init__()
        h, w = grid
        self.class_token = nn.Parameter(nn.init.normal_(torch.empty(1, dim), std=0.02))
        self.rows = nn.Parameter(nn.init.normal_(torch.empty(h, 1, dim), std=0.02))
        self.columns = nn.Parameter(nn.init.normal_(torch.empty(1, w, dim), std=0.02))

    def forward(self) -> Float[Tensor, "T D"]:
        patches = (self.rows + self.columns).flatten(0, 1)  # (h, 1, D) + (1, w, D) → (N, D)
        return torch.cat([self.class_token, patches])


POSITION_CLASSES = {
    "none": NoPosition,
    "learned": LearnedPosition,
    "sincos": SinCosPosition,
    "factorized": FactorizedPosition,
}


def sincos_position_embedding(grid: tuple[int, int], dim: int) -> Float[Tensor, "N D"]:
    """Return two-dimensional sin-cos positions, row by row: (h·w, D).

    The first half of a vector encodes the row, the second half the column: the sines, then the cosines, of the index
    times D/4 frequencies that fall from 1 towards 1/10000. Raises ValueError if `dim` is not divisible by 4.
    Source: Vaswani et al. 2017 (arXiv 1706.03762), section 3.5, once for each axis.
    """
    require_sincos(dim)
    h, w = grid
    frequencies = 10000 ** -(torch.arange(dim // 4) / (dim // 4))  # (D/4,)

    def encode(count: int) -> Tensor:
        angles = torch.arange(count)[:, None] * frequencies  # (count, D/4)
        return torch.cat([angles.sin(), angles.cos()], dim=1)  # (count, D/2)

    return torch.cat([encode(h).repeat_interleave(w, dim=0), encode(w).repeat(h, 1)], dim=1)


def resize_position_embedding(
    position: Shaped[Tensor, "T D"],
    old_grid: tuple[int, int],
    new_grid: tuple[int, int],
    num_prefix_tokens: int,
    mode: str = "bicubic",
    antialias: bool = True,
    align_corners: bool = False,
) -> Float[Tensor, "S D"]:
    """Interpolate position embeddings for another grid: (prefix + h·w, D) → (prefix + h'·w', D).

    The first `num_prefix_tokens` rows (1 for a class token) belong to no patch and stay as they are.
    `mode` is "bicubic" or "bilinear"; torchvision uses `align_corners=True` and `antialias=False`. Half precision is
    interpolated in float32, and whole numbers become float32.
    Raises ValueError if the rows are not those of `old_grid`.
    Source: section 3.2, "2D interpolation of the pre-trained position embeddings".
    """
    h, w = old_grid
    if position.ndim != 2 or len(position) != num_prefix_tokens + h * w:
        fits = f"a {h}×{w} grid with {num_prefix_tokens} prefix tokens has ({num_prefix_tokens + h * w}, D)"
        raise ValueError(f"positions of shape {tuple(position.shape)} do not fit: {fits}")
    position = position if position.is_floating_point() else position.float()
    prefix, patches = position[:num_prefix_tokens], position[num_prefix_tokens:]
    image = patches.reshape(1, h, w, -1).movedim(-1, 1)  # (1, D, h, w): a picture with D channels
    # Some kernels lack half precision, and some devices antialiasing (PyTorch 2.6 and 2.7 on a Mac's GPU).
    image = image.to("cpu", torch.promote_types(image.dtype, torch.float32))
    image = nn.functional.interpolate(image, new_grid, mode=mode, antialias=antialias, align_corners=align_corners)
    return torch.cat([prefix, image[0].flatten(1).T.to(position)])
