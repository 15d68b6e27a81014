"""An image becomes a sequence of patches and back, with every pixel in its place."""

import pytest
import torch

from vit_tutorial import patchify, unpatchify


def numbered(*shape: int) -> torch.Tensor:
    """Every number its own, so that a pixel in the wrong place shows."""
    return torch.arange(torch.Size(shape).numel()).reshape(shape)


def test_four_patches_by_hand():
    image = torch.arange(16).view(1, 1, 4, 4)
    assert patchify(image, 2)[0].tolist() == [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]


def test_each_patch_is_the_slice_of_the_image_where_it_lies():
    images = numbered(2, 3, 8, 15)
    patches = patchify(images, (4, 5))  # a grid of 2×3
    assert patches.shape == (2, 6, 3 * 4 * 5)
    for index in range(6):
        top, left = 4 * (index // 3), 5 * (index % 3)
        assert torch.equal(patches[:, index], images[:, :, top : top + 4, left : left + 5].flatten(1))


@pytest.mark.parametrize(
    ("shape", "patch_size"), [((2, 3, 8, 12), 4), ((1, 1, 6, 4), (3, 1)), ((3, 2, 5, 7), (5, 7)), ((0, 3, 4, 4), 2)]
)
def test_unpatchify_undoes_patchify(shape, patch_size):
    images = numbered(*shape)
    assert torch.equal(unpatchify(patchify(images, patch_size), patch_size, shape[2:]), images)
