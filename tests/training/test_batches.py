"""An epoch: every image once, in an order and with moves that depend on the seed and the epoch alone."""

from collections import Counter

import pytest
import torch
import torch.nn.functional as F
from torchvision.transforms.v2 import RandAugment
from torchvision.transforms.v2.functional import horizontal_flip

from vit_tutorial.training.batches import batches, shift_and_flip
from vit_tutorial.training.rand_augment import OPERATIONS, rand_augment

from .toys import short


def numbered(count: int, height: int = 6, width: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    """Image i shows the byte i everywhere, and its label is i."""
    labels = torch.arange(count)
    return labels.to(torch.uint8)[:, None, None, None].expand(-1, 3, height, width).clone(), labels


def random_images(count: int, height: int, width: int) -> torch.Tensor:
    return torch.randint(256, (count, 3, height, width), dtype=torch.uint8)


@pytest.mark.parametrize(("count", "sizes"), [(10, [4, 3, 3]), (8, [4, 4]), (9, [3, 3, 3]), (3, [3])])
def test_every_image_comes_once_in_batches_as_even_as_can_be(count, sizes):
    epoch = list(batches(*numbered(count), short(batch_size=4, crop=2, flip=True), epoch=0))
    assert [len(labels) for _, labels in epoch] == sizes
    assert short(batch_size=4).steps_per_epoch(count) == len(sizes)
    assert sorted(torch.cat([labels for _, labels in epoch]).tolist()) == list(range(count))
    for pixels, labels in epoch:
        assert torch.equal(pixels, labels.to(torch.uint8)[:, None, None, None].expand_as(pixels)), "each its own label"


def test_the_order_depends_on_the_seed_and_the_epoch_and_on_nothing_else():
    def order(seed: int, epoch: int) -> list[int]:
        return torch.cat([labels for _, labels in batches(*numbered(50), short(seed=seed), epoch)]).tolist()

    before = torch.get_rng_state()
    first = order(0, 0)
    assert torch.equal(torch.get_rng_state(), before), "the global generator is neither read nor moved"
    torch.rand(7)
    assert order(0, 0) == first
    assert len({tuple(order(seed, epoch)) for seed in range(3) for epoch in range(3)}) == 9


def test_a_move_is_a_crop_of_the_reflected_image_and_a_flip_and_each_as_likely_as_any_other():
    """Every move there is of an image that is not square, beside torchvision's flip of a slice of PyTorch's pad."""
    image, count = random_images(1, 11, 13), 5000
    padded = F.pad(image.float(), [2] * 4, mode="reflect").to(torch.uint8)[0]
    crops = [padded[:, down : down + 11, right : right + 13] for down in range(5) for right in range(5)]
    moves = {moved.numpy().tobytes(): move for move, moved in enumerate([*crops, *map(horizontal_flip, crops)])}
    for recipe, drawn in ((short(crop=2, flip=True), 50), (short(crop=2), 25)):
        moved = shift_and_flip(image.expand(count, -1, -1, -1), recipe, torch.Generator().manual_seed(1))
        found = Counter(moves[pixels.numpy().tobytes()] for pixels in moved)
        assert found.keys() == {*range(drawn)}
        expected = count / drawn
        assert max(abs(times - expected) for times in found.values()) < 4 * expected**0.5, "four standard deviations"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_does_what_torchvisions_does(operation, monkeypatch):
    """Within one grey level, up and down. Ours gets two images at once, torchvision's one after the other."""
    space = RandAugment._AUGMENTATION_SPACE
    assert list(OPERATIONS) == list(space), "as often as there"
    monkeypatch.setattr(RandAugment, "_AUGMENTATION_SPACE", {operation: space[operation]})
    images, theirs = random_images(2, 28, 41), RandAugment(num_ops=1, magnitude=9)
    images[1] = images[1] // 3 + 60  # pale, for what stretches the contrast
    for sign, drawn in ((-1, 0.0), (1, 1.0)):
        monkeypatch.setattr(torch, "rand", lambda *_, drawn=drawn: torch.tensor(drawn))
        expected = torch.stack([theirs(image) for image in images])
        changed = OPERATIONS[operation](images, sign)
        assert changed.dtype == torch.uint8
        assert (changed.int() - expected.int()).abs().max() <= 1
        assert torch.equal(changed, images) == (operation == "Identity")


def test_randaugment_changes_each_image_by_the_operations_it_drew(monkeypatch):
    """By two, and in their order: three images of one batch, and their draws."""
    count, images = 2 * len(OPERATIONS), random_images(3, 32, 32)
    names = list(OPERATIONS)
    first, second = names.index("Solarize"), names.index("Rotate")
    draws = torch.tensor([[2 * first, 2 * second], [2 * second + 1, 2 * first], [2 * first, 2 * first]])
    turn, solarize = OPERATIONS["Rotate"], OPERATIONS["Solarize"]
    expected = [
        turn(solarize(images[:1], -1), -1),
        solarize(turn(images[1:2], 1), -1),
        solarize(solarize(images[2:], -1), -1),
    ]
    assert torch.equal(rand_augment(images, (draws + 0.5) / count), torch.cat(expected))
