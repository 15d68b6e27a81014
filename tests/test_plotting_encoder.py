"""The figures of the encoder block draw what they are given, and say so when it does not fit."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from vit_tutorial.plotting.block_figures import show_activations, show_block, show_layer_norm, show_skips, show_spread


def words(axes):
    return " ".join(text.get_text() for text in axes.texts)


def test_a_pre_norm_block_has_one_norm_in_each_branch_and_a_post_norm_block_has_them_on_the_stream():
    pre, post = show_block("pre", "post").axes
    for axes, on_the_stream in ((pre, False), (post, True)):
        norms = [text for text in axes.texts if text.get_text() == "LayerNorm"]
        branch = max(text.get_position()[1] for text in axes.texts if text.get_text().startswith("MLP"))
        assert [text.get_position()[1] < branch for text in norms] == [on_the_stream] * 2
    assert "Eq. 2" in words(pre)
    assert "Eq. 2" not in words(post)


@pytest.mark.parametrize("norms", [(), ("middle",), ("pre", "Post")])
def test_a_block_with_another_norm_is_refused(norms):
    with pytest.raises(ValueError, match='"pre" or "post"'):
        show_block(*norms)


def test_layer_norm_figure_shows_every_number_and_the_biased_spread():
    before = torch.tensor([[1.0, 7.0, 9.0, 15.0], [0.0, 0.0, 2.0, 2.0]])
    left, _right = show_layer_norm(before, before / 2, [0, 50]).axes
    dots = [line.get_ydata() for line in left.lines if line.get_marker() == "."]
    np.testing.assert_array_equal(dots[:2], before)
    mean, _caps, (bars,) = left.containers[0]
    np.testing.assert_allclose(mean.get_ydata(), [8, 1])
    np.testing.assert_allclose([segment[:, 1] for segment in bars.get_segments()], [[3, 13], [0, 2]])
    assert [label.get_text() for label in left.get_xticklabels()] == ["0", "50"]


def test_layer_norm_figure_needs_a_name_for_each_token():
    with pytest.raises(ValueError, match="3 names for 2 tokens"):
        show_layer_norm(torch.ones(2, 4), torch.ones(2, 4), [0, 1, 2])


def test_activations_stand_left_and_their_slopes_right():
    x = torch.linspace(-1, 1, 5)
    left, right = show_activations(x, {"ReLU": x.relu()}, {"ReLU": (x > 0).float()}).axes
    np.testing.assert_array_equal(left.lines[0].get_ydata(), [0, 0, 0, 0.5, 1])
    np.testing.assert_array_equal(right.lines[0].get_ydata(), [0, 0, 0, 1, 1])
    assert left.get_legend().get_texts()[0].get_text() == "ReLU"


@pytest.mark.parametrize("log", [False, True])
def test_the_line_is_the_mean_and_the_band_goes_from_the_lowest_to_the_highest(log):
    runs = torch.tensor([[1.0, 2.0, 4.0], [3.0, 6.0, 5.0]])
    figure = show_spread([1, 2, 3], {"size": {"mine": runs}, "other": {"mine": runs}}, "block", log=log)
    axes = figure.axes[0]
    assert len(figure.axes) == 2
    np.testing.assert_array_equal(axes.lines[0].get_ydata(), [2, 4, 4.5])
    corners = axes.collections[0].get_paths()[0].vertices
    assert {(1, 1), (1, 3), (2, 2), (2, 6), (3, 4), (3, 5)} <= {tuple(corner) for corner in corners}
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("block", "size")
    assert axes.get_xscale() == ("log" if log else "linear")


def test_a_name_looks_the_same_in_every_panel():
    runs = torch.ones(2, 3)
    left, right = show_spread([1, 2, 3], {"size": {"all": runs, "part": runs}, "share": {"part": runs}}, "block").axes
    whole, part = left.lines
    (again,) = right.lines
    looks = [(line.get_color(), line.get_linestyle(), line.get_marker()) for line in (whole, part, again)]
    assert looks[0] != looks[1] == looks[2]


def test_a_curve_of_another_length_is_refused():
    with pytest.raises(ValueError, match="'mine' has 3 values for 2 places"):
        show_spread([1, 2], {"size": {"mine": torch.ones(4, 3)}}, "block")


def test_skips_are_crosses_and_the_rest_is_filled():
    kept = torch.tensor([[True, False], [True, True], [False, True]])
    top, axes = show_skips(kept, [0.1, 0.5]).axes
    filled, crosses = (torch.tensor(np.stack(line.get_data(), axis=1)) for line in axes.lines)
    assert_close(filled, torch.tensor([[1, 1], [1, 2], [2, 2], [2, 3]]))
    assert_close(crosses, torch.tensor([[2, 1], [1, 3]]))
    assert [bar.get_height() for bar in top.patches] == [0.1, 0.5]


def test_skips_need_a_rate_for_each_branch():
    with pytest.raises(ValueError, match="3 rates for 2 branches"):
        show_skips(torch.ones(4, 2, dtype=torch.bool), [0.0, 0.1, 0.2])
