"""The checks of notebook 07 on right and wrong answers."""

import math
from functools import reduce

import torch
import torch.nn.functional as F
from einops import rearrange

from vit_tutorial import check
from vit_tutorial.analysis import attention_rollout

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


# The control: (B,) answers -> (B,)


def class_by_class(answers, num_classes, map_for, ruined):
    """Ask about each class in all scenes, and count it where it is wrong."""
    total = torch.zeros(len(answers))
    for k in range(num_classes):
        total += ruined(map_for(torch.full_like(answers, k))) * (answers != k)
    return total / (num_classes - 1)


def scene_by_scene(answers, num_classes, map_for, ruined):
    found = torch.stack([ruined(map_for([k] * len(answers))) for k in range(num_classes)])
    return torch.tensor(
        [
            sum(found[k, i].item() for k in range(num_classes) if k != answer) / (num_classes - 1)
            for i, answer in enumerate(answers.tolist())
        ]
    )


def next_class(answers, num_classes, map_for, ruined):
    return ruined(map_for((answers + 1) % num_classes)).float()


RIGHT = {
    check.position_similarity: {
        "outer": lambda p, g: (p @ p.T / torch.outer(p.norm(dim=1), p.norm(dim=1)))[1:, 1:].view(*g, *g),
        "einsum": lambda p, g: torch.einsum("ijd,kld->ijkl", 2 * [F.normalize(p[1:], dim=1).unflatten(0, g)]),
        "cosine_similarity": lambda p, g: F.cosine_similarity(p[1:, None], p[None, 1:], dim=-1).reshape(*g, *g),
        "einops": lambda p, g: rearrange(cosines(p[1:]), "(a b) (c d) -> a b c d", b=g[1], d=g[1]),
    },
    check.rollout: {
        "the package's": attention_rollout,
        "doubles": (lambda maps: attention_rollout([A.double() for A in maps]), "your result is torch.float64"),
        "normalised": lambda maps: rolled(lambda A: normalised(A + eye(A)), maps),
        "normalised at the end": lambda maps: normalised(rolled(lambda A: A + eye(A), maps)),
        "backwards": lambda maps: reduce(torch.matmul, [mixed(A.mean(1)) for A in maps[::-1]]),
        "in place": lambda maps: rolled(lambda A: A.add_(eye(A)).div_(A.sum(-1, keepdim=True)), maps),
    },
    check.wrong_classes: {"class by class": class_by_class, "scene by scene": scene_by_scene},
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
    check.rollout: [
        (lambda maps: rolled(mixed, maps[::-1]), "in the opposite order"),
        (lambda maps: rolled(lambda A: A + torch.eye(A.shape[-1]), maps), "to 2^L after L"),
        (lambda maps: reduce(lambda R, A: A.mean(1) + eye(R) / 2 @ R, maps, eye(maps[0])), "not multiplied with it"),
        (lambda maps: math.prod(mixed(A.mean(1)) for A in maps), "value by value, with `*`"),
        (lambda m: mixed(rolled(lambda A: A, m)), "The identity is added to a product, after it or once at the end"),
        (lambda maps: rolled(mixed, maps[:4]) if len(maps) == 4 else maps[0].mean(1), "wrong at another"),
        (into_the_maps, "changes its input"),
    ],
    check.wrong_classes: [
        (next_class, "one wrong class only"),
        (lambda a, K, of, hit: torch.stack([hit(of((a + s) % K)).float() for s in range(K)]).mean(0), "right class"),
        (lambda a, K, of, hit: torch.stack([hit(of(a + s)).float() for s in range(1, K)]).mean(0), "first again"),
        (lambda *given: class_by_class(*given).mean(), "One share for each scene"),
    ],
}  # fmt: skip

test_right_answers_pass, test_wrong_answers_are_named = judged(RIGHT, WRONG)


def test_weights_that_were_written_into_are_made_anew():
    assert check.rollout(into_the_maps).status == "wrong"
    assert check.rollout(check.rollout.answer)
    assert check.rollout.trials[0][0][0].sum(-1).allclose(torch.ones(1))
