"""The figures of notebook 01 hold the arrays that they were given."""

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure

from vit_tutorial import patchify, plotting


@pytest.fixture
def image():
    shades = torch.randint(0, 52, (3, 8, 12), generator=torch.Generator().manual_seed(0))
    return shades / 51  # a grid of 2×3 patches of 4×4


@pytest.fixture
def patches(image):
    return patchify(image[None], 4)[0]


@pytest.fixture
def ids():
    return torch.arange(96).reshape(8, 12)


def drawn(axes, index=0):
    return np.asarray(axes.images[index].get_array())


def numbers(axes):
    return [int(text.get_text()) for text in axes.texts]


def test_grid_draws_the_image_and_a_line_between_patches(image):
    figure = plotting.show_grid(image, (4, 6))
    assert isinstance(figure, Figure)
    (axes,) = figure.axes
    np.testing.assert_array_equal(drawn(axes), image.permute(1, 2, 0))
    horizontal, vertical = (lines.get_segments() for lines in axes.collections)
    assert [segment[0, 1] for segment in horizontal] == [4]
    assert [segment[0, 0] for segment in vertical] == [6]
    assert axes.get_title(loc="left") == "2×2 = 4 patches of 4×6 pixels"


def test_any_picture_is_drawn_within_half_a_shade():
    image = torch.rand(3, 8, 12, generator=torch.Generator().manual_seed(0))
    (axes,) = plotting.show_grid(image, 4).axes
    np.testing.assert_allclose(drawn(axes), image.permute(1, 2, 0), atol=0.5 / 51 + 1e-6)
    assert len(np.unique(drawn(axes))) <= 52


def test_apart_draws_each_patch_in_its_place_with_gaps_between(image, patches):
    (axes,) = plotting.show_apart(patches, 4, (2, 3)).axes
    canvas = drawn(axes)
    np.testing.assert_allclose(canvas[6:10, 12:16], image[:, 4:8, 8:12].permute(1, 2, 0))  # row 1, column 2
    assert (canvas[4:6] == 1).all()
    assert (canvas[:, 4:6] == 1).all()
    assert [label.get_text() for label in axes.get_yticklabels()] == ["0–2", "3–5"]


def test_sequence_draws_some_patches_as_pictures_and_all_as_a_table(image, patches):
    strip, table, _ = plotting.show_sequence(patches, 4, first=4, count=2).axes
    np.testing.assert_allclose(drawn(strip)[:, :4], image[:, 4:8, 4:8].permute(1, 2, 0))  # patch 4: row 1, column 1
    np.testing.assert_allclose(drawn(strip)[:, 6:10], image[:, 4:8, 8:12].permute(1, 2, 0))
    np.testing.assert_array_equal(drawn(table), patches)


def test_cut_draws_every_number_in_the_tint_of_the_patch_it_comes_from(ids):
    sequence = patchify(ids[None, None], (4, 6))[0]
    left, right = plotting.show_cut(ids, sequence, (4, 6)).axes
    assert numbers(left) == ids.flatten().tolist()
    assert numbers(right) == sequence.flatten().tolist()
    assert (drawn(right) == drawn(right)[:, :1]).all()  # each row one tint
    assert len(np.unique(drawn(right)[:, 0], axis=0)) == 4


def test_cut_shows_a_wrong_cut(ids):
    _, right = plotting.show_cut(ids, ids.reshape(6, 16), 4).axes  # a bare reshape
    assert not (drawn(right) == drawn(right)[:, :1]).all()


def test_what_cannot_be_drawn_is_refused_with_the_facts(image, patches, ids):
    refused = {
        "8×12 is not a whole number of 5×5 patches": lambda: plotting.show_grid(image, 5),
        "a picture has 1 or 3 channels, got 2": lambda: plotting.show_grid(image[:2], 4),
        r"6 patches do not fill a grid of 2×2 = 4": lambda: plotting.show_apart(patches, 4, (2, 2)),
        "a patch of 48 values is no 5×5 picture": lambda: plotting.show_apart(patches, 5, (2, 3)),
        "no patches 4 to 6 in a sequence of patches 0 to 5": lambda: plotting.show_sequence(
            patches, 4, first=4, count=3
        ),
        "the sequence holds 96, which is not in the image": lambda: plotting.show_cut(ids, ids.reshape(6, 16) + 1, 4),
        "the image repeats numbers: 48 different": lambda: plotting.show_cut(ids // 2, ids.reshape(6, 16), 4),
        "24 patches are more than the 8 tints": lambda: plotting.show_cut(ids, ids.reshape(24, 4), 2),
    }
    for message, show in refused.items():
        with pytest.raises(ValueError, match=message):
            show()


def test_pictures_stand_under_their_captions_and_empty_places_stay_empty(image):
    bytes_ = (255 * image).to(torch.uint8)
    axes = plotting.show_pictures([image, image[:1], bytes_], ["colour", "grey", "uint8"], "three", columns=2).axes
    assert [a.get_title() for a in axes] == ["colour", "grey", "uint8", ""]
    np.testing.assert_array_equal(drawn(axes[0]), image.permute(1, 2, 0))
    np.testing.assert_array_equal(drawn(axes[1]), image[:1].expand(3, -1, -1).permute(1, 2, 0))
    np.testing.assert_array_equal(drawn(axes[2]), bytes_.permute(1, 2, 0))
    assert not axes[3].images
