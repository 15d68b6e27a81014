"""The figures of lessons 01 to 05 draw what they are given, and all figures refuse what they cannot draw."""

import numpy as np
import pytest
import torch
from reading import drawn, words
from torch.testing import assert_close

from vit_tutorial import patchify, plotting
from vit_tutorial.plotting.style import TINTS

PHOTO = torch.rand(3, 24, 16, generator=torch.Generator().manual_seed(0))
IMAGE = torch.rand(3, 8, 12, generator=torch.Generator().manual_seed(0))  # a grid of 2×3 patches of 4×4
IDS = torch.arange(96).reshape(8, 12)


def test_what_cannot_be_drawn_is_refused_with_the_facts():
    with pytest.raises(ValueError, match="8×12 is not a whole number of 5×5 patches"):
        plotting.show_grid(IMAGE, 5, "")


# ---- lesson 01


def test_cut_draws_every_number_in_the_tint_of_the_patch_it_comes_from():
    sequence = patchify(IDS[None, None], (4, 6))[0]
    left, right = plotting.show_cut(IDS, sequence, (4, 6)).axes
    assert words(left) == [str(number) for number in IDS.flatten().tolist()]
    assert words(right) == [str(number) for number in sequence.flatten().tolist()]
    assert (drawn(right) == drawn(right)[:, :1]).all()  # each row one tint
    assert len(np.unique(drawn(right)[:, 0], axis=0)) == 4
    _, wrong = plotting.show_cut(IDS, IDS.reshape(6, 16), 4).axes  # a bare reshape
    assert not (drawn(wrong) == drawn(wrong)[:, :1]).all()


# ---- lesson 02


def test_the_maps_of_a_column_share_a_scale_and_all_share_the_place_of_a_patch():
    maps = {"trained": torch.randn(2, 2, 3), "untrained": torch.randn(2, 2, 3)}
    picture, *panels = plotting.show_maps(PHOTO, maps, ["one", "two"], "title", frames=[(1, 2), (0, 1)]).axes
    assert torch.equal(drawn(picture), PHOTO.permute(1, 2, 0))
    corners = [(2, 1), (1, 0)]  # row 1, column 2, and row 0, column 1
    assert {box.get_xy() for box in picture.patches} == set(corners)
    largest = torch.stack(list(maps.values())).abs().amax(dim=(0, 2, 3)).tolist() * 2
    for panel, values, limit, corner in zip(panels, torch.cat(list(maps.values())), largest, corners * 2, strict=True):
        assert torch.equal(drawn(panel), values)
        low, high = panel.images[0].get_clim()
        assert high == -low == limit, "zero has the middle colour"
        assert [box.get_xy() for box in panel.patches] == [corner]
        assert picture.images[0].get_extent() == panel.images[0].get_extent()


def test_a_single_map_has_the_numbers_of_rows_and_columns_and_its_largest_values():
    values = torch.tensor([[0.0, -10.0, 0.4], [1.5, 0.0, 0.0]])
    panel = plotting.show_maps(PHOTO, {"": values[None]}, ["one"], "title").axes[1]
    written = {text.get_position(): text.get_text() for text in panel.texts}
    assert written == {(1.5, 0.5): "-10.0", (0.5, 1.5): "+1.5"}, "column 1 of row 0, and column 0 of row 1"
    assert [label.get_text() for label in panel.get_xticklabels()] == ["0", "1", "2"]


def test_equation_one_shows_tokens_positions_and_their_sum():
    patches, tokens, positions = torch.rand(6, 3, 4, 4), torch.randn(7, 5), torch.randn(7, 5)
    thumbnails, *tables = plotting.show_equation_one(patches, tokens, positions, "abcdefg", "title").axes
    assert len(thumbnails.images) == 6
    for panel, table in zip(tables, (tokens, positions, tokens + positions), strict=True):
        assert torch.equal(drawn(panel).T, table)
        assert panel.texts[7].get_text() == f"{table[0, 1]:.2f}".replace("-", "−"), "and every number in its cell"
    assert len({panel.images[0].get_clim() for panel in tables}) == 1, "one scale for all three tables"


