"""The figures of moved models show the numbers they are given, where they belong."""

import torch

from vit_tutorial import plotting


def test_every_picture_stands_under_its_name_with_a_line_around_every_patch():
    sizes = {"square": (8, 8), "wide": (8, 12)}
    figure = plotting.show_sizes(
        {name: torch.zeros(3, *size, dtype=torch.uint8) for name, size in sizes.items()}, 4, "grids"
    )
    for axes, (name, (H, W)) in zip(figure.axes, sizes.items(), strict=True):
        rows, columns = axes.collections
        assert len(rows.get_segments()) == H // 4 + 1
        assert len(columns.get_segments()) == W // 4 + 1
        assert axes.get_title("left") == name
        assert axes.images[0].get_extent() == [0, W, H, 0]
    assert figure.get_suptitle() == "grids"


def test_a_number_stands_at_the_middle_of_its_cell():
    axes = plotting.show_row([1.0, 3.0], {"four": [1.0, 1.5, 2.5, 3.0]}, "between").axes[0]
    between, old, new = axes.lines
    assert old.get_xydata().tolist() == [[0.25, 1], [0.75, 3]]
    assert new.get_xydata().tolist() == [[0.125, 1], [0.375, 1.5], [0.625, 2.5], [0.875, 3]]
    assert between.get_xydata()[[0, -1]].tolist() == [[0, 1], [1, 3]]
    assert [text.get_text() for text in axes.texts] == ["1", "1.5", "2.5", "3"]


def test_channels_share_one_scale_around_zero():
    figure = plotting.show_channels({"a": torch.tensor([[1.0, -2.0]]), "b": torch.tensor([[0.5]])}, "one number")
    panels = [axes for axes in figure.axes if axes.images]
    assert [axes.images[0].get_clim() for axes in panels] == [(-2, 2)] * 2
    assert panels[0].images[0].get_array().tolist() == [[1, -2]]


def test_before_is_hollow_and_after_is_filled():
    results = {
        "44×44": {"interpolated": ([0.5], [0.9, 1.0]), "from scratch": ([], [0.2])},
        "28×44": {"cut": ([0.1], [0.3])},
    }
    figure = plotting.show_before_after(results, 4, "moved")
    first, second = figure.axes
    dots = [line for line in first.lines if line.get_marker() == "o"]
    assert [line.get_xdata().tolist() for line in dots] == [[50], [90, 100], [], [20]]
    assert [line.get_markerfacecolor() == "none" for line in dots] == [True, False, True, False]
    assert [label.get_text() for label in first.get_yticklabels()] == ["interpolated", "from scratch"]
    assert (first.get_title("left"), second.get_title("left")) == ("44×44", "28×44")
