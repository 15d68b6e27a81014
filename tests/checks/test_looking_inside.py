"""The checks of notebook 07 on right and wrong answers."""

import math
from functools import reduce

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange

from vit_tutorial import check
from vit_tutorial.analysis import attention_rollout
from vit_tutorial.analysis import mean_attention_distance as distance_by_layer

from .variants import judged

RIGHT, WRONG = {}, {}


def cosines(p):
    return F.normalize(p, dim=-1) @ F.normalize(p, dim=-1).T


RIGHT[check.position_similarity] = {
    "outer": lambda p, g: (p @ p.T / torch.outer(p.norm(dim=1), p.norm(dim=1)))[1:, 1:].view(*g, *g),
    "einsum": lambda p, g: torch.einsum("ijd,kld->ijkl", 2 * [F.normalize(p[1:], dim=1).unflatten(0, g)]),
    "cosine_similarity": lambda p, g: F.cosine_similarity(p[1:, None], p[None, 1:], dim=-1).reshape(*g, *g),
    "einops": lambda p, g: rearrange(cosines(p[1:]), "(a b) (c d) -> a b c d", b=g[1], d=g[1]),
}


def maps_of(matrix):
    """With the class token left out, this matrix of similarities, (N, N), cut into (h, w, h, w)."""
    return lambda p, g: matrix(p[1:]).reshape(*g, *g)


WRONG[check.position_similarity] = [
    (lambda p, g: cosines(p[1:] - p[0]).view(*g, *g), "You subtract the class token's position"),
    (lambda p, g: (p[1:] @ p[1:].T / p[1:].square().sum(1)).view(*g, *g), "by the square of one length"),
    (lambda p, g: (p[1:] @ p[1:].T / p[1:].square().sum(1)[:, None]).view(*g, *g), "by the square of one length"),
    (lambda p, g: cosines(p), "The class token is still there"),
    (maps_of(lambda p: (q := p / p.norm(dim=-1)) @ q.T), "`keepdim=True` makes them (N, 1)"),
    (lambda p, g: cosines(p)[0, 1:].reshape(g), "the class token's similarities"),
    (maps_of(lambda p: (q := p / (p**2).sum(1, keepdim=True)) @ q.T), "is the root missing?"),
    (maps_of(lambda p: F.normalize(p) @ p.T), "the second vector keeps its own"),
    (maps_of(lambda p: p @ F.normalize(p).T), "the first vector keeps its own"),
    (maps_of(torch.corrcoef), "that gives the correlation"),
    (maps_of(lambda p: torch.cdist(p, p)), "These are distances"),
    (maps_of(lambda p: -(p[:, None] - p).norm(dim=-1)), "These are distances with a minus"),
    (lambda p, g: cosines(p[1:]).reshape(2 * g[::-1]).permute(1, 0, 3, 2), "counted down the columns"),
    (lambda p, g: cosines(p[1:]).reshape(*g, *g[::-1]).transpose(2, 3), "has h and w exchanged"),
    (lambda p, g: F.cosine_similarity(p[1:], p[1:]), "compared with itself only"),
]  # fmt: skip


# Rollout: a list of (B, h, T, T) -> (B, T, T)


def rolled(step, maps, first=None, pick=lambda weights: weights.mean(1)):
    """`step(A)` of each layer's mean over the heads, or what `pick` takes of them, multiplied onto `first`."""
    result = torch.eye(maps[0].shape[-1]) if first is None else first
    for weights in maps:
        result = step(pick(weights)) @ result
    return result


def eye(A):
    return torch.eye(A.shape[-1])


def mixed(A):
    return 0.5 * A + 0.5 * eye(A)


def normalised(A):
    return A / A.sum(-1, keepdim=True)


RIGHT[check.rollout] = {
    "the package's": attention_rollout,
    "normalised": lambda maps: rolled(lambda A: normalised(A + eye(A)), maps),
    "normalised at the end": lambda maps: normalised(rolled(lambda A: A + eye(A), maps)),
    "backwards": lambda maps: reduce(torch.matmul, [mixed(A.mean(1)) for A in maps[::-1]]),
    "in place": lambda maps: rolled(lambda A: A.add_(eye(A)).div_(A.sum(-1, keepdim=True)), maps),
}  # fmt: skip


