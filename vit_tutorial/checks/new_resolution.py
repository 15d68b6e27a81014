"""Exercise of notebook 08: position embeddings for another grid."""

from __future__ import annotations

from ..positions import resize_position_embedding
from .comparing import compare, random_tensor
from .exercise import exercise
from .resize_mistakes import RESIZE_MISTAKES
from .verdict import Wrong

# D, the old grid, the new one, prefix tokens. Of the first, old and new, N is a square and the grid is not. The second
# is the smallest where 15 / 11 is rounded such that 11 · (15 / 11) is cut off at 14.
SIZES = [(5, (2, 8), (4, 9), 1), (3, (11, 2), (15, 4), 1), (4, (6, 4), (4, 3), 1), (6, (2, 3), (2, 3), 1)]
OTHER_PREFIXES = [(3, (3, 2), (2, 5), 2), (6, (2, 3), (4, 3), 0)]


@exercise(
    hint="Four steps: keep the first rows aside, `position[:num_prefix_tokens]`; make a picture of the others, "
    "`reshape(1, h, w, D)`, then the D axis to the front, `permute(0, 3, 1, 2)`; `F.interpolate(picture, "
    'size=new_grid, mode="bicubic", antialias=True)`; the same way back to rows, and the first rows in front.',
    solution="""
import torch
import torch.nn.functional as F


def resize_positions(position, old_grid, new_grid, num_prefix_tokens):
    h, w = old_grid
    prefix, patches = position[:num_prefix_tokens], position[num_prefix_tokens:]
    picture = patches.reshape(1, h, w, -1).permute(0, 3, 1, 2)  # (1, D, h, w)
    picture = F.interpolate(picture, size=new_grid, mode="bicubic", antialias=True)  # (1, D, h', w')
    return torch.cat([prefix, picture[0].flatten(1).T])  # (D, h'·w') -> (h'·w', D)
""",
)
def resize_positions(function):
    """`fn(position, old_grid, new_grid, num_prefix_tokens)`, (T, D) → (S, D): bicubic, antialiased, prefix as it is."""
    judge(function, SIZES)
    for size in OTHER_PREFIXES:
        try:
            judge(function, [size])
        except Wrong as wrong:
            wrong.message = f"Right with one prefix token, wrong with {size[-1]}.\n{wrong.message}"
            wrong.hint = wrong.hint or "The first `num_prefix_tokens` rows are kept, be it 0, 1 or 2."
            raise


def judge(function, sizes: list[tuple]) -> None:
    trials = [(random_tensor(prefix + old[0] * old[1], D), old, new, prefix) for D, old, new, prefix in sizes]
    compare(function, resize_position_embedding, trials, "(S, D)", RESIZE_MISTAKES, gradients=False)
