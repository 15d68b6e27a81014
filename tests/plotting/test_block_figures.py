"""The figures of the encoder block draw what they are given, and say so when it does not fit."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from vit_tutorial import plotting


def words(axes):
    return " ".join(text.get_text() for text in axes.texts)


def test_a_pre_norm_block_has_one_norm_in_each_branch_and_a_post_norm_block_has_them_on_the_stream():
    pre, post = plotting.show_block("pre", "post").axes
    for axes, on_the_stream in ((pre, False), (post, True)):
        norms = [text for text in axes.texts if text.get_text() == "LayerNorm"]
        branch = max(text.get_position()[1] for text in axes.texts if text.get_text().startswith("MLP"))
        assert [text.get_position()[1] < branch for text in norms] == [on_the_stream] * 2
    assert "Eq. 2" in words(pre)
    assert "Eq. 2" not in words(post)


@pytest.mark.parametrize("norms", [(), ("middle",), ("pre", "Post")])
def test_a_block_with_another_norm_is_refused(norms):
    with pytest.raises(ValueError, match='"pre" or "post"'):
        plotting.show_block(*norms)


def test_layer_norm_figure_shows_every_number_and_the_biased_spread():
    before = torch.tensor([[1.0, 7.0, 9.0, 15.0], [0.0, 0.0, 2.0, 2.0]])
    left, _right = plotting.show_layer_norm(before, before / 2, [0, 50]).axes
    dots = [line.get_ydata() for line in left.lines if line.get_marker() == "."]
    np.testing.assert_array_equal(dots[:2], before)
    mean, _caps, (bars,) = left.containers[0]
    np.testing.assert_allclose(mean.get_ydata(), [8, 1])
    np.testing.assert_allclose([segment[:, 1] for segment in bars.get_segments()], [[3, 13], [0, 2]])
    assert [label.get_text() for label in left.get_xticklabels()] == ["0", "50"]


def test_skips_are_crosses_and_the_rest_is_filled():
    kept = torch.tensor([[True, False], [True, True], [False, True]])
    top, axes = plotting.show_skips(kept, [0.1, 0.5]).axes
    filled, crosses = (torch.tensor(np.stack(line.get_data(), axis=1)) for line in axes.lines)
    assert_close(filled, torch.tensor([[1, 1], [1, 2], [2, 2], [2, 3]]))
    assert_close(crosses, torch.tensor([[2, 1], [1, 3]]))
    assert [bar.get_height() for bar in top.patches] == [0.1, 0.5]
