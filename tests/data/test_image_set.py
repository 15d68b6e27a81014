"""Labelled images in memory, the one kind of thing that every data set returns."""

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from vit_tutorial.data import ImageSet

CLASSES = ("cat", "dog", "owl")


def images(count: int = 10, height: int = 4, width: int = 6) -> ImageSet:
    """Image i is filled with the byte i, and its class is i modulo 3."""
    pixels = torch.arange(count, dtype=torch.uint8)[:, None, None, None].expand(count, 3, height, width).clone()
    return ImageSet(pixels, torch.arange(count) % 3, CLASSES)


def masked(count: int = 10) -> ImageSet:
    plain = images(count)
    return ImageSet(plain.pixels, plain.labels, CLASSES, masks=plain.pixels[:, 0] % 2 == 0)


def test_one_image_is_floats_from_0_to_1_and_the_number_of_its_class():
    """A for loop over all of them ends, and a `DataLoader` takes them as they are."""
    pixels = torch.tensor([0, 51, 255], dtype=torch.uint8)[None, :, None, None].expand(1, 3, 2, 2).clone()
    image, label = ImageSet(pixels, torch.tensor([2]), CLASSES)[0]
    assert image.dtype == torch.float32
    assert torch.equal(image[:, 1, 1], torch.tensor([0, 0.2, 1]))
    assert (label, type(label)) == (2, int)
    assert [label for _, label in images(5)] == [0, 1, 2, 0, 1]
    batches = list(DataLoader(images(10), batch_size=4))
    assert [tuple(batch.shape) for batch, _ in batches] == [(4, 3, 4, 6), (4, 3, 4, 6), (2, 3, 4, 6)]
    assert torch.cat([labels for _, labels in batches]).tolist() == images(10).labels.tolist()
    assert torch.equal(batches[1][0][0], images(10)[4][0])


@pytest.mark.parametrize("indices", [[7, 2], (7, 2), range(7, 1, -5), torch.tensor([7, 2]), [-3, 2]], ids=str)
def test_a_subset_has_the_images_in_the_order_asked_for(indices):
    part = masked().subset(indices)
    assert part.pixels[:, 0, 0, 0].tolist() == [7, 2]
    assert part.labels.tolist() == [1, 2]
    assert part.masks[:, 0, 0].tolist() == [False, True], "the masks go with their images"
    assert part.classes == CLASSES
    assert images().subset(images().labels == 0).pixels[:, 0, 0, 0].tolist() == [0, 3, 6, 9], "by yes and no"
    assert torch.equal(masked()[7:1:-5].masks, part.masks), "a slice is a subset, too"
    for none in ([], range(0), images().labels == 5):
        with pytest.raises(ValueError, match="none of the 10 images is chosen"):
            images().subset(none)


def test_a_split_holds_out_the_same_share_of_each_class_and_loses_no_image():
    rest, held_out = masked(100).split(0.2, seed=1)
    kept, out = rest.pixels[:, 0, 0, 0].tolist(), held_out.pixels[:, 0, 0, 0].tolist()
    assert sorted(kept + out) == list(range(100))
    assert held_out.labels.bincount().tolist() == [7, 7, 7], "of 34, 33 and 33"
    assert held_out.labels.tolist() == [value % 3 for value in out], "labels go with their images"
    assert held_out.masks[:, 0, 0].tolist() == [value % 2 == 0 for value in out], "and so do masks"
    # Kept here: a model's card would lie if the held-out images moved into the training set on another machine.
    assert images(20).split(0.25)[1].pixels[:, 0, 0, 0].tolist() == [2, 3, 12, 13, 14, 19]
    assert images(20).split(0.25, seed=1)[1].pixels[:, 0, 0, 0].tolist() != [2, 3, 12, 13, 14, 19]


def test_of_a_class_of_two_images_one_is_held_out_and_of_one_none_can_be():
    for share in (0.01, 0.9):
        assert images(6).split(share)[1].labels.bincount().tolist() == [1, 1, 1]
    with pytest.raises(ValueError, match="the class 'owl' has 1 image: a split needs two"):
        images(5).split(0.2)
    with pytest.raises(ValueError, match=r"share must be a number in \[0, 1\), got 20"):
        images().split(20.0)


def test_mean_and_spread_are_those_of_all_pixels():
    pixels = torch.randint(256, (50, 3, 8, 6), dtype=torch.uint8)
    pixels[:, 1] //= 2
    floats = pixels.double() / 255
    means, stds = ImageSet(pixels, torch.zeros(50, dtype=torch.int64), CLASSES).mean_std()
    assert torch.allclose(torch.tensor(means).double(), floats.mean(dim=(0, 2, 3)), atol=1e-7)
    assert torch.allclose(torch.tensor(stds).double(), floats.std(dim=(0, 2, 3), correction=0), atol=1e-7)
    assert all(type(number) is float for number in (*means, *stds)), "a card is written as JSON"


GOOD = {"pixels": torch.zeros(4, 3, 2, 2, dtype=torch.uint8), "labels": torch.tensor([0, 1, 2, 0]), "classes": CLASSES}

# What is given instead of what fits, and the facts that the message must show.
WRONG = {
    "NumPy": ({"pixels": np.zeros((4, 3, 2, 2), np.uint8)}, ["a tensor of torch.uint8", "ndarray of uint8"]),
    "floats": ({"pixels": torch.zeros(4, 3, 2, 2)}, ["torch.uint8", "torch.float32"]),
    "channels last": ({"pixels": torch.zeros(4, 2, 2, 3, dtype=torch.uint8)}, ["(N, 3, H, W)", "(4, 2, 2, 3)"]),
    "labels: a list": ({"labels": [0, 1, 2, 0]}, ["a tensor of torch.int64", "got list"]),
    "labels: floats": ({"labels": torch.zeros(4)}, ["torch.int64", "torch.float32"]),
    "labels: too few": ({"labels": torch.tensor([0, 1])}, ["(4,)", "(2,)"]),
    "labels: from 1": ({"labels": torch.tensor([1, 2, 3, 1])}, ["3 classes", "0 to 2", "[1, 2, 3]"]),
    "masks: a list": ({"masks": [1, 2]}, ["a tensor of torch.bool, (4, 2, 2)", "got list"]),
    "masks: bytes": ({"masks": torch.ones(4, 2, 2, dtype=torch.uint8)}, ["torch.bool", "got Tensor of torch.uint8"]),
    "no images": ({"pixels": GOOD["pixels"][:0], "labels": GOOD["labels"][:0]}, ["0 to 2, got []"]),
    "classes: one word": ({"classes": "cat"}, ["names", "'cat'"]),
}


@pytest.mark.parametrize("case", WRONG)
@pytest.mark.usefixtures("unchecked")
def test_parts_that_do_not_fit_get_one_error_that_shows_the_facts(case):
    given, facts = WRONG[case]
    assert len(ImageSet(**GOOD)) == 4
    with pytest.raises(ValueError, match="got") as caught:
        ImageSet(**(GOOD | given))
    assert not [fact for fact in facts if fact not in str(caught.value)], str(caught.value)
    assert caught.value.__context__ is None
