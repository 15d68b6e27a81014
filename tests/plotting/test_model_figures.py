"""The figures of notebook 05: each draws what it is given, and refuses what it cannot draw."""

import pytest
import torch

from vit_tutorial import plotting


def words(axes):
    return " ".join(text.get_text() for text in axes.texts)


@pytest.fixture
def photo():
    return torch.rand(3, 8, 8, generator=torch.Generator().manual_seed(0))


def test_the_trace_draws_every_number_at_one_scale(photo):
    figure = plotting.show_trace(photo, [("patches", (4, 48)), ("tokens", (5, 48)), ("y", (48,))], 4, "All of it")
    (axes,) = figure.axes
    assert axes.get_title(loc="left") == "All of it"
    image = sum((extent[1] - extent[0]) * (extent[3] - extent[2]) for extent in (i.get_extent() for i in axes.images))
    areas = [rectangle.get_width() * rectangle.get_height() for rectangle in axes.patches]
    assert [image, *areas] == [3 * 8 * 8, 4 * 48, 5 * 48, 48]
    assert len(axes.lines) == 2, "the tokens and y have a class token, the patches have none"
    for label in ("3×8×8", "patches\n4×48", "tokens\n5×48", "y\n48"):
        assert label in words(axes)


def test_a_stage_that_is_no_sequence_cannot_be_drawn(photo):
    with pytest.raises(ValueError, match="neither a sequence"):
        plotting.show_trace(photo, [("image", (3, 8, 8))], 4, "")


def test_the_shares_of_a_row_fill_it():
    figure = plotting.show_shares(
        ["a", "b"], {"body": [3, 1], "nothing": [0, 0], "head": [1, 1]}, ["4", "2"], "Shares", "%"
    )
    (axes,) = figure.axes
    assert [round(bar.get_width()) for bar in axes.patches] == [75, 50, 25, 50]
    assert [round(bar.get_x()) for bar in axes.patches] == [0, 0, 75, 50]
    assert words(axes) == "75 50 25 50 4 2"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["body", "head"]


def test_the_legend_says_what_is_too_thin_to_see():
    figure = plotting.show_shares(
        ["a", "b"], {"body": [998, 996], "norms": [2, 1], "head": [0, 3]}, ["", ""], "Shares", "%"
    )
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["body", "norms (below 0.3 %)", "head"]


def test_a_token_without_a_gradient_is_crossed_out():
    gradient = torch.tensor([[2.0, 1.0, 4.0], [5.0, 0.0, 0.0]])
    figure = plotting.show_token_gradients({"cls": gradient, "mean": gradient.flip(1)}, "Who is read")
    left, right, _ = figure.axes
    torch.testing.assert_close(torch.tensor(left.images[0].get_array().data[0]), torch.tensor([0.5, 0.25, 1.0]))
    assert left.lines[0].get_xydata().tolist() == [[1, 1], [2, 1]]
    assert right.lines[0].get_xydata().tolist() == [[0, 1], [1, 1]]
    assert figure.get_suptitle() == "Who is read"


def test_the_cuts_hold_the_photo_and_its_patches(photo):
    whole, four, _ = plotting.show_cuts(photo, [4, 2], ["four", "sixteen"]).axes
    torch.testing.assert_close(torch.tensor(whole.images[0].get_array()), photo.permute(1, 2, 0))
    drawn = torch.tensor(four.images[0].get_array()).float()
    gap = len(drawn) - 8 * 8
    assert (drawn[32 : 32 + gap] == 1).all()
    second = drawn[4:32:8, 32 + gap + 4 :: 8]  # the centre of each pixel, which is 8 wide
    torch.testing.assert_close(second, photo[:, :4, 4:].permute(1, 2, 0), atol=0.5 / 51 + 1e-6, rtol=0)
    with pytest.raises(ValueError, match=r"8 = 2·3 \+ 2"):
        plotting.show_cuts(photo, [3], ["three"])