def by_heads(pick, step=mixed):
    return lambda maps: rolled(step, maps, pick=pick)


WRONG[check.rollout] = [
    (lambda maps: reduce(lambda R, A: A.mean(1) + eye(R) / 2 @ R, maps, eye(maps[0])),
     "and not multiplied with it: `(A + I) / 2 @ rollout`, with brackets"),
    (lambda maps: reduce(lambda R, A: (A.mean(1) + R) / 2, maps, eye(maps[0].mean(1))), "not multiplied with it"),
    (lambda maps: rolled(mixed, maps[::-1]), "in the opposite order"),
    (lambda m: rolled(lambda A: A, m[::-1]), "is missing, and the layers are multiplied in"),
    (lambda maps: rolled(lambda A: A + eye(A), maps[::-1]), "Your rows sum to 2^L, and"),
    (lambda m: rolled(lambda A: (x := A + eye(A)) / x.sum(1, keepdim=True), m), "The columns sum to 1"),
    (lambda maps: rolled(lambda A: (A + torch.ones_like(A)) / 2, maps), "You add ones everywhere"),
    (lambda maps: rolled(lambda A: mixed(A.mT), maps), "Rows and columns are exchanged"),
    (by_heads(lambda A: A.amax(1)), "the largest weight of all heads"),
    (by_heads(lambda A: A.sum(1), lambda A: normalised(A + eye(A))), "You add up the heads"),
    (by_heads(lambda A: A[:, -1], lambda A: A), "Only the last head is used"),
    (lambda maps: by_heads(lambda A: A)(maps).mean(1), "averaged at the end"),
    (lambda maps: mixed(maps[-1].mean(1)), "Only the last layer"),
    (lambda m: rolled(mixed, m[1:]) if m[1:] else 0, "The first layer is missing"),
    (lambda maps: math.prod(mixed(A.mean(1)) for A in maps), "You multiply value by value"),
    (lambda maps: torch.stack([mixed(A.mean(1)) for A in maps]).mean(0), "You average the layers"),
    (lambda m: rolled(mixed, m[1:], m[0].mean(1)) if m[1:] else 0, "is missing in the first"),
    (lambda m: rolled(lambda A: normalised(A / 2 + eye(A)), m), "half as much as the identity"),
    (lambda m: mixed(rolled(lambda A: A, m)), "The identity is added once, at the end"),
    (lambda m: reduce(lambda R, A: mixed(A.mean(1) @ R), m, eye(m[0].mean(1))), "added after the product"),
    (lambda m: reduce(lambda R, A: (A.mean(1) + R) / 2 @ R, m, eye(m[0])), "You add what you have so far"),
    (lambda maps: torch.stack([rolled(mixed, maps[: i + 1]) for i in range(len(maps))]), "a result for each layer"),
    (lambda maps: rolled(mixed, maps[:4]) if len(maps) == 4 else maps[0].mean(1), "wrong at another"),
    (lambda maps: rolled(mixed, maps, first=mixed(maps.pop(0).mean(1))), "changes its input: after the call `maps`"),
]  # fmt: skip


# The mean attention distance of one layer: (B, h, T, T), (h, w), P -> (h,)


