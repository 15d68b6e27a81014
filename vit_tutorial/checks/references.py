"""What the exercises ask for, as plain functions with replaceable steps: a mistake replaces one of them.

Axes are named as in notebook 01: a height of h·P pixels, a width of w·P. `Q` is the second P, the columns of a patch.
Parameters that have a default are the steps, as functions.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from typing import NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from ..config import ViTConfig

Grid = tuple[int, int]

OURS = "C P Q"
ORDERS = {
    "C P Q": "(channel, row, column)",
    "P Q C": "(row, column, channel)",
    "C Q P": "(channel, column, row)",
    "Q P C": "(column, row, channel)",
    "P C Q": "(row, channel, column)",
    "Q C P": "(column, channel, row)",
}
OTHER_ORDERS = {order: name for order, name in ORDERS.items() if order != OURS}


def regroup(values: Tensor, read: str, write: str, **sizes: int) -> Tensor:
    """Read the values, in the order in which they lie in memory, as axes `read`, and write them as axes `write`."""
    return rearrange(values.reshape(-1), f"({read}) -> {write}", **sizes)


def sizes_of(x: Tensor, P: int, image_size: Grid | None = None) -> dict[str, int]:
    """Return how long each axis is, for images, or for patches (B, N, C·P·P) cut from images of this size."""
    B, C, H, W = x.shape if image_size is None else (len(x), x.shape[2] // P**2, *image_size)
    return {"B": B, "C": C, "h": H // P, "w": W // P, "P": P, "Q": P}


class Layer(NamedTuple):
    """A matrix and its bias. `raw` ones are bare parameters: which axis goes in and which comes out is not known."""

    weight: Tensor  # (out, in), unless it is raw
    bias: Tensor | None = None
    name: str = ""
    raw: bool = False

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, self.bias)

    @property
    def sizes(self) -> tuple[int, int]:
        """How many values come out and go in; a bare matrix without a bias is taken for the W of x @ W."""
        if not self.raw:
            return tuple(self.weight.shape)
        out = self.weight.shape[-1] if self.bias is None else self.bias.numel()
        return out, self.weight.numel() // out

    def rows(self, in_size: int, last: bool = False) -> Tensor | None:
        """Return the matrix with a row for each output, (out, in); None if it takes no input of that size."""
        axes = [axis for axis, size in enumerate(self.weight.shape) if size == in_size and (self.raw or axis == 1)]
        return self.weight.movedim(axes[-last], -1).reshape(-1, in_size) if axes else None


PAPER_EPS = 1e-6


class Norm(NamedTuple):
    """What a LayerNorm learns, and its eps where it has one."""

    weight: Tensor | None
    bias: Tensor | None
    eps: float | None = None

    def __call__(self, z: Tensor) -> Tensor:
        return F.layer_norm(z, z.shape[-1:], self.weight, self.bias, PAPER_EPS if self.eps is None else self.eps)


class EmbeddingWeights(NamedTuple):
    """What Eq. 1 learns."""

    config: ViTConfig
    order: str  # of the values in a patch
    patch: Layer  # (D, C·P·P)
    class_token: Tensor  # (D,)
    position: Tensor  # (1+N, D)


def project(w: EmbeddingWeights, images: Tensor) -> Tensor:
    sizes = sizes_of(images, w.config.patch_size)
    return w.patch(regroup(images, "B C h P w Q", f"B (h w) ({w.order})", **sizes))


def in_front(class_token: Tensor, patches: Tensor) -> Tensor:
    return torch.cat([class_token.expand(len(patches), 1, -1), patches], dim=1)


def eq1(w: EmbeddingWeights, images: Tensor, project=project, prepend=in_front, place=torch.add) -> Tensor:
    """z₀ = [x_class; x₁E; …; x_N E] + E_pos: (B, C, H, W) → (B, 1+N, D)."""
    return place(prepend(w.class_token, project(w, images)), w.position)


def sincos_positions(
    grid: Grid,
    dim: int,
    row=lambda n, h, w: n // w,
    column=lambda n, h, w: n % w,
    frequency=lambda i, quarter: 10000 ** -(i / quarter),
    layout: str = "row.sin row.cos column.sin column.cos",
    interleaved: bool = False,
) -> Tensor:
    """Return sin-cos positions: (h·w, D). `row` and `column` say where patch n is."""
    n, frequencies = torch.arange(grid[0] * grid[1]), frequency(torch.arange(dim // 4), dim // 4)
    angles = {"row": row(n, *grid)[:, None] * frequencies, "column": column(n, *grid)[:, None] * frequencies}
    parts = [getattr(angles[axis], wave)() for axis, wave in (part.split(".") for part in layout.split())]
    if interleaved:
        parts = [torch.stack(parts[i : i + 2], dim=2).flatten(1) for i in (0, 2)]
    return torch.cat(parts, dim=1)


class AttentionWeights(NamedTuple):
    """What attention learns, q, k and v head by head.

    `sliced`: a head sees only its own slice of a token; `shared`: all heads have the same q, k and v.
    """

    qkv: Tensor  # (3, D, D)
    bias: Tensor  # (3, D)
    out: Layer | None  # (D, D)
    heads: int
    sliced: bool = False
    shared: bool = False


softmax = partial(torch.softmax, dim=-1)  # over the keys


def by_root(d: int, D: int) -> float:
    return d**-0.5


def by_head(x: Tensor, heads: int) -> Tensor:
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)  # (B, T, D) → (B, h, T, d)


def join(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)  # (B, h, T, d) → (B, T, D)


def head(q: Tensor, k: Tensor, v: Tensor, scale=by_root, weigh=softmax) -> tuple[Tensor, Tensor]:
    """Return what one head mixes and its weights: (T, d) and (T, T)."""
    weights = weigh(q @ k.T * scale(q.shape[1], q.shape[1]))
    return weights @ v, weights


def attention(
    w: AttentionWeights, x: Tensor, inputs=None, split=by_head, scale=by_root, weigh=softmax, merge=join, key=1, value=2
) -> Tensor:
    """Multi-head self-attention, (B, T, D) → (B, T, D). `inputs`: what q, k and v come from, if not `x`."""
    qkv = [split(F.linear(z, *p), w.heads) for z, *p in zip(inputs or (x, x, x), w.qkv, w.bias, strict=True)]
    q, k, v = qkv[0], qkv[key], qkv[value]
    D = x.shape[-1]
    merged = merge(weigh(q @ k.transpose(-2, -1) * scale(D // w.heads, D)) @ v)
    return merged if w.out is None else w.out(merged)


Mlp = tuple[Layer, Layer]


class BlockWeights(NamedTuple):
    """What a block learns. `attention` is None while the reader's attention is silenced: it adds zero."""

    norm1: Norm
    norm2: Norm
    mlp: Mlp
    attention: AttentionWeights | None


