"""Lesson 07: hint, solution, judge and known mistakes of each exercise."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce

import torch
import torch.nn.functional as F
from torch import Tensor

from .comparing import Mistake, compare, mistakes_in, random_tensor
from .exercise import exercise
from .references import (
    Grid,
    by_rows,
    distance,
    eye,
    heads_mean,
    over_all,
    product,
    shared_out,
    similarity,
    straight,
    through_layers,
    unit,
    with_identity,
    without_class_token,
)


def distances(position: Tensor, grid: Grid) -> Tensor:
    return torch.cdist(position[1:], position[1:], compute_mode="donot_use_mm_for_euclid_dist").reshape(*grid, *grid)


wrong = mistakes_in(similarity)


UNIT_LENGTH = "Every vector is divided by its own length, `norm(dim=-1, keepdim=True)`; then the products are cosines."


FIRST = "The class token is row 0: `position[1:]`."


AXES = "N = h·w, row by row: the (N, N) cosines become (h, w, h, w) with `reshape(h, w, h, w)`."


SIMILARITY_MISTAKES = [
    wrong("The last patch is left out, and the class token is still there: everything has moved by one place.", FIRST,
          patches=lambda position: position[:-1]),
    wrong("The class token is still there, and nothing is reshaped: (1+N, 1+N).", FIRST, patches=lambda p: p,
          shape=lambda s, h, w: s),
    wrong("This is the class token's similarity with each patch. Each patch with each patch is asked for.", FIRST,
          patches=lambda p: p, shape=lambda s, h, w: s[0, 1:].reshape(h, w)),
    wrong("These are the products as they are: long vectors give large numbers. Nothing is divided by the lengths.",
          UNIT_LENGTH, prepare=lambda p: p),
    wrong("The products are divided by D, not by the lengths of the two vectors.", UNIT_LENGTH,
          prepare=lambda p: p / p.shape[1] ** 0.5),
    wrong("The products are divided by √D, as in attention, not by the lengths of the two vectors.", UNIT_LENGTH,
          prepare=lambda p: p / p.shape[1] ** 0.25),
    wrong("Each column is divided by its length, over all patches: `dim=0`. A vector is a row.", UNIT_LENGTH,
          prepare=lambda p: p / p.norm(dim=0, keepdim=True)),
    wrong("All is divided by one number, the length of the whole table. Each vector has its own length.", UNIT_LENGTH,
          prepare=lambda p: p / p.norm()),
    wrong("Each product is divided by the squares of the two lengths: is the root missing?", UNIT_LENGTH,
          prepare=lambda p: p / p.square().sum(dim=-1, keepdim=True)),
    wrong("The vectors are divided by the sum of their absolute numbers, not by their length.", UNIT_LENGTH,
          prepare=lambda p: F.normalize(p, p=1, dim=-1)),
    wrong("The vectors become probabilities before they are compared: a softmax has no place here.", UNIT_LENGTH,
          prepare=lambda p: unit(p.softmax(dim=-1))),
    Mistake(lambda position, grid: (unit(position[1:]) @ position[1:].T).reshape(*grid, *grid), "The products are "
            "divided by one of the two lengths: the second vector keeps its own.", UNIT_LENGTH),
    Mistake(lambda position, grid: (position[1:] @ unit(position[1:]).T).reshape(*grid, *grid), "The products are "
            "divided by one of the two lengths: the first vector keeps its own.", UNIT_LENGTH),
    wrong("Each vector's own mean is taken off first: that is the correlation. For the cosine nothing is taken off.",
          UNIT_LENGTH, prepare=lambda p: unit(p - p.mean(dim=-1, keepdim=True))),
    wrong("The mean over the patches is taken off first. For the cosine nothing is taken off.", UNIT_LENGTH,
          prepare=lambda p: unit(p - p.mean(dim=0))),
    wrong("Mean and scale are taken off each column first. For the cosine nothing is taken off.", UNIT_LENGTH,
          prepare=lambda p: unit((p - p.mean(dim=0)) / p.std(dim=0))),
    wrong("That is a distance, 1 - cosine: a patch has 0 with itself, and should have 1.", finish=lambda s: 1 - s),
    Mistake(distances, "These are distances: a patch has 0 with itself, and should have 1.", UNIT_LENGTH),
    Mistake(lambda position, grid: -distances(position, grid), "These are distances with a minus: a patch has 0 with "
            "itself, and should have 1.", UNIT_LENGTH),
    wrong("Those are angles. Their cosines are asked for.", finish=lambda s: s.clamp(-1, 1).arccos()),
    wrong("The signs are lost: a cosine may be negative.", finish=torch.abs),
    wrong("The cosines are squared.", finish=torch.square),
    wrong("The cosines go through a softmax: a patch has no 1 with itself any more.", finish=lambda s: s.softmax(-1)),
    wrong("The cosines are right, and still (N, N): which patch stands where cannot be seen.", AXES,
          shape=lambda s, h, w: s),
    wrong("The first N is still in one piece, (N, h, w): the patch that is compared has a row and a column, too.", AXES,
          shape=lambda s, h, w: s.reshape(-1, h, w)),
    wrong("The second N is still in one piece, (h, w, N).", AXES, shape=lambda s, h, w: s.reshape(h, w, -1)),
    wrong("h and w are exchanged: the grid is (h, w), rows first.", AXES, shape=lambda s, h, w: s.reshape(w, h, w, h)),
    wrong("The shape is right, but the patches are counted down the columns: they come row by row.", AXES,
          shape=lambda s, h, w: s.reshape(w, h, w, h).permute(1, 0, 3, 2)),
    wrong("The axes are in the order (h, h, w, w): rows with rows, columns with columns.", AXES,
          shape=lambda s, h, w: s.reshape(h, w, h, w).permute(0, 2, 1, 3)),
    wrong("The shape is right, but h and w of the second patch have swapped places on the way.", AXES,
          shape=lambda s, h, w: s.reshape(h, w, w, h).transpose(2, 3)),
    wrong("The map of the first patch only, (h, w). Each patch has one.", AXES, shape=lambda s, h, w:
          s[0].reshape(h, w)),
    wrong("Each patch is compared with itself only, and that gives 1 everywhere.", "`unit @ unit.T` compares each with "
          "each; `F.cosine_similarity` needs `unit[:, None]` and `unit[None]`.", shape=lambda s, h, w: s.diagonal()),
    wrong("Each patch is compared with itself only, and that gives 1 everywhere.", "`unit @ unit.T` compares each with "
          "each; `F.cosine_similarity` needs `unit[:, None]` and `unit[None]`.",
          shape=lambda s, h, w: s.diagonal().reshape(h, w)),
]  # fmt: skip


def over_row(A: Tensor) -> Tensor:
    return A / A.sum(dim=-1, keepdim=True)


wrong = mistakes_in(through_layers)


def wrong_heads(message: str, heads: Callable[[Tensor], Tensor]) -> list[Mistake]:
    """With the identity, the rows then divided by their sums or not; without it."""
    ways = (with_identity, lambda A: over_row(A + eye(A)), lambda A: A + eye(A), lambda A: A)
    return [wrong(message, HEADS, heads=heads, mix=mix) for mix in ways]


def stacked(dim: int) -> Callable[[Sequence[Tensor]], Tensor]:
    def together(layers: Sequence[Tensor]) -> Tensor:
        return torch.stack([product(layers[: i + 1]) for i in range(len(layers))], dim=dim)

    return together


RESIDUAL = "The residual stream carries each token on: `(A + torch.eye(T)) / 2` in each layer, A the mean of the heads."


ORDER = "Each layer works on what the layers before it gave: `rollout = A @ rollout`, from the first layer to the last."


HEADS = "The heads of a layer are averaged: `maps[i].mean(dim=1)`, (B, h, T, T) → (B, T, T)."


SHAPE = "(B, T, T): a matrix for each image, which says for each output token how much of each input token is in it."


ROLLOUT_MISTAKES = [
    wrong("The identity is missing: nothing of a token goes past attention, as if there were no residual stream.",
          RESIDUAL, mix=lambda A: A),
    wrong("The layers are multiplied in the opposite order: the first layer must act first, from the right.", ORDER,
          together=lambda layers: product(layers[::-1])),
    wrong("The identity is missing, and the layers are multiplied in the opposite order.", RESIDUAL, mix=lambda A: A,
          together=lambda layers: product(layers[::-1])),
    wrong("The identity is added, and nothing divided: the rows sum to 2 after one layer, to 2^L after L.", RESIDUAL,
          mix=lambda A: A + eye(A)),
    wrong("Your rows sum to 2^L, and the layers are multiplied in the opposite order.", RESIDUAL,
          mix=lambda A: A + eye(A), together=lambda layers: product(layers[::-1])),
    wrong("The columns sum to 1 in each layer, not the rows.", RESIDUAL,
          mix=lambda A: (A + eye(A)) / (A + eye(A)).sum(dim=-2, keepdim=True)),
    wrong("The identity is divided by 2, attention is not: the rows sum to 1.5 after one layer.", RESIDUAL,
          mix=lambda A: A + eye(A) / 2),
    wrong("Attention is divided by 2, the identity is not: the rows sum to 1.5 after one layer.", RESIDUAL,
          mix=lambda A: A / 2 + eye(A)),
    wrong("Ones are added everywhere, not the identity: that has ones on its diagonal only, `torch.eye(T)`.", RESIDUAL,
          mix=lambda A: (A + torch.ones_like(A)) / 2),
    wrong("Each layer's matrix is in your product with its rows and columns exchanged.", "Row i of A says how much "
          "token i takes from each token: `(A + torch.eye(T)) / 2` with A not transposed, and `rollout = A @ rollout`.",
          mix=lambda A: with_identity(A.mT)),
    *wrong_heads("Of the heads, the largest weight is taken, not the mean.", lambda A: A.amax(dim=1)),
    *wrong_heads("Of the heads, the smallest weight is taken, not the mean.", lambda A: A.amin(dim=1)),
    *wrong_heads("The heads are added up, not averaged.", lambda A: A.sum(dim=1)),
    *wrong_heads("Only the first head is used.", lambda A: A[:, 0]),
    *wrong_heads("Only the last head is used.", lambda A: A[:, -1]),
    wrong("The heads are still there, (B, h, T, T): each layer's must be averaged before the product.", HEADS,
          heads=lambda A: A),
    wrong("The heads are multiplied one by one, and averaged at the end: in the model they meet in every layer.", HEADS,
          heads=lambda A: A, finish=heads_mean),
    *(wrong("Only the last layer is in your result.", ORDER, mix=mix, pick=lambda layers: layers[-1:])
      for mix in (with_identity, lambda A: A, lambda A: A + eye(A))),
    *(wrong("Only the first layer is in your result: does `return` stand in the loop?", ORDER, mix=mix,
            pick=lambda layers: layers[:1]) for mix in (with_identity, lambda A: A, lambda A: A + eye(A))),
    wrong("The first layer is missing in your product.", ORDER, pick=lambda layers: layers[1:]),
    wrong("The last layer is missing in your product.", ORDER, pick=lambda layers: layers[:-1]),
    *(wrong("The layers are multiplied number by number, with `*`: paths through other tokens are lost.", ORDER,
            mix=mix, together=partial(reduce, torch.mul))
      for mix in (with_identity, lambda A: A, lambda A: A + eye(A))),
    *(wrong("The layers are averaged. They follow one another: their matrices are multiplied.", ORDER, mix=mix,
            together=lambda layers: sum(layers) / len(layers)) for mix in (with_identity, lambda A: A)),
    *(wrong("The layers are added up. They follow one another: their matrices are multiplied.", ORDER, mix=mix,
            together=sum) for mix in (with_identity, lambda A: A, lambda A: A + eye(A))),
    Mistake(lambda maps: product([heads_mean(maps[0]), *(with_identity(heads_mean(A)) for A in maps[1:])]),
            "The identity is missing in the first layer: there is a residual stream around that one, too.", RESIDUAL),
    Mistake(lambda maps: with_identity(product([heads_mean(A) for A in maps])), "The identity is added once, at the "
            "end. There is a residual stream around every layer.", RESIDUAL),
    wrong("Your result is transposed: its columns sum to 1, not its rows.", SHAPE, finish=lambda R: R.mT),
    wrong("The images are mixed: their mean is taken, and one matrix is left.", HEADS, finish=lambda R: R.mean(dim=0)),
    wrong("You average over the images, `dim=0`, and the heads are still there.", HEADS, heads=lambda A: A.mean(dim=0)),
    wrong("Images and heads are all averaged: one matrix is left, and every image needs one.", HEADS,
          heads=lambda A: A.mean(dim=(0, 1))),
    wrong("Only the first image is left.", SHAPE, finish=lambda R: R[0]),
    wrong("This is the class token's row only. The whole matrix is asked for.", SHAPE, finish=lambda R: R[:, 0]),
    wrong("This is the class token's row only, without itself. The whole matrix is asked for.", SHAPE,
          finish=lambda R: R[:, 0, 1:]),
    wrong("The class token is left out: all T tokens are asked for.", SHAPE, finish=lambda R: R[:, 1:, 1:]),
    *(wrong("There is a result for each layer. The last one is the rollout: it has all layers in it.", SHAPE,
            together=stacked(dim)) for dim in (0, 1)),
]  # fmt: skip


def to_centre(weights: Tensor, grid: Grid, patch_size: int) -> Tensor:
    rows, columns = by_rows(torch.arange(grid[0] * grid[1]), grid)
    far = straight(rows - (grid[0] - 1) / 2, columns - (grid[1] - 1) / 2) * patch_size
    return over_all(shared_out(without_class_token(weights)) @ far)


def all_together(weights: Tensor, grid: Grid, patch_size: int) -> Tensor:
    """Divided once for each head by all weights, in place of query by query."""
    far = distance(weights, grid, patch_size, share=lambda A: A, average=lambda far: far.sum(dim=(0, 2)))
    return far / without_class_token(weights).sum(dim=(0, 2, 3))


def strongest(A: Tensor) -> Tensor:
    return F.one_hot(A.argmax(dim=-1), A.shape[-1]).to(A.dtype)


def no_self(A: Tensor) -> Tensor:
    return shared_out(A * (1 - torch.eye(A.shape[-1])))


def root_of_mean(weights: Tensor, grid: Grid, patch_size: int) -> Tensor:
    return distance(weights, grid, patch_size, length=lambda r, c: r**2 + c**2, unit=lambda P: P * P).sqrt()


def with_token_at_0(weights: Tensor, grid: Grid, patch_size: int) -> Tensor:
    """The class token stays, at distance 0 from everything."""
    rows, columns = by_rows(torch.arange(grid[0] * grid[1]), grid)
    between = straight(rows[:, None] - rows, columns[:, None] - columns) * patch_size
    return over_all((weights * F.pad(between, (1, 0, 1, 0))).sum(dim=-1))


wrong = mistakes_in(distance)


PLACES = "Patch n is in row n // w and column n % w, for a grid of (h, w)."


LENGTH = "`((row_i - row_j) ** 2 + (column_i - column_j) ** 2) ** 0.5`, times the patch size; `torch.cdist` does it."


TOKEN = "Without the class token on both sides: `weights[:, :, 1:, 1:]`. It is token 0 and has no place in the image."


SHARE = "A mean needs weights that sum to 1: divide what is left, `patches / patches.sum(dim=-1, keepdim=True)`."


AVERAGE = "For each query the sum over the keys; then the mean over queries and images, (B, h, N) → (h,)."


DISTANCE_MISTAKES = [
    wrong("You measure in patches. Pixels are asked for: times the patch size.", LENGTH, unit=lambda P: 1),
    wrong("Your distances are multiplied by the patch size twice.", LENGTH, unit=lambda P: P * P),
    wrong("You add the steps down and the steps across: so walks a rook. The straight line is asked for.", LENGTH,
          length=lambda r, c: r.abs() + c.abs()),
    wrong("You take the larger of the steps down and the steps across. The straight line is asked for.", LENGTH,
          length=lambda r, c: torch.maximum(r.abs(), c.abs())),
    *(wrong("Your distances are squared: the root is missing.", LENGTH, length=lambda r, c: r**2 + c**2, unit=unit)
      for unit in (lambda P: P, lambda P: P * P)),
    Mistake(root_of_mean, "You take the mean of the squares, and the root at the end. It belongs to each distance.",
            LENGTH),
    wrong("You count along the sequence, |i - j|: the end of a row and the start of the next seem near.", PLACES,
          places=lambda n, grid: (n, 0 * n)),
    wrong("Only the steps down count in your distances: the columns are missing.", PLACES,
          length=lambda r, c: r.abs()),
    wrong("Only the steps across count in your distances: the rows are missing.", PLACES, length=lambda r, c: c.abs()),
    wrong("Rows and columns of the grid are exchanged: your patches run down the columns, or h and w have swapped.",
          PLACES, places=lambda n, grid: (n // grid[0], n % grid[0])),
    wrong("Your rows are n // h. A row has w patches.", PLACES, places=lambda n, grid: (n // grid[0], n % grid[1])),
    wrong("Your columns are n % h. A row has w patches.", PLACES, places=lambda n, grid: (n // grid[1], n % grid[0])),
    wrong("Your patches count from 1: the last of each row falls to the start of the next. They count from 0.", PLACES,
          places=lambda n, grid: by_rows(n + 1, grid)),
    Mistake(to_centre, "You measure from the centre of the image. For each query, measure from the query's own patch.",
            PLACES),
    wrong("The last token is left out, not the class token: everything has moved by one place.", TOKEN,
          patches=lambda A: A[:, :, :-1, :-1]),
    wrong("Of the weights, only the class token's row is used. Each patch has a row of its own.", TOKEN,
          patches=lambda A: A[:, :, :1, 1:]),
    Mistake(with_token_at_0, "The class token is still there, at distance 0 from all patches: your numbers are too "
            "small.", TOKEN),
    wrong("The class token is left out, and what the patches give to it counts as distance 0: your numbers are too "
          "small.", SHARE, share=lambda A: A),
    Mistake(all_together, "All queries of a head are divided together: one that gives much to the class token counts "
            "less than the others.", SHARE),
    wrong("The weights of each key sum to 1, not those of each query.", SHARE,
          share=lambda A: A / A.sum(dim=-2, keepdim=True)),
    wrong("A second softmax makes the weights nearly equal. Divide by their sum.", SHARE,
          share=lambda A: A.softmax(dim=-1)),
    wrong("Your weights make no difference: every head gets the mean of all distances.", SHARE,
          share=lambda A: torch.ones_like(A) / A.shape[-1]),
    wrong("You take the distance to the strongest patch alone. All count, each by its weight.", SHARE, share=strongest),
    wrong("The weight of a patch on itself is left out. It counts, with distance 0.", SHARE, share=no_self),
    wrong("You add up over the queries. The mean is asked for.", AVERAGE, average=lambda far: far.mean(0).sum(-1)),
    wrong("You add up over the images. The mean is asked for.", AVERAGE, average=lambda far: far.mean(-1).sum(0)),
    wrong("You add up over queries and images. The mean is asked for.", AVERAGE, average=lambda far: far.sum((0, 2))),
    wrong("You divide by the number of keys once too often: the sum over the keys is a mean already.", AVERAGE,
          average=lambda far: over_all(far) / far.shape[-1]),
    wrong("The heads are averaged. Each is asked for: (h,).", AVERAGE, average=torch.mean),
    wrong("You average over the heads and keep the images: (B,).", AVERAGE, average=lambda far: far.mean(dim=(1, 2))),
    wrong("The images are still there, (B, h): take their mean.", AVERAGE, average=lambda far: far.mean(dim=-1)),
    wrong("The queries are still there, (h, N): take their mean.", AVERAGE, average=lambda far: far.mean(dim=0)),
    wrong("Images and queries are still there, (B, h, N): take the mean over both.", AVERAGE, average=lambda far: far),
    wrong("There is an axis for the layers in front, (1, h). Here it is one layer: (h,).", AVERAGE,
          average=lambda far: over_all(far)[None]),
    wrong("Only the first image counts.", AVERAGE, average=lambda far: far[0].mean(dim=-1)),
]  # fmt: skip


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
    trials = [([random_weights(B, h, T, seed=seed) for seed in range(L)],) for L, B, h, T in sizes]
    again = ([random_weights(2, 3, 5, seed=seed) for seed in range(4, 8)],)
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
    trials = [(random_weights(B, h, 1 + grid[0] * grid[1]), grid, P) for B, h, grid, P in sizes]
    again = (random_weights(2, 3, 9, seed=1), *trials[0][1:])
    compare(function, distance, trials, "(h,)", DISTANCE_MISTAKES, gradients=False, again=again)


def random_weights(B: int, h: int, T: int, seed: int = 0) -> Tensor:
    """Random weights, each row a softmax."""
    return random_tensor(B, h, T, T, seed=seed).softmax(dim=-1)
