"""How many parameters a Vision Transformer has, part by part, and which part a wrong count leaves out."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import combinations

import torch

from ..config import ViTConfig
from ..model import VisionTransformer
from .differences import difference
from .running import call
from .verdict import Wrong

CONFIGS = [
    ViTConfig.named("B/16"),
    ViTConfig.named("B/32", image_size=(64, 96), num_classes=10),
    ViTConfig((8, 12), 2, 1, num_classes=7, embed_dim=20, depth=3, num_heads=5, mlp_dim=33, pool="mean"),
    ViTConfig(9, 3, 2, num_classes=11, embed_dim=14, depth=2, num_heads=2, mlp_dim=15),
]


@cache
def count(config: ViTConfig) -> int:
    """The parameters of the package's model, counted on the meta device: no weight is made."""
    with torch.device("meta"):
        return sum(p.numel() for p in VisionTransformer(config).parameters())


# What may be forgotten or counted twice, and how many parameters it has.
PARTS: dict[str, Callable[[ViTConfig], int]] = {
    "the class token": lambda c: c.embed_dim,
    "the bias of the patch projection": lambda c: c.embed_dim,
    "the position of the class token": lambda c: c.embed_dim,
    "the positions": lambda c: c.num_tokens * c.embed_dim,
    "the weights of the patch projection": lambda c: c.patch_dim * c.embed_dim,
    "one of the matrices of q, k and v in each block": lambda c: c.depth * c.embed_dim**2,
    "two of the matrices of q, k and v in each block": lambda c: c.depth * 2 * c.embed_dim**2,
    "the matrices of q, k and v": lambda c: c.depth * 3 * c.embed_dim**2,
    "the biases of q, k and v": lambda c: c.depth * 3 * c.embed_dim,
    "one of the biases of q, k and v in each block": lambda c: c.depth * c.embed_dim,
    "two of the biases of q, k and v in each block": lambda c: c.depth * 2 * c.embed_dim,
    "the weights of attention's output projection": lambda c: c.depth * c.embed_dim**2,
    "the bias of attention's output projection": lambda c: c.depth * c.embed_dim,
    "attention's output projection": lambda c: c.depth * (c.embed_dim**2 + c.embed_dim),
    "attention's four biases": lambda c: c.depth * 4 * c.embed_dim,
    "one of the MLP's matrices": lambda c: c.depth * c.embed_dim * c.mlp_dim,
    "the bias of the MLP's first layer": lambda c: c.depth * c.mlp_dim,
    "the bias of the MLP's second layer": lambda c: c.depth * c.embed_dim,
    "the MLP's biases": lambda c: c.depth * (c.mlp_dim + c.embed_dim),
    "the biases of attention and MLP": lambda c: c.depth * (5 * c.embed_dim + c.mlp_dim),
    "one LayerNorm in each block": lambda c: c.depth * 2 * c.embed_dim,
    "the biases of the blocks' LayerNorms": lambda c: c.depth * 2 * c.embed_dim,
    "the biases of all LayerNorms": lambda c: (2 * c.depth + 1) * c.embed_dim,
    "the blocks' LayerNorms": lambda c: c.depth * 4 * c.embed_dim,
    "all LayerNorms": lambda c: (2 * c.depth + 1) * 2 * c.embed_dim,
    "the final LayerNorm": lambda c: 2 * c.embed_dim,
    "the weight, or the bias, of the final LayerNorm": lambda c: c.embed_dim,
    "the weights of the head": lambda c: c.embed_dim * c.num_classes,
    "the bias of the head": lambda c: c.num_classes,
    "the head": lambda c: (c.embed_dim + 1) * c.num_classes,
    "one block": lambda c: block_count(c),
    "all blocks but one": lambda c: (c.depth - 1) * block_count(c),
    'the class token and its position where pool="mean"': lambda c: 2 * c.embed_dim * (c.pool == "mean"),
    "every bias of a linear layer": lambda c: linear_biases(c),
    "all biases": lambda c: linear_biases(c) + (2 * c.depth + 1) * c.embed_dim,
    "all biases and LayerNorms": lambda c: linear_biases(c) + (2 * c.depth + 1) * 2 * c.embed_dim,
}

