"""The animation's frames: the picture grows, and holds what it was given."""

import torch
from overview import show_overview


def test_the_patches_are_those_of_the_photo_and_each_row_holds_the_tokens_after_its_block():
    photo, tokens = torch.rand(3, 24, 24), torch.randn(3, 10, 5)
    weights, logits = torch.rand(2, 10, 10).softmax(-1), torch.tensor([-2.0, 4.0, 1.0])
    axes = show_overview(photo, tokens, weights, logits, ("ring", "star", "heart")).axes[0]
    patch = photo[:, 8:16, 16:24].permute(1, 2, 0)  # row 1, column 2 of a 3×3 grid
    drawn = [torch.tensor(image.get_array().data) for image in axes.images]
    torch.testing.assert_close(drawn[1 + 5], patch)
    for row, expected in zip(drawn[-3:], tokens, strict=True):
        torch.testing.assert_close(row[:, ::7].float(), expected.T)
