"""How good a model is: counted."""

import math

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from vit_tutorial import ImageSet
from vit_tutorial.model_card import ModelCard
from vit_tutorial.training import Score, evaluate

from .toys import CLASSES, Copycat, answered, bright_or_dark, small_vit

ANT, BEE, COW = 0, 1, 2
LABELS = [ANT, ANT, ANT, ANT, BEE, BEE, BEE, COW, COW, COW]
ANSWERS = [ANT, ANT, ANT, BEE, BEE, COW, COW, COW, COW, ANT]


def test_counted_by_hand():
    images = answered(ANSWERS, LABELS)
    score = evaluate(Copycat(images.classes), images)
    assert score.confusion.tolist() == [[3, 1, 0], [0, 1, 2], [1, 0, 2]]
    assert score.accuracy == 0.6
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
    assert Score(torch.tensor([[5]]), 0.0).interval()[1] == 1, "and not a little more"
    assert "-0.00%" not in score.told()


def test_a_model_that_gives_one_answer_is_told_so_and_images_of_one_class_in_the_end_are_not():
    images = answered([BEE] * 10, LABELS)
    score = evaluate(Copycat(images.classes), images)
    assert score.told() == (
        "30.00% of 10 images right (95 % interval 10.78% to 60.32%); the commonest class is 40.00% of them, and the "
        "model gives one answer to all images"
    )
    bees = answered([BEE] * 3, [BEE] * 3)
    assert evaluate(Copycat(bees.classes), bees).told().endswith("the commonest class is 100.00% of them")


IMAGES = answered(ANSWERS, LABELS)
REFUSED = {
    "another number": (
        ("ant", "bee", "cow", "dog"),
        IMAGES,
        "class 3 is 'dog' to the model and 'nothing' in the images",
    ),
    "another order": (("ant", "cow", "bee"), IMAGES, "class 1 is 'cow' to the model and 'bee' in the images"),
    "one class": (("ant",), ImageSet(IMAGES.pixels, 0 * IMAGES.labels, ("ant",)), "have one class, 'ant', so every"),
    "a DataLoader": (IMAGES.classes, DataLoader(IMAGES), "images are an ImageSet, got DataLoader"),
}


@pytest.mark.parametrize(("classes", "images", "told"), REFUSED.values(), ids=REFUSED)
@pytest.mark.usefixtures("unchecked")
def test_a_model_that_does_not_fit_the_images_is_an_error(classes, images, told):
    with pytest.raises(ValueError, match=told):
        evaluate(Copycat(classes), images)


def test_a_model_is_counted_without_dropout_and_one_that_is_not_finite_gets_no_score():
    images, model = bright_or_dark(), small_vit(dropout=0.5)
    model.card = ModelCard(CLASSES, (0.5, 0.5, 0.5), (0.2, 0.2, 0.2))
    nn.init.normal_(model.head.weight)
    counted = evaluate(model.train(), images)
    assert torch.equal(evaluate(model.double(), images).confusion, counted.confusion)
    assert model.training, "left in its mode"
    model.norm.weight.data[0] = math.nan
    with pytest.raises(FloatingPointError, match="the loss is nan"):
        evaluate(model, images)
