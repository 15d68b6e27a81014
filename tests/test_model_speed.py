"""The benchmark still runs, and what it counts is right. No time is looked at."""

import pytest
import torch
from benchmarks import model_speed


def test_a_short_run_prints_a_row_for_each_implementation(capsys):
    model_speed.main(["--variants", "Ti/16", "--image-size", "32", "--batch", "2", "--rounds", "1"])
    printed = capsys.readouterr().out
    for title in ("Ti/16 forward, batch 1", "Ti/16 forward, batch 2", "Ti/16 forward+backward, batch 2"):
        assert title in printed
    for name in ("vit_tutorial", "torchvision", "timm", "transformers"):
        assert printed.count(f"\n{name} ") == 3


def test_peak_memory_is_that_of_the_worst_moment():
    """Two tensors of a mebibyte live at once, though three are made."""

    def call():
        first = torch.ones(2**18)
        second = first + 1
        del first
        second + 1

    assert model_speed.peak_memory(call) == pytest.approx(2 * 2**20, abs=100)  # and a few bytes for the number 1
