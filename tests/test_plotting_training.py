"""The figures of a training run show its numbers, and the live one ends under its own title."""

import math

import pytest
import torch

from vit_tutorial.plotting.training import LiveLoss, show_confusion, show_loss
from vit_tutorial.training import Epoch, Progress


def progress(step: int, loss: float, finished: Epoch | None = None) -> Progress:
    return Progress(step, 4, (step + 1) // 2, 2, loss, 100.0, 10.0 * (4 - step), finished)


def test_the_loss_stands_over_its_steps_with_ln_k_beside_it():
    axes = show_loss([1, 3], [2.0, 1.5], total=4, num_classes=8, title="it falls").axes[0]
    curve, guess = axes.lines
    assert curve.get_xydata().tolist() == [[1, 2.0], [3, 1.5]]
    assert guess.get_ydata()[0] == pytest.approx(math.log(8))
    assert (axes.get_xlim(), axes.get_title("left")) == ((0, 4), "it falls")


def test_every_count_of_the_confusion_is_written_where_it_belongs():
    axes = show_confusion(torch.tensor([[9, 1], [1200, 2]]), ("cat", "dog"), "dogs are called cats").axes[0]
    assert {text.get_position(): text.get_text() for text in axes.texts} == {
        (0, 0): "9",
        (1, 0): "1",
        (0, 1): "1,200",
        (1, 1): "2",
    }
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("called", "is")


def test_the_live_figure_says_how_long_it_takes_and_ends_under_its_title(monkeypatch):
    shown = []
    live = LiveLoss(num_classes=8, title="it learned")
    monkeypatch.setattr(live, "show", shown.append)
    live(progress(1, 2.0))
    live(progress(2, 1.8, Epoch(1, 1e-3, 1.9, 5.0)))
    live(progress(3, 1.2))
    live(progress(4, 1.1, Epoch(2, 0.0, 1.2, 5.0)))
    axes = shown[-1].axes[0]
    assert shown[0].axes[0].get_title("left") == "epoch 1 of 2, 30 seconds left"
    assert axes.get_title("left") == "it learned"
    assert axes.lines[0].get_xydata().tolist() == [[1, 2.0], [3, 1.2]], "reports, not the means of epochs"
