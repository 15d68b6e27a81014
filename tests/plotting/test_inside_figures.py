"""The figures of notebook 07 draw what they are given."""

import pytest
import torch
from reading import drawn, lines, words

from vit_tutorial import plotting


def test_structure_has_a_marker_for_each_and_a_bar_where_chance_is_known():
    chance = {"one": torch.tensor([[-0.1, 0.0], [0.2, 0.1], [0.0, -0.3]])}
    (axes,) = plotting.show_structure(["near", "rows"], {"one": [0.5, 0.1], "two": [0.0, 0.2]}, chance, "title").axes
    marks = {line.get_label(): list(line.get_xdata()) for line in axes.lines}
    assert marks["one"] == [0.5, 0.1]
    assert marks["two"] == [0.0, 0.2]
    (bars,) = axes.collections
    ends = [[point[0] for point in segment] for segment in bars.get_segments()]
    torch.testing.assert_close(torch.tensor(ends).float(), torch.tensor([[-0.1, 0.2], [-0.3, 0.1]]))


def test_distances_have_a_dot_for_each_head_over_the_band():
    far = torch.tensor([[3.0, 9.0], [8.0, 7.0], [1.0, 2.0]])
    (axes,) = plotting.show_distances({"model": far}, {"model": (6.0, 8.5)}, {"model": 7.5}, "title").axes
    dots = next(line for line in axes.lines if line.get_label() == "trained heads")
    assert list(zip(*dots.get_data(), strict=True)) == [(0, 3), (0, 9), (1, 8), (1, 7), (2, 1), (2, 2)]
    (band,) = axes.patches
    assert (band.get_y(), band.get_y() + band.get_height()) == (6.0, 8.5)
    assert axes.get_ylim()[0] == 0


@pytest.mark.parametrize("with_masks", [True, False])
def test_found_draws_multiples_of_each_maps_mean(with_masks):
    pictures = torch.rand(2, 3, 6, 6)
    masks = torch.zeros(2, 6, 6, dtype=torch.bool)
    masks[:, 1:4, 2:5] = True
    maps = {"one": torch.rand(2, 3, 3) + 0.1, "two": torch.ones(2, 3, 3)}
    figure = plotting.show_found(pictures, masks if with_masks else None, maps, "title")
    torch.testing.assert_close(drawn(figure.axes[3]), pictures[1].permute(1, 2, 0))
    torch.testing.assert_close(drawn(figure.axes[4]), maps["one"][1] / maps["one"][1].mean())
    torch.testing.assert_close(drawn(figure.axes[5]), torch.ones(3, 3))
    assert bool(figure.axes[4].collections) == with_masks


def test_the_outline_lies_where_the_object_is():
    """An object at the top left must not be drawn at the bottom."""
    masks = torch.zeros(1, 8, 8, dtype=torch.bool)
    masks[0, 1:3, 4:7] = True
    figure = plotting.show_found(torch.rand(1, 3, 8, 8), masks, {"one": torch.ones(1, 2, 2)}, "title")
    points = torch.cat([torch.as_tensor(path.vertices) for path in figure.axes[1].collections[-1].get_paths()])
    assert points[:, 0].min() > 3
    assert points[:, 0].max() < 8
    assert points[:, 1].max() < 4


def test_scores_show_medians_and_quartiles():
    values = torch.tensor([0.0, 1.0, 2.0, 3.0, 4.0])
    figure = plotting.show_scores(
        {"share": {"a": values, "b": 2 * values}, "AUC": {"a": values, "b": values}}, [1.0, 0.5], ""
    )
    share = figure.axes[0]
    bars, dots = share.lines[0:4:2], share.lines[1:4:2]
    assert [list(bar.get_xdata()) for bar in bars] == [[1, 3], [2, 6]]
    assert [dot.get_xdata()[0] for dot in dots] == [2, 4]
    assert [axes.lines[-1].get_xdata()[0] for axes in figure.axes] == [1, 0.5]


def test_costs_within_their_spread_are_in_brackets():
    cost, spread = torch.tensor([[0.10, -0.01], [0.0, 0.02]]), torch.full((2, 2), 0.015)
    figure = plotting.show_head_costs({"model": cost}, {"model": spread}, "title")
    torch.testing.assert_close(drawn(figure.axes[0]), 100 * cost)
    assert words(figure.axes[0]) == ["10.0±1.5", "(−1.0±1.5)", "(0.0±1.5)", "2.0±1.5"]
    low, high = figure.axes[0].images[0].get_clim()
    assert low == -high


def test_forming_shows_maps_above_and_measures_below():
    maps = {0: torch.rand(2, 3, 2, 3), 5: torch.rand(2, 3, 2, 3)}
    first, second, _, below = plotting.show_forming(maps, [0, 1, 5], {"near": [0.0, 0.4, 0.6]}, "title").axes
    torch.testing.assert_close(drawn(second)[1:3, 1:4].float(), maps[5][0, 0])
    assert [axes.get_title(loc="left") for axes in (first, second)] == ["untrained", "epoch 5"]
    assert lines(below)["near"] == [0, 0.4, 0.6]
    assert [label.get_text() for label in below.get_xticklabels()] == ["0", "1", "5"]


def test_filters_stand_in_rows_and_zero_is_grey():
    weights = torch.randn(5, 3, 2, 2)
    weights[4] = 0
    weights[4, 0, 0, 0] = -3
    picture = drawn(plotting.show_patch_filters({"one": weights, "two": weights}, 3, "title").axes[1]).float()
    assert picture.shape == (5, 8, 3)
    torch.testing.assert_close(picture[:2, 3:5].permute(2, 0, 1), 0.5 + weights[1] / weights[1].abs().max() / 2)
    assert picture[3, 3].tolist() == [0, 0.5, 0.5]
    assert (picture[2] == 1).all()
