"""The figures of notebook 05: each draws what it is given, and refuses what it cannot draw."""

import math

import pytest
import torch
from matplotlib.figure import Figure

from vit_tutorial.plotting.model_figures import (
    show_cuts,
    show_overfit,
    show_shares,
    show_softmax_twice,
    show_token_gradients,
    show_trace,
)


def words(axes):
    return " ".join(text.get_text() for text in axes.texts)


@pytest.fixture
def photo():
    return torch.rand(3, 8, 8, generator=torch.Generator().manual_seed(0))


def test_the_trace_draws_every_number_at_one_scale(photo):
    figure = show_trace(photo, [("patches", (4, 48)), ("tokens", (5, 48)), ("y", (48,))], 4, "All of it")
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
        show_trace(photo, [("image", (3, 8, 8))], 4, "")


def test_the_cuts_hold_the_photo_and_its_patches(photo):
    figure = show_cuts(photo, [4, 2], ["four", "sixteen"])
    whole, four, sixteen = figure.axes
    assert [len(axes.images) for axes in (whole, four, sixteen)] == [1, 4, 16]
    second = torch.tensor(four.images[1].get_array())
    torch.testing.assert_close(second, photo[:, :4, 4:].permute(1, 2, 0))
    assert sixteen.get_title(loc="left") == "sixteen"


def test_a_cut_must_fit_and_have_its_title(photo):
    with pytest.raises(ValueError, match=r"8 = 2·3 \+ 2"):
        show_cuts(photo, [3], ["three"])
    with pytest.raises(ValueError, match="1 sizes, 2 titles"):
        show_cuts(photo, [4], ["one", "two"])


def test_the_shares_of_a_row_fill_it():
    figure = show_shares(["a", "b"], {"body": [3, 1], "nothing": [0, 0], "head": [1, 1]}, ["4", "2"], "Shares", "%")
    (axes,) = figure.axes
    assert [round(bar.get_width()) for bar in axes.patches] == [75, 50, 25, 50]
    assert [round(bar.get_x()) for bar in axes.patches] == [0, 0, 75, 50]
    assert words(axes) == "75 50 25 50 4 2"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["body", "head"]


def test_the_legend_says_what_is_too_thin_to_see():
    figure = show_shares(["a", "b"], {"body": [998, 996], "norms": [2, 1], "head": [0, 3]}, ["", ""], "Shares", "%")
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["body", "norms (below 0.3 %)", "head"]


def test_a_share_for_every_row():
    with pytest.raises(ValueError, match="'body' has 1 entries for 2 rows"):
        show_shares(["a", "b"], {"body": [3]}, ["4", "2"], "", "")


def test_a_token_without_a_gradient_is_crossed_out():
    gradient = torch.tensor([[2.0, 1.0, 4.0], [5.0, 0.0, 0.0]])
    figure = show_token_gradients({"cls": gradient, "mean": gradient.flip(1)}, "Who is read")
    left, right, _ = figure.axes
    torch.testing.assert_close(torch.tensor(left.images[0].get_array().data[0]), torch.tensor([0.5, 0.25, 1.0]))
    assert left.lines[0].get_xydata().tolist() == [[1, 1], [2, 1]]
    assert right.lines[0].get_xydata().tolist() == [[0, 1], [1, 1]]
    assert figure.get_suptitle() == "Who is read"


def test_softmax_twice_names_its_floor():
    lead = torch.tensor([-1.0, 0.0, 1.0])
    losses = {"once": torch.tensor([2.0, 1.0, 0.0]), "twice": torch.tensor([2.0, 1.8, 1.5])}
    figure = show_softmax_twice(lead, losses, losses)
    left, right = figure.axes
    assert left.get_title(loc="left").endswith("1.50")
    assert left.lines[1].get_ydata().tolist() == losses["twice"].tolist()
    assert right.get_xlabel() == "lead of the right logit"


def test_the_overfitting_curve_counts_its_steps_until_it_has_a_title():
    running, done = show_overfit([2.0, 1.0], 4, math.log(4)), show_overfit([2.0], 4, 1.0, title="done")
    assert isinstance(running, Figure)
    assert [figure.axes[0].get_title(loc="left") for figure in (running, done)] == ["step 2 of 4", "done"]
    assert running.axes[0].lines[0].get_ydata().tolist() == [2.0, 1.0]
    assert running.axes[0].get_xlim() == (0, 4)
    assert show_overfit([], 4, 1.0).axes[0].get_title(loc="left") == "step 0 of 4"
