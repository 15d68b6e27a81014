"""What a run tells while it runs."""

import sys
import time

import pytest

from vit_tutorial.training import Epoch, Progress, evaluate, fit, print_progress
from vit_tutorial.training import progress as progress_module

from .toys import bright_or_dark, short, small_vit

UNDER_WAY = Progress(7, 30, 3, 10, 0.5, 0.4567, 65.2)
FINISHED = Progress(9, 30, 3, 10, 0.4, 1234.4, 61.0, Epoch(3, 1e-3, 0.4, 2.0, 0.3, 0.875, 0.5))


def test_in_a_pipe_or_a_notebook_a_line_for_each_epoch_and_one_every_five_seconds(capsys, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    print_progress(FINISHED)
    print_progress(FINISHED._replace(finished=Epoch(3, 1e-3, 0.4, 2.0)))
    print_progress(UNDER_WAY)  # too soon
    now[0] += 5
    print_progress(UNDER_WAY)
    assert capsys.readouterr() == (
        "epoch 3/10  loss 0.400  validation 87.5% (commonest class 50.0%)  1,234 images/s  0:01:01 left\n"
        "epoch 3/10  loss 0.400  1,234 images/s  0:01:01 left\n"
        "epoch 3/10  loss 0.500  0.46 images/s  0:01:05 left\n",
        "",
    )


def test_in_a_terminal_a_line_that_moves(monkeypatch, capsys):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    for progress in (FINISHED._replace(finished=None), UNDER_WAY, FINISHED):
        print_progress(progress)
    first, second, third = capsys.readouterr().out.split("\r")[1:]
    assert second.rstrip(" ") == "epoch 3/10  loss 0.500  0.46 images/s  0:01:05 left"
    assert third.endswith("\n")
    assert {len(line) for line in (first, second)} == {79}, "each covers the one before"


def test_what_is_told_is_what_the_run_does(monkeypatch):
    """Three epochs of 24 images in batches of 8, each step a second of a clock that we turn; told at every step."""
    now, seen = [0.0], []
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(progress_module, "SECONDS_BETWEEN_REPORTS", 0.9)
    model, validation = small_vit(), bright_or_dark(16).subset(range(11))
    model.head.register_forward_hook(lambda *_: now.__setitem__(0, now[0] + model.training))
    history = fit(model, bright_or_dark(), short(), validation=validation, watch=[seen.append])
    under_way = [progress for progress in seen if not progress.finished]
    assert [(p.epoch, p.epochs, p.step, p.steps) for p in under_way] == [(1 + i // 3, 3, 1 + i, 9) for i in range(9)]
    assert {p.images_per_second for p in seen} == {8}
    assert [p.seconds_left for p in under_way] == pytest.approx([8, 7, 6, 5, 4, 3, 2, 1, 0])
    assert [epoch.seconds for epoch in history] == [3, 3, 3]
    for index, epoch in enumerate(history):
        told = [p.loss for p in under_way[3 * index : 3 * index + 3]]
        assert epoch.loss == pytest.approx(sum(told) / 3), "even batches: the mean of their means"
    assert [p.finished for p in seen if p.finished] == history
    score = evaluate(model, validation)
    assert history[-1][4:] == (score.loss, score.accuracy, score.commonest)
    assert score.commonest == 6 / 11
