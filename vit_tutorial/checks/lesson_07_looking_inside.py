"""Lesson 07: which positions are alike, how far a head looks, and attention followed through all layers."""

from __future__ import annotations

from functools import partial, reduce, wraps

import torch
import torch.nn.functional as F
from torch import Tensor

from . import references as ref
from .comparing import compare, known, random_tensor, replacing, to_number
from .exercise import exercise
from .references import as_it_is, distance, eye, over_all, product, shared_out, similarity, through_layers, unit


def my_position_similarity(position, grid):
    h, w = grid
    patches = position[1:]  # (N, D)
    unit = patches / patches.norm(dim=-1, keepdim=True)  # each row has length 1
    return (unit @ unit.T).reshape(h, w, h, w)


@exercise(
    hint="Leave out row 0, the class token. Divide each row by its own length, `norm(dim=-1, keepdim=True)`. Then "
    "`unit @ unit.T` has all cosines, (N, N), and `reshape(h, w, h, w)` gives each N its rows and columns.",
    solution=my_position_similarity,
)
def position_similarity(function):
    """`fn(position, grid)`, (1+N, D) and (h, w) → (h, w, h, w): the cosine of every two patches' positions."""
    trials = [(random_tensor(1 + h * w, D), (h, w)) for h, w, D in ((3, 5, 7), (4, 2, 6), (2, 2, 3))]
    compare(function, similarity, trials, "(h, w, h, w)", SIMILARITY_MISTAKES, gradients=False)


SIMILARITY_MISTAKES = known(None, {
    "The class token is still there, and nothing is reshaped: (1+N, 1+N).": lambda p, grid: unit(p) @ unit(p).T,
    "These are the class token's similarities. Compare the patches.": lambda p, g: (unit(p[1:]) @ unit(p[0])).view(g),
    "The lengths are taken for one per column, not one per row: `keepdim=True` makes them (N, 1).":
        [lambda p, grid: p[1:] / p[1:].norm(dim=-1), lambda p, grid: p / p.norm(dim=-1)],
}) + replacing(similarity, "patches", None, {
    "The last patch is left out, and the class token is still there: all has moved by one place.": lambda p: p[:-1],
    "The class token is still there: 1+N rows do not fit into the grid, N = h·w do.": as_it_is,
    "You subtract the class token's position. For the cosine nothing is subtracted.": lambda p: p[1:] - p[0],
}) + replacing(similarity, "prepare", None, {
    "These are plain products: long vectors give large values. Divide by the lengths.": lambda p: p,
    "You divide by D, not by the lengths of the two vectors.": lambda p: p / p.shape[1] ** 0.5,
    "You divide by √D, as in attention, not by the lengths of the two vectors.": lambda p: p / p.shape[1] ** 0.25,
    "You divide each column by its length, `dim=0`. A vector is a row.": lambda p: p / p.norm(dim=0, keepdim=True),
    "You divide by one number, the length of the whole table. Each vector has its own.": lambda p: p / p.norm(),
    "You divide by the squares of the two lengths: is the root missing?": lambda p: p / (p**2).sum(-1, keepdim=True),
    "You divide by the sum of the absolute values, not by the length.": lambda p: F.normalize(p, p=1, dim=-1),
    "You compare probabilities. No softmax is needed here.": lambda p: unit(p.softmax(dim=-1)),
    "You subtract each vector's mean: that gives the correlation.": lambda p: unit(p - p.mean(dim=-1, keepdim=True)),
    "You subtract the mean over the patches. For the cosine nothing is subtracted.": lambda p: unit(p - p.mean(dim=0)),
    "You standardise each column. For the cosine nothing is subtracted.": lambda p: unit((p - p.mean(0)) / p.std(0)),
}) + replacing(similarity, "compare", None, {
    "You divide by one length: the second vector keeps its own.": lambda p, unit: unit(p) @ p.T,
    "You divide by one length: the first vector keeps its own.": lambda p, unit: p @ unit(p).T,
    "You divide by the square of one length. Each product is divided by both lengths, one for each vector.":
        [lambda p, unit: p @ p.T / (p**2).sum(-1, keepdim=True), lambda p, unit: p @ p.T / (p**2).sum(-1)],
    "These are distances: a patch has 0 with itself, and should have 1.": lambda p, unit: torch.cdist(p, p),
    "These are distances with a minus: a patch has 0 with itself, and should have 1.":
        lambda p, unit: -torch.cdist(p, p),
}) + replacing(similarity, "finish", None, {
    "This is a distance, 1 - cosine: a patch has 0 with itself, and should have 1.": lambda s: 1 - s,
    "These are the angles. The task asks for their cosines.": lambda s: s.clamp(-1, 1).arccos(),
    "The signs are lost: a cosine may be negative.": torch.abs,
    "The cosines are squared.": torch.square,
    "The cosines go through a softmax: a patch no longer has 1 with itself.": lambda s: s.softmax(-1),
}) + replacing(similarity, "shape", None, {
    "The cosines are right, and still (N, N): nobody can see which patch is where.": lambda s, h, w: s,
    "The first N is still in one piece, (N, h, w). It has rows and columns, too.": lambda s, h, w: s.reshape(-1, h, w),
    "The second N is still in one piece, (h, w, N).": lambda s, h, w: s.reshape(h, w, -1),
    "h and w are exchanged: the grid is (h, w), rows first.": lambda s, h, w: s.reshape(w, h, w, h),
    "The patches are counted down the columns, not row by row.":
        lambda s, h, w: s.reshape(w, h, w, h).permute(1, 0, 3, 2),
    "The axes are in the order (h, h, w, w).": lambda s, h, w: s.reshape(h, w, h, w).permute(0, 2, 1, 3),
    "The shape is right, but the second patch has h and w exchanged.": lambda s, h, w: s.reshape(h, w, w, h).mT,
    "This is the map of the first patch only, (h, w). Each patch has one.": lambda s, h, w: s[0].reshape(h, w),
    "Each patch is compared with itself only. `F.cosine_similarity` needs `unit[:, None]` and `unit[None]`.":
        [lambda s, h, w: s.diagonal(), lambda s, h, w: s.diagonal().reshape(h, w)],
})  # fmt: skip