# Sizes written into the code: how many parameters too many that makes.
FIXED: dict[str, Callable[[ViTConfig], int]] = {
    "The head is always counted for 1000 classes.": lambda c: (1000 - c.num_classes) * (c.embed_dim + 1),
    "The MLP is always counted with 4·D in place of mlp_dim.": lambda c: (
        c.depth * (4 * c.embed_dim - c.mlp_dim) * (2 * c.embed_dim + 1)
    ),
    "Images are always counted with 3 channels.": lambda c: (
        (3 - c.in_channels) * c.patch_dim // c.in_channels * c.embed_dim
    ),
    "Patches are always counted with 16·16 pixels.": lambda c: (
        (256 - c.patch_dim // c.in_channels) * c.in_channels * c.embed_dim
    ),
    "Positions are always counted for 197 tokens.": lambda c: (197 - c.num_tokens) * c.embed_dim,
    "The grid is taken to be square, as high as wide: N = h·h.": lambda c: (
        (c.grid[0] ** 2 - c.num_patches) * c.embed_dim
    ),
    "The grid is taken to be square, as wide as high: N = w·w.": lambda c: (
        (c.grid[1] ** 2 - c.num_patches) * c.embed_dim
    ),
    "q, k and v are multiplied by the number of heads: all heads together have 3·D·D weights.": lambda c: (
        c.depth * (c.num_heads - 1) * 3 * (c.embed_dim**2 + c.embed_dim)
    ),
    "Images are counted without their channels: a patch has C·P·P numbers.": lambda c: (
        (c.patch_dim // c.in_channels - c.patch_dim) * c.embed_dim
    ),
    "q, k and v are counted for one head only, D → d: all heads together have 3·D·D weights.": lambda c: (
        c.depth * 3 * (c.head_dim - c.embed_dim) * (c.embed_dim + 1)
    ),
    "The bias of the MLP's first layer is counted with D numbers: it has mlp_dim of them.": lambda c: (
        c.depth * (c.embed_dim - c.mlp_dim)
    ),
    "The final LayerNorm is counted once for each block: there is one, after the last.": lambda c: (
        (c.depth - 1) * 2 * c.embed_dim
    ),
    "The T·T weights of each head are counted: they are results, not parameters.": lambda c: (
        c.depth * c.num_heads * c.num_tokens**2
    ),
    "T·T attention weights are counted in each block: they are results, not parameters.": lambda c: (
        c.depth * c.num_tokens**2
    ),
    "The depth is always 12.": lambda c: (12 - c.depth) * block_count(c),
    "The blocks are multiplied by the number of heads too.": lambda c: c.depth * (c.num_heads - 1) * block_count(c),
}


def linear_biases(c: ViTConfig) -> int:
    return c.depth * (5 * c.embed_dim + c.mlp_dim) + c.embed_dim + c.num_classes


def block_count(c: ViTConfig) -> int:
    return 4 * (c.embed_dim**2 + c.embed_dim) + 2 * c.embed_dim * c.mlp_dim + c.mlp_dim + 5 * c.embed_dim


def judge_count(function: Callable) -> None:
    """Raise Wrong unless `function` counts every configuration right; names the part that explains all differences."""
    extra = []
    for config in CONFIGS:
        got, expected = call(function, config), count(config)
        found = difference(got, expected)
        if found and not isinstance(got, int):
            raise Wrong(found, "Count in whole numbers: `//` in place of `/`, and no tensors.")
        extra.append(int(got) - expected)
    if not any(extra):
        return
    worst = next(i for i, difference in enumerate(extra) if difference)
    c, more = CONFIGS[worst], extra[worst]
    shown = ("image_size", "patch_size", "embed_dim", "depth", "num_classes", "pool")
    first = (
        f"For {', '.join(f'{name} {getattr(c, name)}' for name in shown)} your count is "
        f"{abs(more):,} too {'high' if more > 0 else 'low'}: {count(c):,} expected, got {count(c) + more:,}."
    )
    raise Wrong(f"{first}\n{explanation(extra)}".strip())


def explanation(extra: list[int]) -> str:
    """Which part, or which two, make exactly these differences, in one sentence; empty if none does."""
    sizes = {sentence: [size(c) for c in CONFIGS] for sentence, size in FIXED.items()}
    if fixed := [sentence for sentence, size in sizes.items() if size == extra]:
        return fixed[0]
    signed = [
        (name, verb, [sign * size(c) for c in CONFIGS])
        for name, size in PARTS.items()
        for sign, verb in ((-1, "missing"), (1, "counted twice"))
    ]
    if single := [(name, verb) for name, verb, size in signed if size == extra]:
        return f"That is exactly {' or '.join(name for name, _ in single)}: {single[0][1]}?"
    for (one, verb, a), (two, other, b) in combinations(signed, 2):
        if [x + y for x, y in zip(a, b, strict=True)] == extra:
            return f"Two things together would make this difference: {one} ({verb}) and {two} ({other})."
    return ""
