"""The animation's frames: the picture grows, and holds what it was given."""

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from matplotlib.collections import LineCollection
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle
from PIL import Image
from reading import drawn, words

from vit_tutorial.plotting.style import CLASS_TOKEN, TRAINED

IMAGES = Path(__file__).resolve().parents[2] / "images"
sys.path.insert(0, str(IMAGES))
from overview import ZERO, captions, show_overview  # noqa: E402

CLASSES = ("ring", "star", "heart")
SAID = captions(2, "star")


@pytest.fixture
def arrays():
    generator = torch.Generator().manual_seed(0)
    photo, tokens = torch.rand(3, 24, 24, generator=generator), torch.randn(3, 10, 5, generator=generator)
    weights = torch.rand(2, 10, 10, generator=generator).softmax(-1)
    return photo, tokens, weights, torch.tensor([-2.0, 4.0, 1.0]), CLASSES


def test_every_stage_has_its_caption(arrays):
    for stage, caption in enumerate(SAID):
        assert caption in words(show_overview(*arrays, moment=stage + 0.5).axes[0])
    assert "block 2" in words(show_overview(*arrays).axes[0])
    assert show_overview(*arrays).alt.startswith("The largest logit is the answer: star.")


def test_photo_first_then_patches_then_a_row_of_tokens_after_each_block(arrays):
    moments = (0.0, 2.9, 3.9, 4.9, 5.9)
    images = [len(show_overview(*arrays, moment=moment).axes[0].images) for moment in moments]
    photo, patches = 1, 9
    assert images == [photo] + [photo + patches + rows for rows in (0, 1, 2, 3)]


def test_the_patches_are_those_of_the_photo_and_each_row_holds_the_tokens_after_its_block(arrays):
    (photo, tokens, *_), axes = arrays, show_overview(*arrays).axes[0]
    patch = photo[:, 8:16, 16:24].permute(1, 2, 0)  # row 1, column 2 of a 3×3 grid
    torch.testing.assert_close(drawn(axes, 1 + 5), patch)
    for image, expected in zip((-3, -2, -1), tokens, strict=True):
        torch.testing.assert_close(drawn(axes, image)[:, ::7].float(), expected.T)


def test_a_line_for_every_weight_above_an_equal_share_and_the_class_tokens_in_its_colour(arrays):
    lines = [one for one in show_overview(*arrays).axes[0].collections if isinstance(one, LineCollection)]
    for found, weights in zip(lines, arrays[2], strict=True):
        assert len(found.get_segments()) == (weights > 1 / 10).sum()
        pink = (found.get_colors()[:, :3] == to_rgb(CLASS_TOKEN)).all(axis=1)
        assert pink.sum() == (weights[0] > 1 / 10).sum()


def test_bars_go_left_and_right_of_zero_and_the_answer_stands_out(arrays):
    bars = [patch for patch in show_overview(*arrays).axes[0].patches if isinstance(patch, Rectangle)]
    bars = [bar for bar in bars if bar.get_x() == ZERO]
    np.testing.assert_allclose([bar.get_width() / bars[1].get_width() for bar in bars], [-0.5, 1.0, 0.25])
    assert [bar.get_facecolor()[:3] == to_rgb(TRAINED) for bar in bars] == [False, True, False]


def test_the_files_of_the_readme_are_small_and_slow_enough_to_follow():
    image = Image.open(IMAGES / "forward.gif")
    milliseconds = []
    for frame in range(image.n_frames):
        image.seek(frame)
        milliseconds.append(image.info["duration"])
    assert sum(milliseconds) > 1300 * len(captions(4, "star"))
    assert (IMAGES / "forward.gif").stat().st_size < 400_000
