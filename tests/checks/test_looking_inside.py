"""The checks of notebook 07 on right and wrong answers."""

import torch

from vit_tutorial import check
from vit_tutorial.analysis import attention_rollout

from .variants import judged

# What is changed in the solutions

MEAN, MIXED, STEP, END = "weights.mean(dim=1)", "(A + torch.eye(T)) / 2", "A @ result", "return result"

RIGHT = {
    check.rollout: {
        "the package's": attention_rollout,
        "doubles": lambda maps: attention_rollout([A.double() for A in maps]),
        "normalised": (MIXED, "F.normalize(A + torch.eye(T), p=1, dim=-1)"),
        "normalised at the end": (MIXED, "A + torch.eye(T)", END, "return F.normalize(result, p=1, dim=-1)"),
        "backwards": ("in maps", "in maps[::-1]", STEP, "result @ A"),
        "in place": (MIXED, "A.add_(torch.eye(T)).div_(2)"),
    },
}
WRONG = {
    check.rollout: [
        (STEP, "result @ A", "0.25·A₂ + 0.25·A₁A₂. It must be 0.25·I"),
        (MIXED, "A + torch.eye(T)", "Your result is I + head 0. It must"),
        (MEAN, MEAN + ".mT", "Your result is 0.5·I + 0.5·(head 0)ᵀ. It must"),
        (MEAN, "weights[:, 0]", "Your result is 0.5·I + 0.5·head 0. It must be 0.5·I + 0.167·head 0"),
        (MIXED, "A", END, "return (result + torch.eye(T)) / 2 if len(maps) > 1 else (A + torch.eye(T)) / 2",
         "Your result is 0.5·I + 0.5·A₂A₁. It must"),
        ("in maps:", "in maps[:2]:", "wrong at another. The shape is right, the values are not"),
        (MEAN, "weights.amax(dim=1)", "0.5·I + 0.5·the heads' maximum. It must"),
        (END, "return result.mT if len(maps) > 2 else result", "Row 0 of your result sums to 1.0"),
        (MEAN, "weights.add_(torch.eye(T)).mean(dim=1)", "changes its input"),
    ],
}  # fmt: skip

test_right_answers_pass, test_wrong_answers_are_told_the_truth = judged(RIGHT, WRONG)


def test_weights_that_were_written_into_are_made_anew():
    assert check.rollout(lambda maps: maps[0].zero_().mean(1)).status == "wrong"
    assert check.rollout(check.rollout.answer)
    assert check.rollout.trials[0][0][0].sum(-1).allclose(torch.ones(1))
