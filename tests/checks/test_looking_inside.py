"""The checks of notebook 07 on right and wrong answers."""

import torch
import torch.nn.functional as F
from einops import rearrange

from vit_tutorial import check
from vit_tutorial.analysis import attention_rollout

from .variants import judged


def cosines(p):
    return F.normalize(p, dim=-1) @ F.normalize(p, dim=-1).T


def maps_of(matrix):
    """With the class token left out, this matrix of similarities, (N, N), cut into (h, w, h, w)."""
    return lambda p, g: matrix(p[1:]).reshape(*g, *g)


def class_by_class(answers, num_classes, map_for, ruined):
    """Ask about each class in all scenes, and count it where it is wrong."""
    total = torch.zeros(len(answers))
    for k in range(num_classes):
        total += ruined(map_for(torch.full_like(answers, k))) * (answers != k)
    return total / (num_classes - 1)


def scene_by_scene(answers, num_classes, map_for, ruined):
    found = torch.stack([ruined(map_for([k] * len(answers))) for k in range(num_classes)])
    wrong = [[found[k, i].item() for k in range(num_classes) if k != a] for i, a in enumerate(answers.tolist())]
    return torch.tensor([sum(row) / len(row) for row in wrong])


# What is changed in the solutions

MEAN, MIXED, STEP, END = "weights.mean(dim=1)", "(A + torch.eye(T)) / 2", "A @ result", "return result"
SHARES = "torch.stack(found).mean(dim=0)"
OWN = "ruined(map_for(answers)).float()"

RIGHT = {
    check.position_similarity: {
        "outer": lambda p, g: (p @ p.T / torch.outer(p.norm(dim=1), p.norm(dim=1)))[1:, 1:].view(*g, *g),
        "einsum": lambda p, g: torch.einsum("ijd,kld->ijkl", 2 * [F.normalize(p[1:], dim=1).unflatten(0, g)]),
        "cosine_similarity": lambda p, g: F.cosine_similarity(p[1:, None], p[None, 1:], dim=-1).reshape(*g, *g),
        "einops": lambda p, g: rearrange(cosines(p[1:]), "(a b) (c d) -> a b c d", b=g[1], d=g[1]),
    },
    check.rollout: {
        "the package's": attention_rollout,
        "doubles": lambda maps: attention_rollout([A.double() for A in maps]),
        "normalised": (MIXED, "F.normalize(A + torch.eye(T), p=1, dim=-1)"),
        "normalised at the end": (MIXED, "A + torch.eye(T)", END, "return F.normalize(result, p=1, dim=-1)"),
        "backwards": ("in maps", "in maps[::-1]", STEP, "result @ A"),
        "in place": (MIXED, "A.add_(torch.eye(T)).div_(2)"),
    },
    check.wrong_classes: {"class by class": class_by_class, "scene by scene": scene_by_scene},
}
WRONG = {
    check.position_similarity: [
        (maps_of(lambda p: torch.cdist(p, p)), "Patch 0 has 0 with itself, and must have 1"),
        ("dim=-1", "dim=0", "Patch 2 has 0.14 with itself"),
        ("position[1:]", "position[1:] - position[0]", "have -0.142, and the cosine of their positions is -0.375"),
        (lambda p, g: cosines(p), "(1+N, 1+N) = (16, 16), and (h, w, h, w)"),
        (lambda p, g: F.cosine_similarity(p[1:], p[1:]), "(N,) = (15,), and (h, w, h, w)"),
    ],
    check.rollout: [
        (STEP, "result @ A", "0.25·A₂ + 0.25·A₁A₂. It must be 0.25·I"),
        (MIXED, "A + torch.eye(T)", "Your result is I + head 0. It must"),
        (MEAN, MEAN + ".mT", "Your result is 0.5·I + 0.5·(head 0)ᵀ. It must"),
        (MEAN, "weights[:, 0]", "Your result is 0.5·I + 0.5·head 0. It must be 0.5·I + 0.167·head 0"),
        (MIXED, "A", END, "return (result + torch.eye(T)) / 2 if len(maps) > 1 else (A + torch.eye(T)) / 2",
         "Your result is 0.5·I + 0.5·A₂A₁. It must"),
        ("in maps:", "in maps[:2]:", "wrong at another. The shape is right, the values are not"),
        (MEAN, "weights.amax(dim=1)", "Row 0 of your result sums to 1.3"),
        (END, "return result.mT if len(maps) > 2 else result", "Row 0 of your result sums to 1.0"),
        (MEAN, "weights.add_(torch.eye(T)).mean(dim=1)", "changes its input"),
    ],
    check.wrong_classes: [
        ("range(1, num_classes)", "range(1, 2)", "you ask about classes [1]. All others"),
        ("range(1, ", "range(", "Your result is 0.75·the share + 0.25·what the right class ruins"),
        (SHARES, "1 - " + SHARES, "Your result is 1 + -1·the share"),
        (SHARES, f"{OWN} - {SHARES}", "Your result is -1·the share + what the right class ruins"),
        ("(answers + shift) % num_classes", "answers + shift", "Places count from 0"),
        (SHARES, f"({SHARES} > 0.5).float()", "Your shares are 0 or 1"),
        ("map_for(wrong)", "wrong", "expected 3 dims. Received 1-dim tensor"),
        ("mean(dim=0)", "mean()", "has the wrong shape: (), and (B,)"),
    ],
}  # fmt: skip

test_right_answers_pass, test_wrong_answers_are_told_the_truth = judged(RIGHT, WRONG)


def test_weights_that_were_written_into_are_made_anew():
    assert check.rollout(lambda maps: maps[0].zero_().mean(1)).status == "wrong"
    assert check.rollout(check.rollout.answer)
    assert check.rollout.trials[0][0][0].sum(-1).allclose(torch.ones(1))
