"""The figures of notebook 03 draw what they are given."""

import pytest
import torch
from jaxtyping import TypeCheckError
from reading import drawn, words

from vit_tutorial import plotting
from vit_tutorial.plotting.style import TINTS

NAMES = ["a", "b", "c"]


@pytest.fixture
def photo():
    return torch.rand(3, 24, 16, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def weights():
    return torch.randn(3, 3, generator=torch.Generator().manual_seed(1)).softmax(-1)


def test_the_patch_is_the_one_asked_for(photo):
    figure = plotting.show_patch_alone(photo, patch_size=8, row=2, column=1)
    alone, whole = figure.axes
    torch.testing.assert_close(drawn(alone), photo[:, 16:24, 8:16].permute(1, 2, 0))
    assert {box.get_xy() for box in whole.patches} == {(8, 16)}


def test_a_patch_that_is_not_there(photo):
    with pytest.raises(ValueError, match="no patch in row 3, column 0: the photo has 3 rows and 2 columns"):
        plotting.show_patch_alone(photo, patch_size=8, row=3, column=0)


def test_one_query_shows_scores_weights_and_what_they_add():
    scores, weights = torch.tensor([2.0, 1.0, 0.0]), torch.tensor([0.5, 0.25, 0.25])
    first, second, third = plotting.show_one_query(NAMES, scores, weights, 4 * torch.eye(3)).axes
    assert [bar.get_width() for bar in first.patches] == scores.tolist()
    assert [bar.get_width() for bar in second.patches] == weights.tolist()
    torch.testing.assert_close(drawn(third), torch.diag(torch.tensor([2.0, 1.0, 1.0])))
    assert [label.get_text() for label in third.get_xticklabels()] == ["0\nΣ 2", "1\nΣ 1", "2\nΣ 1"]


def test_weights_are_written_into_their_places(weights):
    (axes,) = plotting.show_weights(weights, NAMES).axes
    torch.testing.assert_close(drawn(axes), weights)
    assert words(axes) == [f"{number:.3g}" for number in weights.flatten().tolist()]


def test_heads_that_do_not_hold_the_tokens():
    with pytest.raises(ValueError, match="each once"):
        plotting.show_heads(torch.arange(6).reshape(3, 2), torch.zeros(2, 3, 1))


def test_influence_marks_the_zeros_and_counts_who_sees_others(weights):
    figure = plotting.show_influence({"alone": torch.eye(3), "all": weights})
    alone, everyone = figure.axes[:2]
    assert words(alone) == ["0"] * 6
    assert words(everyone) == []
    assert alone.get_title(loc="left").endswith("0 of 3 tokens see others")
    torch.testing.assert_close(drawn(everyone), weights / weights.max())


def test_attention_maps_are_multiples_of_an_equal_share(photo):
    maps = torch.full((2, 3, 3, 2), 1 / 7)
    figure = plotting.show_attention_maps(photo, maps, ["x", "y"])
    whole, *panels, _bar = figure.axes
    assert len(panels) == 6
    torch.testing.assert_close(drawn(whole), photo.permute(1, 2, 0))
    torch.testing.assert_close(drawn(panels[-1]), torch.ones(3, 2))


def test_change_says_from_where_on_the_tokens_move():
    change = torch.tensor([[0.0, 0.0, 0.0], [1.0, 2.0, 0.0]])
    figure = plotting.show_change(change, layer=1)
    torch.testing.assert_close(drawn(figure.axes[0]), change)
    assert figure.axes[0].get_title(loc="left") == "Tokens that change: 0 of 3 before block 1, 2 of 3 from there on"


def test_a_tensor_of_the_wrong_shape_is_refused(weights):
    with pytest.raises(TypeCheckError):
        plotting.show_weights(weights[:2], NAMES)


def test_a_number_keeps_the_tint_of_its_head_wherever_it_lands():
    tokens = torch.arange(6).reshape(3, 2)
    figure = plotting.show_heads(tokens, tokens.view(2, 3, 1))  # wrong on purpose: no transpose
    first, second = map(tuple, TINTS[:2])
    tints = [[box.get_facecolor()[:3] for box in axes.patches] for axes in figure.axes]
    assert tints == [[first, second] * 3, [first, second, first], [second, first, second]]
    assert words(figure.axes[2]) == ["3", "4", "5"]
