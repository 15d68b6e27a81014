"""Scores of a map against a mask: by hand, and by comparing every two pixels."""

import pytest
import torch

from vit_tutorial.analysis import object_auc

MASK = torch.tensor([[[1, 1, 0, 0], [0, 1, 0, 0]]], dtype=torch.bool)  # 2×4 pixels, 3 of them the object


def test_an_even_map_knows_nothing():
    maps = torch.full((1, 1, 2), 0.3)
    assert object_auc(maps, MASK).item() == pytest.approx(0.5)


def test_auc_does_not_depend_on_the_size_of_the_weights():
    maps, masks = torch.rand(3, 2, 2) + 0.1, torch.rand(3, 4, 4) < 0.5
    torch.testing.assert_close(object_auc(7 * maps, masks), object_auc(maps, masks))


def test_auc_pixel_by_pixel():
    """The long way: every pixel of the object against every pixel of the ground."""
    maps = torch.tensor([[[0.1, 0.4, 0.4], [0.2, 0.0, 0.3]], [[0.5, 0.1, 0.1], [0.2, 0.2, 0.9]]])
    masks = torch.rand(2, 4, 9) < 0.4
    found = object_auc(maps, masks)
    for index in range(2):
        pixels = maps[index].repeat_interleave(2, dim=0).repeat_interleave(3, dim=1)
        inside, outside = pixels[masks[index]], pixels[~masks[index]]
        wins = (inside[:, None] > outside).float() + (inside[:, None] == outside).float() / 2
        assert found[index].item() == pytest.approx(wins.mean().item())


def test_auc_of_the_best_and_the_worst_map():
    mask = torch.tensor([[[True, False], [True, False]]])
    best = torch.tensor([[[0.4, 0.1], [0.3, 0.2]]])
    assert object_auc(best, mask).item() == 1
    assert object_auc(1 - best, mask).item() == 0


@pytest.mark.usefixtures("unchecked")
def test_what_does_not_fit():
    with pytest.raises(ValueError, match="masks of 2×4 pixels are not a whole number of patches in a grid of 1×3"):
        object_auc(torch.ones(1, 1, 3), MASK)
    with pytest.raises(ValueError, match="mask 1 is empty"):
        object_auc(torch.ones(2, 1, 2), torch.cat([MASK, torch.zeros_like(MASK)]))
    with pytest.raises(ValueError, match=r"as many masks .* got \(2, 1, 2\) and \(1, 2, 4\) of torch.bool"):
        object_auc(torch.ones(2, 1, 2), MASK)
    with pytest.raises(ValueError, match=r"masks .* of torch.bool, got .* of torch.uint8"):
        object_auc(torch.ones(1, 1, 2), 255 * MASK.byte())
    for wrong in (-1.0, torch.nan):
        with pytest.raises(ValueError, match="weights from 0 up"):
            object_auc(torch.tensor([[[wrong, 2.0]]]), MASK)
