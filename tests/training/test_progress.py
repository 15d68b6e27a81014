"""What a run tells while it runs."""

import sys
import time

import pytest

from vit_tutorial.training import Epoch, Progress, fit, print_progress
from vit_tutorial.training import progress as progress_module

from .toys import bright_or_dark, short, small_vit

UNDER_WAY = Progress(3, 10, 0.5, 0.4567, 65.2)
FINISHED = Progress(3, 10, 0.4, 1234.4, 61.0, Epoch(3, 1e-3, 0.4, 2.0))


def test_a_line_for_each_report_and_in_a_terminal_one_that_moves_until_the_epoch_is_over(monkeypatch, capsys):
    for terminal, moves in ((False, "\n"), (True, "\r")):
        monkeypatch.setattr(sys.stdout, "isatty", lambda terminal=terminal: terminal)
        for progress in (FINISHED, UNDER_WAY, FINISHED):
            print_progress(progress)
        lines = capsys.readouterr().out.splitlines(keepends=True)
        assert [line.rstrip() for line in lines] == [
            "epoch 3/10  loss 0.400  1,234 images/s  0:01:01 left",
            "epoch 3/10  loss 0.500  0.46 images/s  0:01:05 left",
            "epoch 3/10  loss 0.400  1,234 images/s  0:01:01 left",
        ]
        assert [line[-1] for line in lines] == ["\n", moves, "\n"]
        assert [len(line) for line in lines] == [80, 80, 80] or not terminal, "each covers the one before"


def test_what_is_told_is_what_the_run_does(monkeypatch):
    """Three epochs of 24 images in batches of 8, each step a second of a clock that we turn; told at every step."""
    now, seen = [0.0], []
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(progress_module, "SECONDS_BETWEEN_REPORTS", 0.9)
    model = small_vit()
    model.head.register_forward_hook(lambda *_: now.__setitem__(0, now[0] + model.training))
    history = fit(model, bright_or_dark(), short(), watch=[seen.append])
    under_way = [progress for progress in seen if not progress.finished]
    assert [(p.epoch, p.epochs) for p in under_way] == [(1 + i // 3, 3) for i in range(9)]
    assert {p.images_per_second for p in seen} == {8}
    assert [p.seconds_left for p in under_way] == pytest.approx([8, 7, 6, 5, 4, 3, 2, 1, 0])
    assert [epoch.seconds for epoch in history] == [3, 3, 3]
    assert [p.loss for p in under_way[2::3]] == [epoch.loss for epoch in history], "of the epoch so far"
    assert [p.finished for p in seen if p.finished] == history
