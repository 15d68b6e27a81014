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
    generator = torch.Generator().manual_seed(0)
    photo, tokens = torch.rand(3, 24, 24, generator=generator), torch.randn(10, 5, generator=generator)
    weights, logits = torch.rand(2, 10, generator=generator).softmax(-1), torch.randn(4, generator=generator)
    return photo, tokens, weights, logits


def words(figure):
    return [text.get_text() for text in figure.axes[0].texts]


def test_every_stage_has_its_caption(arrays):
    for stage, caption in enumerate(CAPTIONS):
        assert caption in words(show_overview(*arrays, moment=stage + 0.5))


def test_photo_first_then_patches_then_tokens(arrays):
    images = [len(show_overview(*arrays, moment=moment).axes[0].images) for moment in (0.0, 2.9, 3.9, END)]
    photo, patches, tokens = 1, 9, 10
    assert images == [photo, photo + patches, photo + patches + tokens, photo + patches + tokens]


def test_the_patches_in_the_sequence_are_those_of_the_photo(arrays):
    photo = arrays[0]
    drawn = show_overview(*arrays).axes[0].images[1 + 5].get_array()  # row 1, column 2 of a 3×3 grid
    torch.testing.assert_close(torch.tensor(drawn), photo[:, 8:16, 16:24].permute(1, 2, 0))


def test_the_last_frame_counts_blocks_and_logits(arrays):
    text = " ".join(words(show_overview(*arrays)))
    assert "block 2 of 2" in text
    assert "4 logits" in text