def far(grid, P, measure=math.dist, place=lambda n, h, w: (n // w, n % w)):
    """The distance of every two patches, (N, N)."""
    h, w = grid
    places = [tuple(P * x for x in place(n, h, w)) for n in range(h * w)]
    return torch.tensor([[float(measure(a, b)) for b in places] for a in places])


def shared(weights):
    A = weights[:, :, 1:, 1:]
    return A / A.sum(-1, keepdim=True)


RIGHT[check.mean_attention_distance] = {
    "the package's": lambda weights, grid, P: distance_by_layer([weights], grid, P)[0],
    "a list": lambda A, g, P: distance_by_layer([A], g, P)[0].tolist(),
    "numpy": lambda A, g, P: torch.tensor((shared(A).numpy() * far(g, P).numpy()).sum(-1).mean((0, 2))),
    "einsum": lambda A, g, P: torch.einsum("bhij,ij->bhi", shared(A), far(g, P)).mean(dim=[0, -1]),
    "the rest": lambda A, g, P: (A[..., 1:, 1:] / (1 - A[..., 1:, :1]) * far(g, P)).sum(-1).mean((0, 2)),
    "divided after": lambda A, g, P: ((x := A[:, :, 1:, 1:]) * far(g, P)).sum(3).div(x.sum(3)).mean((0, 2)),
}  # fmt: skip


def measured(measure=math.dist, place=lambda n, h, w: (n // w, n % w), times=lambda P: 1):
    return lambda A, g, P: times(P) * (shared(A) * far(g, P, measure, place)).sum(-1).mean((0, 2))


def shares(share):
    """`share` of the weights between patches in place of each row divided by its sum."""
    return lambda A, g, P: (share(A[:, :, 1:, 1:]) * far(g, P)).sum(-1).mean((0, 2))


def from_the_centre(A, g, P):
    n, centre = np.arange(g[0] * g[1]), ((g[0] - 1) / 2 * P, (g[1] - 1) / 2 * P)
    return (shared(A) @ torch.tensor([math.dist((i // g[1] * P, i % g[1] * P), centre) for i in n])).mean((0, 2))


WRONG[check.mean_attention_distance] = [
    (lambda A, g, P: (shared(A.mean(0, keepdim=True)) * far(g, P)).sum(-1).mean((0, 2)), "over the images, and divide"),
    (lambda A, g, P: (shared(A) * far(g, P)).sum((2, 3)).mean(0) / A.shape[-1], "The class token is no query"),
    (measured(lambda a, b: abs(a[0] - b[0]) + abs(a[1] - b[1])), "You add the steps down and the"),
    (measured(lambda a, b: max(abs(a[0] - b[0]), abs(a[1] - b[1]))), "You take the larger of the steps"),
    (measured(lambda a, b: math.dist(a, b) ** 2, times=lambda P: 1 / P), "are squared"),
    (lambda *args: measured(lambda a, b: math.dist(a, b) ** 2)(*args).sqrt(), "mean of the squares"),
    (measured(place=lambda n, h, w: (0, n % w)), "the rows are missing"),
    (measured(place=lambda n, h, w: (n // h, n % h)), "Rows and columns of the grid are exchanged"),
    (measured(place=lambda n, h, w: (n // h, n % w)), "Your rows are n // h"),
    (measured(place=lambda n, h, w: (n // w, n % h)), "Your columns are n % h"),
    (measured(place=lambda n, h, w: divmod(n + 1, w)), "Your patches count from 1"),
    (from_the_centre, "from the centre of the image"),
    (lambda A, g, P: (normalised(A[:, :, 0, 1:]) @ far(g, P)).mean((0, 2)), "class token's row"),
    (lambda A, g, P: (A * F.pad(far(g, P), (1, 0, 1, 0))).sum(-1).mean((0, 2)), "The class token is still there, at"),
    (lambda A, g, P: (A * far(g, P)).sum(-1).mean((0, 2)), "The class token is still there: 1+N"),
    (lambda A, g, P: (A[..., 1:, 1:] * far(g, P)).sum((0, 2, 3)) / A[..., 1:, 1:].sum((0, 2, 3)), "a head are divided"),
    (shares(lambda A: A / A.sum((2, 3), keepdim=True)), "a head are divided together"),
    (lambda A, g, P: (normalised(A[..., 1:, 1:].flatten(2)).view_as(A[..., 1:, 1:]) * far(g, P)).sum((2, 3)).mean(0),
     "a head are divided together"),
    (lambda A, g, P: far(g, P).mean() * torch.ones(A.shape[1]), "Your weights make no difference"),
    (shares(lambda A: F.one_hot(A.argmax(-1), A.shape[-1])), "to the strongest patch alone"),
    (shares(lambda A: F.normalize(A * (1 - eye(A)), p=1, dim=-1)), "on itself is left out"),
    (lambda A, g, P: (shared(A) * far(g, P)).mean((0, 2, 3)), "You divide by the number of keys, too"),
    (lambda A, g, P: distance_by_layer([A], g, P), "an axis for the layers in front"),
]  # fmt: skip

test_right_answers_pass, test_wrong_answers_are_named, test_untouched_stubs_are_not_attempted = judged(RIGHT, WRONG)
