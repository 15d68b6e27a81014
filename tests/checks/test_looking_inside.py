"""The checks of notebook 07 on right and wrong answers."""

import math
from functools import reduce

import torch
import torch.nn.functional as F
from einops import rearrange

from vit_tutorial import check
from vit_tutorial.analysis import attention_rollout
from vit_tutorial.analysis import mean_attention_distance as distance_by_layer

from .variants import judged


def normalised(A):
    return A / A.sum(-1, keepdim=True)


def eye(A):
    return torch.eye(A.shape[-1], dtype=A.dtype)


# Similarity: (1+N, D) -> (h, w, h, w)


def cosines(p):
    return F.normalize(p, dim=-1) @ F.normalize(p, dim=-1).T


def maps_of(matrix):
    """With the class token left out, this matrix of similarities, (N, N), cut into (h, w, h, w)."""
    return lambda p, g: matrix(p[1:]).reshape(*g, *g)


# Rollout: a list of (B, h, T, T) -> (B, T, T)


def mixed(A):
    return 0.5 * A + 0.5 * eye(A)


def rolled(step, maps):
    """`step(A)` of each layer's mean over the heads, multiplied onto what is there."""
    return reduce(lambda result, weights: step(weights.mean(1)) @ result, maps, eye(maps[0]))


def into_the_maps(maps):
    for m in maps:
        m += eye(m)
    return rolled(lambda A: A / 2, maps)


# Distance: (B, h, T, T), (h, w), P -> (h,)


def far(grid, P, measure=math.dist, place=lambda n, h, w: (n // w, n % w)):
    """The distance of every two patches, (N, N)."""
    h, w = grid
    places = [tuple(P * x for x in place(n, h, w)) for n in range(h * w)]
    return torch.tensor([[float(measure(a, b)) for b in places] for a in places])


def measured(measure=math.dist, place=lambda n, h, w: (n // w, n % w), share=normalised):
    return lambda A, g, P: (share(A[:, :, 1:, 1:]) * far(g, P, measure, place)).sum(-1).mean((0, 2))


def without_float(weights, grid, patch_size):
    n = torch.arange(grid[0] * grid[1])
    places = patch_size * torch.stack([n // grid[1], n % grid[1]], dim=1)
    return (normalised(weights[:, :, 1:, 1:]) * torch.cdist(places, places)).sum(-1).mean((0, 2))


RIGHT = {
    check.position_similarity: {
        "outer": lambda p, g: (p @ p.T / torch.outer(p.norm(dim=1), p.norm(dim=1)))[1:, 1:].view(*g, *g),
        "einsum": lambda p, g: torch.einsum("ijd,kld->ijkl", 2 * [F.normalize(p[1:], dim=1).unflatten(0, g)]),
        "cosine_similarity": lambda p, g: F.cosine_similarity(p[1:, None], p[None, 1:], dim=-1).reshape(*g, *g),
        "einops": lambda p, g: rearrange(cosines(p[1:]), "(a b) (c d) -> a b c d", b=g[1], d=g[1]),
    },
    check.mean_attention_distance: {
        "the package's": lambda weights, grid, P: distance_by_layer([weights], grid, P)[0],
        "a list": lambda A, g, P: distance_by_layer([A], g, P)[0].tolist(),
        "doubles": (lambda A, g, P: measured()(A.double(), g, P), "your result is torch.float64"),
        "numpy": lambda A, g, P: torch.tensor(
            (normalised(A[..., 1:, 1:]).numpy() * far(g, P).numpy()).sum(-1).mean((0, 2))),
        "einsum": lambda A, g, P: torch.einsum("bhij,ij->bhi", normalised(A[..., 1:, 1:]), far(g, P)).mean(dim=[0, -1]),
        "the rest": lambda A, g, P: (A[..., 1:, 1:] / (1 - A[..., 1:, :1]) * far(g, P)).sum(-1).mean((0, 2)),
        "divided after": lambda A, g, P: ((x := A[:, :, 1:, 1:]) * far(g, P)).sum(3).div(x.sum(3)).mean((0, 2)),
    },
    check.rollout: {
        "the package's": attention_rollout,
        "doubles": (lambda maps: attention_rollout([A.double() for A in maps]), "your result is torch.float64"),
        "normalised": lambda maps: rolled(lambda A: normalised(A + eye(A)), maps),
        "normalised at the end": lambda maps: normalised(rolled(lambda A: A + eye(A), maps)),
        "backwards": lambda maps: reduce(torch.matmul, [mixed(A.mean(1)) for A in maps[::-1]]),
        "in place": lambda maps: rolled(lambda A: A.add_(eye(A)).div_(A.sum(-1, keepdim=True)), maps),
    },
}  # fmt: skip
WRONG = {
    check.position_similarity: [
        (lambda p, g: cosines(p[1:] - p[0]).view(*g, *g), "You subtract the class token's position"),
        (lambda p, g: cosines(p), "The class token is still there"),
        (maps_of(lambda p: (q := p / p.norm(dim=-1)) @ q.T), "`keepdim=True` makes them (N, 1)"),
        (maps_of(torch.corrcoef), "that gives the correlation"),
        (lambda p, g: cosines(p[1:]).reshape(2 * g[::-1]).permute(1, 0, 3, 2), "counted down the columns"),
        (lambda p, g: F.cosine_similarity(p[1:], p[1:]), "compared with itself only"),
    ],
    check.mean_attention_distance: [
        (measured(lambda a, b: abs(a[0] - b[0]) + abs(a[1] - b[1])), "The distance is the straight line"),
        (measured(place=lambda n, h, w: (n // h, n % h)), "Rows and columns of the grid are exchanged"),
        (measured(share=lambda A: A), "sum to less than 1"),
        (lambda A, g, P: (A[:, :, 0, 1:] * far(g, P)).sum(-1).mean(0), "only the class token's row"),
        (lambda A, g, P: (A * far(g, P)).sum(-1).mean((0, 2)), "The class token is still there: 1+N"),
        (lambda A, g, P: (A[..., 1:, 1:] * far(g, P)).sum((0, 2, 3)) / A[..., 1:, 1:].sum((0, 2, 3)), "together"),
        (without_float, "`.float()` makes floats of them"),
    ],
    check.rollout: [
        (lambda maps: rolled(mixed, maps[::-1]), "in the opposite order"),
        (lambda maps: rolled(lambda A: A + torch.eye(A.shape[-1]), maps), "to 2^L after L"),
        (lambda maps: reduce(lambda R, A: A.mean(1) + eye(R) / 2 @ R, maps, eye(maps[0])), "not multiplied with it"),
        (lambda maps: math.prod(mixed(A.mean(1)) for A in maps), "value by value, with `*`"),
        (lambda m: mixed(rolled(lambda A: A, m)), "The identity is added to a product, after it or once at the end"),
        (lambda maps: rolled(mixed, maps[:4]) if len(maps) == 4 else maps[0].mean(1), "wrong at another"),
        (into_the_maps, "changes its input"),
    ],
}  # fmt: skip

test_right_answers_pass, test_wrong_answers_are_named = judged(RIGHT, WRONG)


def test_weights_that_were_written_into_are_made_anew():
    assert check.rollout(into_the_maps).status == "wrong"
    assert check.rollout(check.rollout.answer)
    assert check.rollout.trials[0][0][0].sum(-1).allclose(torch.ones(1))