def mlp(w: Mlp, x: Tensor, activation=F.gelu) -> Tensor:
    expand, contract = w
    return contract(activation(expand(x)))


def mixed(w: BlockWeights, z: Tensor, attend=attention) -> Tensor:
    return torch.zeros_like(z) if w.attention is None else attend(w.attention, z)


def block(w: BlockWeights, z: Tensor, attend=attention, mlp=mlp) -> Tensor:
    z = z + mixed(w, w.norm1(z), attend)  # Eq. 2
    return z + mlp(w.mlp, w.norm2(z))  # Eq. 3


class ModelWeights(NamedTuple):
    """What a model learns."""

    embeddings: EmbeddingWeights
    blocks: list[BlockWeights]
    norm: Norm
    head: Layer  # (K, D)


def pooled(w: ModelWeights, z: Tensor) -> Tensor:
    return z[:, 0] if w.embeddings.config.pool == "cls" else z[:, 1:].mean(dim=1)


def model(w: ModelWeights, images: Tensor, embed=eq1, block=block, pool=pooled) -> Tensor:
    """(B, C, H, W) → (B, K)."""
    z = embed(w.embeddings, images)  # Eq. 1
    for weights in w.blocks:
        z = block(weights, z)  # Eqs. 2-3
    return w.head(pool(w, w.norm(z)))  # Eq. 4


unit = partial(F.normalize, dim=-1)


def as_it_is(x):
    return x


def similarity(
    position: Tensor,
    grid: Grid,
    patches=lambda position: position[1:],
    prepare=unit,
    compare=lambda p, prepare: prepare(p) @ prepare(p).T,
    finish=as_it_is,
    shape=lambda s, h, w: s.reshape(h, w, h, w),
) -> Tensor:
    """Return the cosine of every two patches' positions, (1+N, D) → (h, w, h, w)."""
    return shape(finish(compare(patches(position), prepare)), *grid)


def eye(A: Tensor) -> Tensor:
    return torch.eye(A.shape[-1], dtype=A.dtype)


def with_identity(A: Tensor) -> Tensor:
    return (A + eye(A)) / 2


def product(layers: Sequence[Tensor]) -> Tensor:
    return reduce(lambda before, A: A @ before, layers)


heads_mean = partial(torch.mean, dim=1)


def through_layers(
    maps: Sequence[Tensor], heads=heads_mean, mix=with_identity, pick=as_it_is, together=product, finish=as_it_is
) -> Tensor:
    """Attention rollout: L times (B, h, T, T) → (B, T, T)."""
    return finish(together(pick([mix(heads(A)) for A in maps])))


def shared_out(patches: Tensor) -> Tensor:
    return patches / patches.sum(dim=-1, keepdim=True)


def over_all(far: Tensor) -> Tensor:
    return far.mean(dim=(0, 2))  # (B, h, N) → (h,)


def distance(
    weights: Tensor,
    grid: Grid,
    patch_size: int,
    places=lambda n, grid: (n // grid[1], n % grid[1]),
    length=torch.hypot,
    patches=lambda weights: weights[:, :, 1:, 1:],
    share=shared_out,
    average=over_all,
    unit=as_it_is,
) -> Tensor:
    """Return how far each head looks, in pixels: (B, h, T, T) → (h,)."""
    rows, columns = places(torch.arange(grid[0] * grid[1], device=weights.device), grid)
    between = length((rows[:, None] - rows).float(), (columns[:, None] - columns).float())  # (N, N), in patches
    return average((share(patches(weights)) * between * unit(patch_size)).sum(dim=-1))


def zoom(picture: Tensor, new: Grid, mode: str = "bicubic", antialias: bool = True, **options) -> Tensor:
    return F.interpolate(picture, new, mode=mode, antialias=antialias, **options)


def to_picture(rows: Tensor, h: int, w: int) -> Tensor:
    return rows.reshape(h, w, -1).permute(2, 0, 1)[None]


def to_rows(picture: Tensor) -> Tensor:
    return picture[0].flatten(1).T


def resize(
    position: Tensor,
    old: Grid,
    new: Grid,
    prefix: int,
    split=lambda p, prefix, N: (p[:prefix], p[prefix:]),
    old_grid=as_it_is,
    picture=to_picture,
    new_grid=as_it_is,
    zoom=zoom,
    rows=to_rows,
    join=lambda first, rows: torch.cat([first, rows]),
) -> Tensor:
    """Resize a table of positions, (T, D) → (S, D)."""
    first, patches = split(position, prefix, old[0] * old[1])
    return join(first, rows(zoom(picture(patches, *old_grid(old)), new_grid(new))))
