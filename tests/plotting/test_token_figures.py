"""The figures of notebook 02: each draws the numbers it is given, and says what does not fit."""

import pytest
import torch

from vit_tutorial import plotting, sincos_position_embedding

PHOTO = torch.rand(3, 8, 12, generator=torch.Generator().manual_seed(0))


def pixels(image):
    return torch.as_tensor(image.get_array().data)


def test_filters_stand_above_their_answers():
    filters, responses = torch.randn(2, 3, 4, 4), torch.randn(2, 2, 3)
    axes = plotting.show_filters(PHOTO, filters, responses, ["one", "two"], "title").axes
    assert [panel.get_title() for panel in axes[1:3]] == ["one", "two"]
    assert torch.equal(pixels(axes[3].images[0]), PHOTO.permute(1, 2, 0))
    for drawn, answer in zip(axes[4:], responses, strict=True):
        assert torch.equal(pixels(drawn.images[0]), answer)
        low, high = drawn.images[0].get_clim()
        assert low == -high, "zero has the middle colour"


def test_equation_one_shows_tokens_positions_and_their_sum():
    patches, tokens, positions = torch.rand(6, 3, 4, 4), torch.randn(7, 5), torch.randn(7, 5)
    thumbnails, *tables, _ = plotting.show_equation_one(patches, tokens, positions).axes
    assert [len(panel.images) for panel in (thumbnails, *tables)] == [6, 7, 7, 7]
    for panel, table in zip(tables, (tokens, positions, tokens + positions), strict=True):
        assert torch.equal(torch.cat([pixels(image) for image in panel.images], dim=1).T, table)
    assert len({image.get_clim() for panel in tables for image in panel.images}) == 1, "one scale for all"


def test_equation_one_needs_a_class_token():
    with pytest.raises(ValueError, match="6 patches and a class token need 7 tokens and positions, got 6 and 6"):
        plotting.show_equation_one(torch.rand(6, 3, 4, 4), torch.randn(6, 5), torch.randn(6, 5))


def test_shuffled_draws_how_far_the_class_tokens_are_apart():
    equal, apart = torch.ones(2, 4), torch.tensor([[0.0, 0, 0, 0], [1, -2, 3, 0]])
    photo, shuffled, above, below = plotting.show_shuffled(PHOTO, PHOTO.flip(2), {"a": equal, "b": apart}, "title").axes
    assert torch.equal(pixels(photo.images[0]), PHOTO.permute(1, 2, 0))
    assert torch.equal(pixels(shuffled.images[0]), PHOTO.flip(2).permute(1, 2, 0))
    assert [bar.get_height() for bar in above.patches] == [0, 0, 0, 0]
    assert [bar.get_height() for bar in below.patches] == [1, -2, 3, 0]
    assert above.get_ylim() == below.get_ylim(), "one scale for both"


def test_sincos_table_names_the_rows_of_the_grid():
    table = sincos_position_embedding((2, 3), 8)
    panel = plotting.show_sincos_table(table, (2, 3), "title").axes[0]
    assert torch.equal(pixels(panel.images[0]), table)
    assert list(panel.get_yticks()) == [1, 4], "the middle of each row's three patches"


def test_sincos_table_must_fill_the_grid():
    with pytest.raises(ValueError, match="2×4 grid has 8 places, the table has 6 rows"):
        plotting.show_sincos_table(sincos_position_embedding((2, 3), 8), (2, 4), "title")


def test_position_similarity_puts_each_map_at_its_patch_on_one_scale():
    maps = {"one": torch.arange(36.0).reshape(2, 3, 2, 3) / 36, "two": torch.rand(2, 3, 2, 3)}
    *panels, _ = plotting.show_position_similarity(maps, "title").axes
    assert [panel.get_title(loc="left") for panel in panels] == list(maps)
    for panel, similarity in zip(panels, maps.values(), strict=True):
        drawn = pixels(panel.images[0]).float()
        assert drawn.shape == (2 * 3 + 1, 3 * 4 + 1)
        assert torch.equal(drawn[4:6, 9:12], similarity[1, 2])
        assert panel.images[0].get_array().mask.sum() == 7 * 13 - 36, "the rest is the lines between"
        assert panel.images[0].get_clim() == (0, 1)