def my_mean_attention_distance(weights, grid, patch_size):
    h, w = grid
    n = torch.arange(h * w)
    centres = torch.stack([n // w, n % w], dim=1).float() * patch_size  # (N, 2), in pixels
    distances = torch.cdist(centres, centres)  # (N, N)
    patches = weights[:, :, 1:, 1:]  # without the class token
    patches = patches / patches.sum(dim=-1, keepdim=True)  # each row sums to 1 again
    return (patches * distances).sum(dim=-1).mean(dim=(0, 2))  # (B, h, N) → (h,)


@exercise(
    hint="Patch n is in row `n // w` and column `n % w`: `torch.cdist` measures how far apart every two are, in "
    "pixels. Leave out the class token, `weights[:, :, 1:, 1:]`, and divide so that each row sums to 1 again. Multiply "
    "weights by distances, sum over the keys, and take the mean over queries and images.",
    solution=my_mean_attention_distance,
)
def mean_attention_distance(function):
    """`fn(weights, grid, patch_size)`, (B, h, T, T) → (h,): how far each head of a layer looks, in pixels."""

    @wraps(function)
    def as_tensor(*args):
        result = function(*args)
        numbers = isinstance(result, (list, tuple)) and [to_number(number) for number in result]
        return torch.tensor(numbers) if numbers and None not in numbers else result

    sizes = [(2, 3, (2, 4), 3), (1, 2, (3, 2), 5), (3, 4, (1, 3), 2)]  # B, h, grid, P
    trials = [(random_weights(B, h, 1 + grid[0] * grid[1]), grid, P) for B, h, grid, P in sizes]
    again = (random_weights(2, 3, 9, seed=1), *trials[0][1:])
    compare(as_tensor, distance, trials, "(h,)", DISTANCE_MISTAKES, gradients=False, again=again)


def random_weights(B: int, h: int, T: int, seed: int = 0) -> Tensor:
    return random_tensor(B, h, T, T, seed=seed).softmax(dim=-1)


DISTANCE_MISTAKES = replacing(distance, "unit", None, {
    "You measure in patches. The task asks for pixels: times the patch size.": lambda P: 1,
    "Your distances are multiplied by the patch size twice.": lambda P: P * P,
}) + replacing(distance, "length", None, {
    "You add the steps down and the steps across. The straight line is shorter.": lambda r, c: r.abs() + c.abs(),
    "You take the larger of the steps down and across. The straight line is longer.":
        lambda r, c: torch.maximum(r.abs(), c.abs()),
    "Only the steps down count in your distances: the columns are missing.": lambda r, c: r.abs(),
    "Only the steps across count in your distances: the rows are missing.": lambda r, c: c.abs(),
    "Your distances are squared: the root is missing.": lambda r, c: r**2 + c**2,
    "You measure from the centre of the image. Measure from each query's own patch.":
        lambda r, c: torch.hypot(r.mean(0), c.mean(0)),
}) + replacing(distance, "places", None, {
    "You count along the sequence, |i - j|: the end of a row seems near the next one.": lambda n, grid: (n, 0 * n),
    "Rows and columns of the grid are exchanged: h for w, or patches counted down the columns.":
        lambda n, grid: (n // grid[0], n % grid[0]),
    "Your rows are n // h. A row has w patches.": lambda n, grid: (n // grid[0], n % grid[1]),
    "Your columns are n % h. A row has w patches.": lambda n, grid: (n // grid[1], n % grid[0]),
    "Your patches count from 1, so the last of a row falls into the next.":
        lambda n, grid: ((n + 1) // grid[1], (n + 1) % grid[1]),
}) + replacing(distance, "patches", None, {
    "You leave out the last token, not the class token: all has moved by one place.": lambda A: A[:, :, :-1, :-1],
    "You use only the class token's row. Each patch has a row of its own.": lambda A: A[:, :, :1, 1:],
    "The class token is still there: 1+N weights meet N patches' distances.": [lambda A: A, lambda A: A[:, :, 1:]],
}) + replacing(distance, "share", None, {
    "Without the class token, a patch's weights sum to less than 1: your results are too small.": lambda A: A,
    "The weights of each key sum to 1, not those of each query.": lambda A: A / A.sum(dim=-2, keepdim=True),
    "A second softmax makes the weights nearly equal. Divide by their sum.": lambda A: A.softmax(dim=-1),
    "Your weights make no difference: every head gets the mean distance.": lambda A: torch.ones_like(A) / A.shape[-1],
    "You take the distance to the strongest patch alone. Each patch counts by its weight.":
        lambda A: F.one_hot(A.argmax(dim=-1), A.shape[-1]).to(A.dtype),
    "The weight of a patch on itself is left out. It counts, with distance 0.": lambda A: shared_out(A * (1 - eye(A))),
}) + known(None, {
    "You average the weights over the images, and divide then. Divide in each image, and take the mean at the end.":
        partial(distance, patches=lambda A: A[:, :, 1:, 1:].mean(dim=0, keepdim=True)),
    "Your distances are squared: the root is missing, and the patch size is squared, too.":
        partial(distance, length=lambda r, c: r**2 + c**2, unit=lambda P: P * P),
    "You take the mean of the squares, and the root at the end. Each distance needs its own root.":
        lambda *args: distance(*args, length=lambda r, c: r**2 + c**2, unit=lambda P: P * P).sqrt(),
    "The class token is still there, at distance 0 from all patches.":
        partial(distance, share=as_it_is, average=lambda far: over_all(F.pad(far, (1, 0)))),
    "All queries of a head are divided together: one that gives much to the class token counts for less.":
        [partial(distance, share=lambda A: A / A.sum((0, 2, 3), keepdim=True), average=lambda far: far.sum((0, 2))),
         partial(distance, share=lambda A: A / A.sum((2, 3), keepdim=True), average=lambda far: far.sum(2).mean(0)),
         partial(distance, share=lambda A: A / A.sum((2, 3), keepdim=True))],
}) + replacing(distance, "average", None, {
    "You divide by the number of all tokens. The class token is no query here.":
        lambda far: far.sum(-1).mean(0) / (1 + far.shape[-1]),
    "You add up over the queries. The task asks for the mean.": lambda far: far.mean(0).sum(-1),
    "You add up over the images. The task asks for the mean.": lambda far: far.mean(-1).sum(0),
    "You add up over queries and images. The task asks for the mean.": lambda far: far.sum((0, 2)),
    "You divide by the number of keys, too: their sum is a mean already.": lambda far: over_all(far) / far.shape[-1],
    "The heads are averaged. Each needs a result of its own: (h,).": torch.mean,
    "You average over the heads and keep the images: (B,).": lambda far: far.mean(dim=(1, 2)),
    "The images are still there, (B, h): take their mean.": lambda far: far.mean(dim=-1),
    "The queries are still there, (h, N): take their mean.": lambda far: far.mean(dim=0),
    "Images and queries are still there, (B, h, N): take the mean over both.": lambda far: far,
    "There is an axis for the layers in front, (1, h). Here is one layer: (h,).": lambda far: over_all(far)[None],
    "Only the first image counts.": lambda far: far[0].mean(dim=-1),
})  # fmt: skip


def my_rollout(maps):
    B, _, T, _ = maps[0].shape
    result = torch.eye(T).expand(B, T, T)
    for weights in maps:
        A = (weights.mean(dim=1) + torch.eye(T)) / 2  # (B, T, T), rows sum to 1
        result = A @ result  # the later layer from the left
    return result


@exercise(
    hint="In each layer, average the heads, `A = weights.mean(dim=1)`, add the residual stream, `(A + torch.eye(T)) / "
    "2`, and multiply, the later layer from the left: `rollout = A @ rollout`. Each row of the result sums to 1.",
    solution=my_rollout,
)
def rollout(function):
    """`fn(maps)`, L times (B, h, T, T), the first layer first → (B, T, T): attention followed through all layers."""
    sizes = [(4, 2, 3, 5), (1, 3, 2, 4), (2, 1, 4, 3)]  # L, B, h, T
    trials = [([random_weights(B, h, T, seed=seed) for seed in range(L)],) for L, B, h, T in sizes]
    again = ([random_weights(2, 3, 5, seed=seed) for seed in range(4, 8)],)
    compare(function, through_layers, trials, "(B, T, T)", ROLLOUT_MISTAKES, gradients=False, again=again)


def added(A: Tensor) -> Tensor:
    return A + eye(A)


BACKWARDS = partial(reduce, torch.matmul)  # the first layer from the left


def at_every_mix(step: str, table: dict) -> list:
    """Return wrong steps, each with the identity added in the right way and in the usual wrong ones."""
    mixes = ref.with_identity, as_it_is, added, lambda A: shared_out(added(A))
    return [mistake for mix in mixes for mistake in replacing(partial(through_layers, mix=mix), step, None, table)]


ROLLOUT_MISTAKES = replacing(through_layers, "mix", None, {
    "The identity is missing, as if there were no residual stream.": as_it_is,
    "The identity is added, and nothing divided: the rows sum to 2 after one layer, to 2^L after L.": added,
    "The columns sum to 1 in each layer, not the rows.": lambda A: added(A) / added(A).sum(dim=-2, keepdim=True),
    "You halve the identity, not attention: the rows sum to 1.5 after one layer.": lambda A: A + eye(A) / 2,
    "You halve attention, not the identity: the rows sum to 1.5 after one layer.": lambda A: A / 2 + eye(A),
    "Attention counts half as much as the identity, though the rows sum to 1. Give both the same weight.":
        lambda A: shared_out(A / 2 + eye(A)),
    "You add ones everywhere. The identity has them on its diagonal only: `torch.eye(T)`.": lambda A: (A + 1) / 2,
    "Rows and columns are exchanged in each layer's matrix: is A transposed?": lambda A: ref.with_identity(A.mT),
}) + known(None, {
    "The layers are multiplied in the opposite order: the first layer must act first, from the right.":
        partial(through_layers, together=BACKWARDS),
    "The identity is missing, and the layers are multiplied in the opposite order.":
        partial(through_layers, mix=as_it_is, together=BACKWARDS),
    "Your rows sum to 2^L, and the layers are multiplied in the opposite order.":
        partial(through_layers, mix=added, together=BACKWARDS),
    "The heads are multiplied one by one, and averaged at the end. Average them in every layer.":
        partial(through_layers, heads=as_it_is, finish=ref.heads_mean),
    "The identity is missing in the first layer. The residual stream goes around every layer.":
        lambda maps: product([maps[0].mean(1), *(ref.with_identity(A.mean(1)) for A in maps[1:])]),
    "The identity is added after the product. Add it to each layer's own matrix, and then multiply.":
        lambda maps: reduce(lambda R, A: ref.with_identity(A.mean(1) @ R), maps, eye(maps[0].mean(1))),
    "You add what you have so far to the next layer. Add the identity: it stands for the residual stream.":
        lambda maps: reduce(lambda R, A: (A.mean(1) + R) / 2 @ R, maps, eye(maps[0].mean(1))),
    "Attention is added to what you have so far, and not multiplied with it: `(A + I) / 2 @ rollout`, with brackets.":
        [lambda maps, mix=mix: reduce(lambda R, A: mix(A.mean(1), R), maps, eye(maps[0].mean(1)))
         for mix in (torch.add, lambda A, R: A + R / 2, lambda A, R: (A + R) / 2)],
    "The identity is added once, at the end. The residual stream goes around every layer.":
        lambda maps: ref.with_identity(product([A.mean(1) for A in maps])),
}) + at_every_mix("heads", {
    "You take the largest weight of all heads, not their mean.": lambda A: A.amax(dim=1),
    "You take the smallest weight of all heads, not their mean.": lambda A: A.amin(dim=1),
    "You add up the heads, instead of taking their mean.": lambda A: A.sum(dim=1),
    "Only the first head is used.": lambda A: A[:, 0],
    "Only the last head is used.": lambda A: A[:, -1],
}) + at_every_mix("pick", {
    "Only the last layer is in your result.": lambda layers: layers[-1:],
    "Only the first layer is in your result: is `return` inside the loop?": lambda layers: layers[:1],
}) + at_every_mix("together", {
    "You multiply value by value, with `*`: paths through other tokens are lost.": partial(reduce, torch.mul),
    "You average the layers. They follow one another: multiply their matrices.": lambda A: sum(A) / len(A),
    "You add up the layers. They follow one another: multiply their matrices.": sum,
}) + replacing(through_layers, "pick", None, {
    "The first layer is missing in your product.": lambda layers: layers[1:],
    "The last layer is missing in your product.": lambda layers: layers[:-1],
}) + replacing(through_layers, "heads", None, {
    "The heads are still there, (B, h, T, T): average each layer's before the product.": as_it_is,
    "You average over the images, `dim=0`, and the heads are still there.": lambda A: A.mean(dim=0),
    "You average over images and heads. Every image needs a matrix of its own.": lambda A: A.mean(dim=(0, 1)),
}) + replacing(through_layers, "finish", None, {
    "Your result is transposed: its columns sum to 1, not its rows.": lambda R: R.mT,
    "The images are mixed: their mean is taken, and one matrix is left.": lambda R: R.mean(dim=0),
    "Only the first image is left.": lambda R: R[0],
    "This is the class token's row only. The task asks for the whole matrix.": lambda R: R[:, 0],
    "This is the class token's row without itself. The task asks for the whole matrix.": lambda R: R[:, 0, 1:],
    "The class token is left out. The task asks for all T tokens.": lambda R: R[:, 1:, 1:],
}) + replacing(through_layers, "together", None, {
    "There is a result for each layer. The last one is the rollout: it has all layers in it.":
        [lambda A, dim=dim: torch.stack([product(A[: i + 1]) for i in range(len(A))], dim) for dim in (0, 1)],
})  # fmt: skip
