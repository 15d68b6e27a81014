"""How good a model is: counted."""

import math

import pytest
import torch
from torch import nn

from vit_tutorial.model_card import ModelCard
from vit_tutorial.training import Score, evaluate

from .toys import CLASSES, Copycat, answered, bright_or_dark, small_vit

CARD = ModelCard(CLASSES, (0.5, 0.5, 0.5), (0.2, 0.2, 0.2))
ANT, BEE, COW = 0, 1, 2
LABELS = [ANT, ANT, ANT, ANT, BEE, BEE, BEE, COW, COW, COW]
ANSWERS = [ANT, ANT, ANT, BEE, BEE, COW, COW, COW, COW, ANT]


@pytest.mark.parametrize("batch_size", [1, 4, 10, 500])
def test_counted_by_hand(batch_size):
    """Ten images in batches of four: the mean of the three batches' accuracies would be another number."""
    images = answered(ANSWERS, LABELS)
    score = evaluate(Copycat(images.classes), images, batch_size)
    assert score.confusion.tolist() == [[3, 1, 0], [0, 1, 2], [1, 0, 2]]
    assert (score.accuracy, score.commonest, score.one_answer) == (0.6, 0.4, False)
    right, wrong = math.log(math.e + 2) - 1, math.log(math.e + 2)
    assert score.loss == pytest.approx((6 * right + 4 * wrong) / 10)


@pytest.mark.parametrize(
    ("right", "count", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_the_interval_is_wilsons(right, count, low, high):
    """As published: Newcombe 1998, Statistics in Medicine 17, 857–872, Table I, method 3."""
    score = Score(torch.tensor([[right, count - right], [0, 0]]), 0.0)
    assert score.interval() == pytest.approx((low, high), abs=5e-5)


def test_a_model_that_gives_one_answer_is_told_so_and_images_of_one_class_in_the_end_are_not():
    images = answered([BEE] * 10, LABELS)
    score = evaluate(Copycat(images.classes), images)
    assert (score.accuracy, score.commonest, score.one_answer) == (0.3, 0.4, True)
    assert score.told() == (
        "30.00% of 10 images right (95 % interval 10.78% to 60.32%); the commonest class is 40.00% of them, and the "
        "model gives one answer to all images"
    )
    bees = answered([BEE] * 3, [BEE] * 3)
    assert not evaluate(Copycat(bees.classes), bees).one_answer


@pytest.mark.parametrize(("whole", "encoder"), [(False, False), (True, False)])
def test_there_is_no_dropout_and_every_part_stays_in_its_mode(whole, encoder):
    images, model = bright_or_dark(), small_vit(dropout=0.5, attention_dropout=0.5, drop_path=0.5)
    nn.init.normal_(model.head.weight)
    model.card = CARD
    model.train(whole).encoder.train(encoder)
    before, modes = torch.get_rng_state(), [module.training for module in model.modules()]
    assert evaluate(model, images).loss == evaluate(model, images).loss
    assert torch.equal(torch.get_rng_state(), before)
    assert [module.training for module in model.modules()] == modes
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_model_that_does_not_fit_the_images_is_an_error():
    images = answered(ANSWERS, LABELS)
    told = "class 3 is 'dog' to the model and 'nothing' in the images: the model has 4 classes, the images 3"
    with pytest.raises(ValueError, match=told):
        evaluate(Copycat(("ant", "bee", "cow", "dog")), images)
    with pytest.raises(ValueError, match="class 1 is 'cow' to the model and 'bee' in the images"):
        evaluate(Copycat(("ant", "cow", "bee")), images)


def test_a_model_of_any_dtype_is_counted_and_one_that_is_not_finite_gets_no_score():
    images, model = bright_or_dark(), small_vit()
    model.card = CARD
    nn.init.normal_(model.head.weight)
    counted = evaluate(model, images)
    assert torch.equal(evaluate(model.double(), images).confusion, counted.confusion)
    model.norm.weight.data[0] = math.nan
    with pytest.raises(FloatingPointError, match="the loss is nan"):
        evaluate(model, images)
