"""Every known mistake, handed in as the answer, is told by its own message and no other's."""

import pytest

from vit_tutorial import check
from vit_tutorial.checks.lesson_07_looking_inside import DISTANCE_MISTAKES, ROLLOUT_MISTAKES, SIMILARITY_MISTAKES
from vit_tutorial.checks.lesson_08_new_resolution import RESIZE_MISTAKES

CATALOGUES = {
    check.position_similarity: SIMILARITY_MISTAKES,
    check.mean_attention_distance: DISTANCE_MISTAKES,
    check.rollout: ROLLOUT_MISTAKES,
    check.resize_positions: RESIZE_MISTAKES,
}


@pytest.mark.parametrize("exercise", CATALOGUES, ids=lambda exercise: exercise.name)
def test_each_known_mistake_is_told_by_its_own_message(exercise):
    others = [
        (mistake.message, verdict)
        for mistake in CATALOGUES[exercise]
        if mistake.message not in (verdict := exercise(lambda *args, mistake=mistake: mistake.function(*args))).message
    ]
    assert not others
