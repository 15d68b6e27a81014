"""The animation's frames: the picture grows, and holds what it was given."""

import sys
from pathlib import Path

import pytest
import torch

IMAGES = Path(__file__).resolve().parents[2] / "images"
sys.path.insert(0, str(IMAGES))
from overview import CAPTIONS, END, show_overview  # noqa: E402


@pytest.fixture
def arrays():
    photo, tokens, weights = torch.rand(3, 24, 24), torch.randn(10, 5), torch.rand(2, 10).softmax(-1)
    return photo, tokens, weights, torch.randn(4)


def words(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def test_every_stage_has_its_caption_and_the_last_counts_blocks_and_logits(arrays):
    for stage, caption in enumerate(CAPTIONS):
        assert caption in words(show_overview(*arrays, moment=stage + 0.5))
    last = " ".join(words(show_overview(*arrays)))
    assert "block 2 of 2" in last
    assert "4 logits" in last


def test_photo_first_then_patches_then_tokens(arrays):
    photo, patches, tokens = 1, 9, 10
    images = [len(show_overview(*arrays, moment=moment).axes[0].images) for moment in (0.0, 2.9, 3.9, END)]
    assert images == [photo, photo + patches, photo + patches + tokens, photo + patches + tokens]
    drawn = show_overview(*arrays).axes[0].images[photo + 5].get_array()  # row 1, column 2 of a 3×3 grid
    torch.testing.assert_close(torch.tensor(drawn), arrays[0][:, 8:16, 16:24].permute(1, 2, 0))
