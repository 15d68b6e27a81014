"""Exercises of notebook 07: similar positions, attention over all layers, and how far a head looks."""

from __future__ import annotations

from torch import Tensor

from .comparing import compare, random_tensor
from .distance_mistakes import DISTANCE_MISTAKES, distance
from .exercise import exercise
from .rollout_mistakes import ROLLOUT_MISTAKES, through_layers
from .similarity_mistakes import SIMILARITY_MISTAKES, similarity


@exercise(
    hint="Three steps: leave out row 0, the class token, or there are (1+N)² numbers in the end; divide each row by "
    "its own length; then `unit @ unit.T` has all cosines, (N, N), and N = h·w.",
    solution="""
def position_similarity(position, grid):
    h, w = grid
    patches = position[1:]  # (N, D)
    unit = patches / patches.norm(dim=-1, keepdim=True)  # each row has length 1
    return (unit @ unit.T).reshape(h, w, h, w)
""",
)
def position_similarity(function):
    """`fn(position, grid)`, (1+N, D) and (h, w) → (h, w, h, w): the cosine of every two patches' positions."""
    trials = [(random_tensor(1 + h * w, D), (h, w)) for h, w, D in ((3, 5, 7), (4, 2, 6), (2, 2, 3))]
    compare(function, similarity, trials, "(h, w, h, w)", SIMILARITY_MISTAKES, gradients=False)


@exercise(
    hint="In each layer: average the heads, `A = weights.mean(dim=1)`; add the residual stream, `(A + torch.eye(T)) / "
    "2`; multiply, the later layer from the left: `rollout = A @ rollout`. Each row of the result sums to 1.",
    solution="""
import torch


def rollout(maps):
    B, h, T, _ = maps[0].shape
    result = torch.eye(T).expand(B, T, T)
    for weights in maps:
        A = (weights.mean(dim=1) + torch.eye(T)) / 2  # (B, T, T), rows sum to 1
        result = A @ result  # the later layer from the left
    return result
""",
)
def rollout(function):
    """`fn(maps)`, L times (B, h, T, T), the first layer first → (B, T, T): attention followed through all layers."""
    sizes = [(4, 2, 3, 5), (1, 3, 2, 4), (2, 1, 4, 3)]  # L, B, h, T
    trials = [([attention(B, h, T, seed=seed) for seed in range(L)],) for L, B, h, T in sizes]
    again = ([attention(2, 3, 5, seed=seed) for seed in range(4, 8)],)
    compare(function, through_layers, trials, "(B, T, T)", ROLLOUT_MISTAKES, gradients=False, again=again)


@exercise(
    hint="Four steps: the distance of every two patches, (N, N), from their rows `n // w` and columns `n % w`, in "
    "pixels; the weights without the class token, `[:, :, 1:, 1:]`, divided so that each row sums to 1; weights times "
    "distances, summed over the keys; the mean over queries and images.",
    solution="""
import torch


def mean_attention_distance(weights, grid, patch_size):
    h, w = grid
    n = torch.arange(h * w)
    middles = torch.stack([n // w, n % w], dim=1).float() * patch_size  # (N, 2), in pixels
    distances = torch.cdist(middles, middles)  # (N, N)
    patches = weights[:, :, 1:, 1:]  # without the class token
    patches = patches / patches.sum(dim=-1, keepdim=True)  # each row sums to 1 again
    return (patches * distances).sum(dim=-1).mean(dim=(0, 2))  # (B, h, N) → (h,)
""",
)
def mean_attention_distance(function):
    """`fn(weights, grid, patch_size)`, (B, h, T, T) → (h,): how far each head of a layer looks, in pixels."""
    sizes = [(2, 3, (2, 4), 3), (1, 2, (3, 2), 5), (3, 4, (1, 3), 2)]  # B, h, grid, P
    trials = [(attention(B, h, 1 + grid[0] * grid[1]), grid, P) for B, h, grid, P in sizes]
    again = (attention(2, 3, 9, seed=1), *trials[0][1:])
    compare(function, distance, trials, "(h,)", DISTANCE_MISTAKES, gradients=False, again=again)


def attention(B: int, h: int, T: int, seed: int = 0) -> Tensor:
    """Random weights, each row a softmax."""
    return random_tensor(B, h, T, T, seed=seed).softmax(dim=-1)
