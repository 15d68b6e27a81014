"""Curves are drawn where their values are, and a name looks the same wherever it stands."""

import numpy as np
import pytest
import torch
from reading import lines

from vit_tutorial import plotting
from vit_tutorial.plotting.style import CONTROL, MISTAKE, SERIES, TRAINED


@pytest.mark.parametrize("log", ["", "y", "xy"])
def test_the_line_is_the_mean_and_the_band_goes_from_the_lowest_to_the_highest(log):
    runs = torch.tensor([[1.0, 2.0, 4.0], [3.0, 6.0, 5.0]], requires_grad=True)
    first, second = plotting.show_curves(
        [1, 2, 3], {"size": {"mine": runs}, "other": {"mine": [7, 8, 9]}}, "block", "", log
    ).axes
    assert (lines(first), lines(second)) == ({"mine": [2, 4, 4.5]}, {"mine": [7, 8, 9]})
    corners = first.collections[0].get_paths()[0].vertices
    assert {(1, 1), (1, 3), (2, 2), (2, 6), (3, 4), (3, 5)} <= {tuple(corner) for corner in corners}
    assert not second.collections, "one run has no band"
    assert (first.get_xlabel(), first.get_ylabel(), second.get_ylabel()) == ("block", "size", "other")
    assert (first.get_xscale(), first.get_yscale()) == tuple("log" if axis in log else "linear" for axis in "xy")


def test_a_curve_of_another_length_is_refused():
    with pytest.raises(ValueError, match="size"):
        plotting.show_curves([1, 2], {"size": {"mine": torch.ones(4, 3)}}, "block", "")


def test_a_name_looks_the_same_in_every_panel_and_as_its_meaning_asks():
    measures = {
        "size": {"all": [1], "part": [2], "wrong": [2]},
        "share": {"part": [3], "untrained": [4], "trained": [5]},
    }
    left, right = plotting.show_curves([1], measures, "block", "", mistake="wrong").axes
    looks = {line.get_label(): (line.get_color(), line.get_linestyle(), line.get_marker()) for line in left.lines}
    again = {line.get_label(): (line.get_color(), line.get_linestyle(), line.get_marker()) for line in right.lines}
    assert looks["all"] != looks["part"] == again["part"]
    assert TRAINED not in {looks["all"][0], looks["part"][0]}, "its colour is taken"
    assert [looks["wrong"][0], again["untrained"][0], again["trained"][0]] == [MISTAKE, CONTROL, TRAINED]


def test_two_names_of_one_meaning_share_its_colour_and_differ_in_dash():
    measures = {"y": {"trained, in one row": [1, 2], "trained, in one column": [2, 3]}}
    row, column = plotting.show_curves([1, 2], measures, "x", "").axes[0].lines
    assert row.get_color() == column.get_color() == TRAINED
    assert row.get_linestyle() != column.get_linestyle()


def test_more_lines_than_colours_are_all_drawn():
    many = {str(n): [0.1 * n, 0.5] for n in range(len(SERIES) + 3)}
    assert set(lines(plotting.show_curves([0, 1], {"y": many}, "x", "").axes[0])) == set(many)


def test_a_level_and_a_stretch_are_marked_with_their_texts():
    options = {"level": (0.125, "a guess"), "mark": (2, 3, "warm-up")}
    (axes,) = plotting.show_curves([1, 4], {"accuracy": {"one": [0.5, 0.9]}}, "x", "title", **options).axes
    assert axes.lines[-1].get_ydata()[0] == 0.125
    assert {"a guess", " warm-up"} == {text.get_text() for text in axes.texts}
    assert (axes.patches[0].get_x(), axes.patches[0].get_width()) == (2, 1)
    assert axes.get_ylim()[0] == 0


def test_labels_on_a_logarithmic_axis_do_not_run_into_each_other():
    axes = plotting.show_curves([8, 14, 16, 32], {"y": {"one": [1, 2, 3, 4]}}, "P", "", log="x").axes[0]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["8", "", "16", "32"]


def test_entropy_says_how_many_tokens_it_is():
    unscaled, scaled = torch.tensor([[3.0, 1.0], [1.0, 0.0]]), torch.tensor([[3.0, 3.0], [1.0, 2.0]])
    figure = plotting.show_entropy([1, 4], unscaled, scaled, limit=4.0)
    assert list(lines(figure.axes[0]).values()) == [[2.0, 2.5], [2.0, 0.5]]
    assert figure.get_suptitle() == "d = 4: a query looks at 1.4 tokens without the scale, 6 with it"
    (right,) = figure.axes[0].child_axes
    assert [label.get_text() for label in right.get_yticklabels()] == ["1", "2", "4", "8", "16"]


def test_cost_draws_milliseconds_and_megabytes_and_compares_the_last():
    figure = plotting.show_attention_cost(
        [10, 20], {"a": [0.1, 0.6], "b": [0.1, 0.2]}, {"a": [1.0, 8.0], "b": [2.0, 4.0]}
    )
    time, memory = map(lines, figure.axes)
    np.testing.assert_allclose([time["a"], time["b"]], [[100, 600], [100, 200]], rtol=1e-6)
    assert memory == {"a": [1, 8], "b": [2, 4]}
    assert figure.get_suptitle() == "a at 20 tokens: 3.0× the time, 2.0× the memory"
