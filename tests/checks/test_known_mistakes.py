"""Every known mistake is told by its own message, and no two look alike."""

from itertools import combinations

import pytest
import torch

from vit_tutorial import check
from vit_tutorial.checks.comparing import random_tensor
from vit_tutorial.checks.lesson_01_patchify import NUM_PATCHES_MISTAKES
from vit_tutorial.checks.lesson_02_embeddings import CLASS_TOKEN_MISTAKES, SINCOS_MISTAKES
from vit_tutorial.checks.lesson_03_attention import ATTENTION_MISTAKES, HEAD_MISTAKES, MERGE_MISTAKES, SPLIT_MISTAKES
from vit_tutorial.checks.lesson_04_encoder_block import MIXING_MISTAKES, STRUCTURE_MISTAKES
from vit_tutorial.checks.lesson_07_looking_inside import DISTANCE_MISTAKES, ROLLOUT_MISTAKES, SIMILARITY_MISTAKES
from vit_tutorial.checks.lesson_08_new_resolution import RESIZE_MISTAKES
from vit_tutorial.checks.references import AttentionWeights, BlockWeights, Layer, Norm, attention, block

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


D, HEADS, M = 20, 5, 33


def weights(*shape, seed):
    return 0.3 * random_tensor(*shape, seed=seed)


def layer(outputs, inputs, seed=4):
    return Layer(weights(outputs, inputs, seed=seed), weights(outputs, seed=seed))


WEIGHTS = BlockWeights(
    *(Norm(1 + weights(D, seed=seed), weights(D, seed=seed + 1)) for seed in (0, 2)),
    (layer(M, D), layer(D, M)),
    AttentionWeights(weights(3, D, D, seed=5), weights(3, D, seed=5), layer(D, D, seed=5), HEADS),
)


@pytest.mark.parametrize(
    ("mistakes", "right", "weights"),
    [
        (ATTENTION_MISTAKES, attention, WEIGHTS.attention),
        (STRUCTURE_MISTAKES, block, WEIGHTS._replace(attention=None)),
        (MIXING_MISTAKES, block, WEIGHTS),
    ],
    ids=["attention", "structure", "mixing"],
)
def test_no_two_mistakes_give_the_same_result(mistakes, right, weights):
    """Each is named for certain: at the checks' sizes no mistake does what the reference or another mistake does."""
    fixed = ("head here", "heads here", "√4", "√16")  # a number written into the code is right at some size
    certain = [m for m in mistakes if not any(words in m.message for words in fixed)]
    x = 0.05 * random_tensor(2, 7, D)
    with torch.no_grad():
        found = [("right", right(weights, x)), *((m.message, m.function(weights, x)) for m in certain)]
    for (one, a), (two, b) in combinations(found, 2):
        alike = a.shape == b.shape and torch.allclose(a, b, rtol=1e-4, atol=1e-5)
        assert one == two or not alike, (one, two)
