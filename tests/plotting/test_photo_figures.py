"""Figures over a photo draw what they are given."""

import torch
from reading import drawn
from torch.testing import assert_close

from vit_tutorial import plotting
from vit_tutorial.plotting.style import HIGHLIGHT

PHOTO = torch.rand(3, 8, 12)


def test_components_are_drawn_as_colours_and_one_by_one():
    colours = [torch.rand(2, 3, 3), torch.rand(4, 4, 3)]
    figure = plotting.show_components({"one": PHOTO, "two": torch.rand(3, 8, 8)}, colours, "title")
    photo, mixed, red, green, blue, *_ = figure.axes
    assert_close(drawn(photo), PHOTO.permute(1, 2, 0))
    assert_close(drawn(mixed), colours[0])
    for n, axes in enumerate((red, green, blue)):
        assert_close(drawn(axes)[..., n], colours[0][..., n])
        assert (drawn(axes).argmax(dim=2) == n).all(), "each is drawn in its own colour"
    assert [axes.get_title("left") for axes in (photo, red, green, blue)] == ["one", "1: red", "2: green", "3: blue"]
    assert len(figure.axes) == 10


def test_what_a_head_does_not_look_at_is_in_fog():
    """The left half of the photo has all the weight of the first head, and the right half that of the second."""
    maps = torch.zeros(2, 2, 4)
    maps[0, :, :2] = maps[1, :, 2:] = 0.25
    photo, left, right, _ = plotting.show_seen(PHOTO, maps, ["left", "right"], "title", frame=(1, 3)).axes
    assert_close(drawn(photo), PHOTO.permute(1, 2, 0))
    assert_close(drawn(left)[:, :4], drawn(photo)[:, :4])
    assert_close(drawn(right)[:, 8:], drawn(photo)[:, 8:])
    fog = drawn(left)[:, 8:]
    assert fog.std(dim=2).max() < 1e-6, "fog has no colours"
    assert fog.std() < 0.2 * drawn(photo)[:, 8:].std()
    for axes in (photo, left, right):
        (frame,) = [patch for patch in axes.patches if patch.get_edgecolor()[:2] == (240 / 255, 228 / 255)]
        assert (frame.get_xy(), frame.get_width(), frame.get_height()) == ((3, 1), 1, 1)
    assert HIGHLIGHT == "#F0E442"


def test_similar_patches_stand_under_their_photo_on_one_scale():
    maps = [torch.rand(2, 3), torch.rand(4, 4)]
    figure = plotting.show_similar({"one": PHOTO, "two": torch.rand(3, 8, 8)}, maps, (1, 2), "title")
    for axes, similarity in zip(figure.axes[2:4], maps, strict=True):
        assert_close(drawn(axes), similarity)
        assert axes.images[0].get_clim() == (0, 1)
    assert [len(axes.patches) for axes in figure.axes[:4]] == [1, 0, 1, 0], "only the first photo has the patch"


def test_chosen_positions_are_drawn_row_by_row():
    similarity = torch.rand(3, 4, 3, 4)
    large, small, _ = plotting.show_chosen_positions(similarity, -similarity, [0, 2], [1, 3], "title").axes
    for axes, sign in ((large, 1), (small, -1)):
        tiles = drawn(axes).float()
        assert_close(tiles[1:4, 6:10], sign * similarity[0, 3])
        assert_close(tiles[5:8, 1:5], sign * similarity[2, 1])
        assert axes.images[0].get_clim() == (-1, 1)
    assert [label.get_text() for label in large.get_xticklabels()] == ["column 1", "column 3"]
    assert [label.get_text() for label in large.get_yticklabels()] == ["row 0", "row 2"]
    marks = [tuple(line.get_xydata()[0]) for line in large.lines]
    assert marks == [(2, 1), (9, 1), (2, 7), (9, 7)], "in tiles of 3×4 with a line around each"
    assert not small.lines, "each large map is marked at its own patch"