def test_position_similarity_puts_each_map_at_its_patch_on_one_scale():
    maps = {"one": torch.arange(36.0).reshape(2, 3, 2, 3) / 36, "two": torch.rand(2, 3, 2, 3)}
    *panels, _ = plotting.show_position_similarity(maps, "title").axes
    assert [panel.get_title(loc="left") for panel in panels] == list(maps)
    for panel, similarity in zip(panels, maps.values(), strict=True):
        canvas = drawn(panel).float()
        assert canvas.shape == (2 * 3 + 1, 3 * 4 + 1)
        assert torch.equal(canvas[4:6, 9:12], similarity[1, 2])
        assert panel.images[0].get_array().mask.sum() == 7 * 13 - 36, "the rest is the lines between"
        assert panel.images[0].get_clim() == (-1, 1), "below zero shows, and zero has the middle colour"


# ---- lesson 03


def test_attention_maps_are_multiples_of_an_equal_share_and_one_head_is_large_beside_the_photo():
    maps = torch.rand(2, 3, 3, 2) / 7
    photo, large, *small, _bar = plotting.show_attention_maps(PHOTO, maps, ["x", "y"], "", (2, 1), 8, 2).axes
    assert_close(drawn(large), 7 * maps[0, 2])
    assert_close(torch.stack([drawn(axes) for axes in small]), 7 * maps.flatten(0, 1))
    assert all(axes.patches[-1].get_xy() == (1, 2) for axes in (photo, large, *small)), "the patch that asks"
    favourites = [divmod(place.item(), maps.shape[3]) for place in maps[0, 2].flatten().topk(2).indices]
    assert [box.get_xy() for box in photo.patches[:-1]] == [(column, row) for row, column in favourites]
    assert [text.get_position() for text in large.texts] == [(column + 0.5, row + 0.5) for row, column in favourites]
    assert [text.get_text() for text in large.texts] == [f"{maps[0, 2][place]:.0%}" for place in favourites]


def test_a_number_keeps_the_tint_of_its_head_wherever_it_lands():
    tokens = torch.arange(6).reshape(3, 2)
    figure = plotting.show_heads(tokens, tokens.view(2, 3, 1), "")  # wrong on purpose: no transpose
    first, second = map(tuple, TINTS[:2])
    tints = [[box.get_facecolor()[:3] for box in axes.patches] for axes in figure.axes]
    assert tints == [[first, second] * 3, [first, second, first], [second, first, second]]
    assert words(figure.axes[2]) == ["3", "4", "5"]


def test_a_stop_is_the_map_of_its_query_on_one_scale():
    pictures, maps = torch.rand(2, 3, 8, 12), torch.rand(2, 2, 3)
    figure = plotting.show_attention_stops(pictures, maps, {"this": 1, "that": 5}, "Stops")
    for above, axes, picture, query_map in zip(figure.axes[:2], figure.axes[2:4], pictures, maps, strict=True):
        np.testing.assert_array_equal(drawn(axes), query_map)
        np.testing.assert_allclose(drawn(above), picture.movedim(0, -1), atol=1e-6)
        assert axes.images[0].norm.vmax == pytest.approx(maps.max().item())
    assert [axes.get_title(loc="left") for axes in figure.axes[:2]] == ["this", "that"]


# ---- lesson 05


def test_a_bug_table_has_a_filled_mark_where_a_test_notices_and_says_what_each_measured():
    noticed = torch.tensor([[False, False], [False, True]])
    axes = plotting.show_bug_table(["none", "b"], ["x", "y"], [["1", "2"], ["3", "4"]], noticed, "Bugs").axes[0]
    assert [line.get_markerfacecolor() != "none" for line in axes.lines] == noticed.flatten().tolist()
    assert words(axes) == ["1", "2", "3", "4"]
