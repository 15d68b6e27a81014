"""The figures of training show the numbers they are given, and the live one ends under its own title."""

import itertools
import math

import pytest
import torch

from vit_tutorial import plotting
from vit_tutorial.training import Epoch, Progress


def progress(step: int, loss: float, finished: Epoch | None = None) -> Progress:
    return Progress(step, 4, (step + 1) // 2, 2, loss, 100.0, 10.0 * (4 - step), finished)


def test_the_loss_stands_over_its_steps_with_ln_k_beside_it():
    axes = plotting.show_loss([1, 3], [2.0, 1.5], total=4, num_classes=8, title="it falls").axes[0]
    curve, guess = axes.lines
    assert curve.get_xydata().tolist() == [[1, 2.0], [3, 1.5]]
    assert guess.get_ydata()[0] == pytest.approx(math.log(8))
    assert (axes.get_xlim(), axes.get_title("left")) == ((0, 4), "it falls")


def test_every_count_of_the_confusion_is_written_where_it_belongs():
    axes = plotting.show_confusion(torch.tensor([[9, 1], [1200, 2]]), ("cat", "dog"), "dogs are called cats").axes[0]
    assert {text.get_position(): text.get_text() for text in axes.texts} == {
        (0, 0): "9",
        (1, 0): "1",
        (0, 1): "1,200",
        (1, 1): "2",
    }
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("called", "is")


def test_the_live_figure_says_how_long_it_takes_and_ends_under_its_title(monkeypatch):
    shown = []
    live = plotting.LiveLoss(num_classes=8, title="it learned")
    monkeypatch.setattr(live, "show", shown.append)
    live(progress(1, 2.0))
    live(progress(2, 1.8, Epoch(1, 1e-3, 1.9, 5.0)))
    live(progress(3, 1.2))
    live(progress(4, 1.1, Epoch(2, 0.0, 1.2, 5.0)))
    axes = shown[-1].axes[0]
    assert shown[0].axes[0].get_title("left") == "epoch 1 of 2, 30 seconds left"
    assert axes.get_title("left") == "it learned"
    assert axes.lines[0].get_xydata().tolist() == [[1, 2.0], [3, 1.2]], "reports, not the means of epochs"


def test_an_epoch_too_short_for_a_report_is_drawn_by_its_mean(monkeypatch):
    shown = []
    live = plotting.LiveLoss(num_classes=8, title="it learned")
    monkeypatch.setattr(live, "show", shown.append)
    live(progress(2, 1.8, Epoch(1, 1e-3, 1.8, 0.1)))
    live(progress(4, 1.1, Epoch(2, 0.0, 1.1, 0.1)))
    assert shown[-1].axes[0].lines[0].get_xydata().tolist() == [[2, 1.8], [4, 1.1]]


def test_a_slow_drawing_is_followed_by_a_long_pause(monkeypatch):
    now, shown = [0.0], []
    live = plotting.LiveLoss(num_classes=8, title="it learned")
    monkeypatch.setattr("vit_tutorial.plotting.training_figures.time.perf_counter", lambda: now[0])

    def slow(figure):
        shown.append(now[0])
        now[0] += 1.0

    monkeypatch.setattr(live, "show", slow)
    for step in range(60):
        live(Progress(step, 100, 1, 1, 2.0, 100.0, 10.0, None))
        now[0] += 1.0
    assert [round(b - a) for a, b in itertools.pairwise(shown)] == [22, 22], "a second of drawing, 20 of training"


def test_every_seed_is_a_dot_and_the_mean_a_bar():
    axes = plotting.show_seeds({"as it is": [0.5, 0.7], "other": [0.2, 0.4]}, "rows").axes[0]
    dots, bars = axes.lines[::2], axes.lines[1::2]
    assert [line.get_xdata().tolist() for line in dots] == [pytest.approx([50, 70]), pytest.approx([20, 40])]
    assert [line.get_ydata().tolist() for line in dots] == [[0, 0], [1, 1]]
    assert [bar.get_xdata()[0] for bar in bars] == [pytest.approx(60), pytest.approx(30)]
    band = axes.patches[0].get_extents().transformed(axes.transData.inverted())
    assert (band.x0, band.x1) == (pytest.approx(50), pytest.approx(70))
    assert [label.get_text() for label in axes.get_yticklabels()] == ["as it is", "other"]


def test_accuracy_by_images_shows_every_seed_and_a_line_through_the_means():
    results = {"ViT": {500: [0.1, 0.3], 2000: [0.5, 0.7]}, "CNN": {500: [0.6, 0.6], 2000: [1.0, 0.9]}}
    axes = plotting.show_by_images(results, num_classes=8, title="more is better").axes[0]
    seeds, means = axes.lines[0], axes.lines[1]
    assert seeds.get_xydata().tolist() == [[500, 10], [500, 30], [2000, 50], [2000, 70]]
    assert means.get_xydata().tolist() == [[500, pytest.approx(20)], [2000, pytest.approx(60)]]
    assert axes.lines[-1].get_ydata()[0] == 12.5
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["ViT", "CNN"]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["500", "2,000"]


def test_the_colours_of_the_confusion_are_for_mistakes():
    """Right answers are a hundred times as many: on one scale all mistakes would look alike."""
    image = (
        plotting.show_confusion(torch.tensor([[900, 1, 0], [4, 2, 0], [0, 0, 7]]), ("cat", "dog", "ox"), "title")
        .axes[0]
        .images[0]
    )
    assert image.get_array().mask.tolist() == [[True, False, True], [False, True, True], [True] * 3]
    assert image.get_clim()[1] > 4
    assert (
        plotting.show_confusion(torch.tensor([[3, 0], [0, 2]]), ("cat", "dog"), "none").axes[0].images[0].get_clim()[1]
        > 0
    )
