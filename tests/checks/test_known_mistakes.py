"""Every known mistake, handed in as the answer, is told by its own message and no other's."""

import pytest

from vit_tutorial import check
from vit_tutorial.checks.lesson_01_patchify import NUM_PATCHES_MISTAKES
from vit_tutorial.checks.lesson_02_embeddings import CLASS_TOKEN_MISTAKES, SINCOS_MISTAKES
from vit_tutorial.checks.lesson_03_attention import HEAD_MISTAKES, MERGE_MISTAKES, SPLIT_MISTAKES
from vit_tutorial.checks.lesson_07_looking_inside import DISTANCE_MISTAKES, ROLLOUT_MISTAKES, SIMILARITY_MISTAKES
from vit_tutorial.checks.lesson_08_new_resolution import RESIZE_MISTAKES

CATALOGUES = {
    check.num_patches: NUM_PATCHES_MISTAKES,
    check.class_token: CLASS_TOKEN_MISTAKES,
    check.sincos: SINCOS_MISTAKES,
    check.attention_head: HEAD_MISTAKES,
    check.split_heads: SPLIT_MISTAKES,
    check.merge_heads: MERGE_MISTAKES,
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
