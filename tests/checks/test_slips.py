"""Every slip of every exercise: it is refused, with its own sentence, so no two slips of an exercise look alike."""

import pytest

from vit_tutorial import check
from vit_tutorial.checks.exercise import Exercise, edited

EXERCISES = [value for value in vars(check).values() if isinstance(value, Exercise)]


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.name)
def test_every_slip_is_refused_with_its_own_sentence(exercise, unchecked):
    told = [(slip.message, exercise(slip.answer)) for slip in exercise.slips]
    assert [(message, verdict) for message, verdict in told if message not in verdict.message] == []
    assert {verdict.status for _, verdict in told} <= {"wrong"}


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.name)
def test_the_solution_itself_passes(exercise):
    assert exercise(exercise.answer).status == "passed"
    assert "noqa" not in repr(exercise.solution()), "that is ours alone"


def test_an_edit_that_no_longer_fits_is_noticed():
    with pytest.raises(ValueError, match="'q @ w' is not in the source of my_attention_head"):
        edited(check.attention_head.answer, "q @ w", "q")
