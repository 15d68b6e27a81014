"""The built-in scenes: the same ones everywhere, at every size, and nothing but the outline tells the class."""

import math

import pytest
import torch
import torch.nn.functional as F

from vit_tutorial.data import ImageSet, Shapes
from vit_tutorial.data.outlines import MORE_OUTLINES, OUTLINES

ALL_OUTLINES = {**OUTLINES, **MORE_OUTLINES}


@pytest.fixture(scope="module")
def scenes() -> Shapes:
    return Shapes(4000, 32, seed=3)


def test_what_it_is(scenes):
    assert isinstance(scenes, ImageSet)
    assert scenes.pixels.shape == (4000, 3, 32, 32)
    assert scenes.masks.shape == (4000, 32, 32)
    assert scenes.classes == ("circle", "ring", "square", "triangle", "star", "cross", "heart", "crescent")
    assert repr(scenes) == "Shapes: 4,000 images of 32×32 in 8 classes"
    assert isinstance(scenes.subset([0, 1]), ImageSet)


def test_the_same_seed_draws_the_same_scenes_and_another_seed_others():
    assert torch.equal(Shapes(50, seed=1).pixels, Shapes(50, seed=1).pixels)
    assert not torch.equal(Shapes(50, seed=1).labels, Shapes(50, seed=2).labels)


def test_drawing_leaves_the_readers_own_chance_alone():
    before = torch.get_rng_state()
    Shapes(5)
    assert torch.equal(torch.get_rng_state(), before)


def test_scene_7_is_the_same_whether_10_are_drawn_or_1000():
    few, many = Shapes(10, seed=5), Shapes(1000, seed=5)  # 1000 are drawn in four chunks
    assert torch.equal(few.labels, many.labels[:10])
    assert (few.pixels.int() - many.pixels[:10].int()).abs().max() <= 1
    assert torch.equal(few.masks, many.masks[:10])


def test_the_scenes_are_those_of_every_machine():
    """Kept here as numbers: two pixels of each of eight scenes, within 1 of 255, and the sizes of their objects."""
    scenes = Shapes(8, 32, seed=0)
    assert scenes.labels.tolist() == LABELS
    assert (scenes.pixels[:, :, 16, 16].int() - torch.tensor(MIDDLE)).abs().max() <= 1
    assert (scenes.pixels[:, :, 0, 31].int() - torch.tensor(CORNER)).abs().max() <= 1
    assert (scenes.masks.sum(dim=(1, 2)) - torch.tensor(AREA)).abs().max() <= 1


LABELS = [3, 6, 6, 7, 6, 0, 4, 3]
MIDDLE = [
    [216, 197, 168],
    [134, 108, 247],
    [181, 241, 216],
    [148, 173, 166],
    [193, 99, 231],
    [196, 162, 235],
    [153, 93, 232],
    [95, 73, 69],
]
CORNER = [
    [70, 114, 76],
    [76, 59, 75],
    [149, 55, 181],
    [101, 137, 126],
    [113, 132, 67],
    [117, 82, 88],
    [57, 86, 87],
    [81, 60, 47],
]
AREA = [201, 283, 358, 143, 335, 278, 215, 129]


def test_other_outlines_are_other_classes_in_the_same_places():
    scenes, others = Shapes(200, 32, seed=1), Shapes(200, 32, seed=1, outlines=MORE_OUTLINES)
    assert others.classes == tuple(MORE_OUTLINES)
    assert others.labels.bincount(minlength=6).min() > 15
    ground = ~(scenes.masks | others.masks)[:, None]
    ground = -F.max_pool2d(-ground.float(), 9, 1, 4) > 0  # away from both edges, and from tips under a pixel wide
    assert torch.equal((scenes.pixels * ground), (others.pixels * ground)), "nothing but the outline differs"
    assert not torch.equal(scenes.masks, others.masks)


@pytest.mark.parametrize("size", [64, 96])
def test_a_scene_is_the_same_at_every_size(size):
    """Drawn larger and averaged down to 32×32, it is what is drawn at 32×32, but for the edge of the object."""
    small, large = Shapes(64, 32, seed=1), Shapes(64, size, seed=1)
    assert torch.equal(small.labels, large.labels)
    averaged = F.avg_pool2d(large.pixels.float(), size // 32)
    difference = (averaged - small.pixels).abs()
    assert difference.mean() < 2
    assert difference.quantile(0.99) < 20
    area = large.masks.float().mean(dim=(1, 2)) - small.masks.float().mean(dim=(1, 2))
    assert area.abs().max() < 0.02


@pytest.mark.parametrize(("height", "width"), [(32, 48), (48, 32), (20, 60)])
def test_a_picture_that_is_not_square_shows_more_ground_and_the_same_object(height, width):
    wide, square = Shapes(300, (height, width), seed=1), Shapes(300, min(height, width), seed=1)
    assert wide.pixels.shape == (300, 3, height, width)
    assert torch.equal(wide.labels, square.labels)
    assert (wide.masks.sum(dim=(1, 2)) - square.masks.sum(dim=(1, 2))).abs().float().mean() < 5, "not stretched"
    for side in (1, 2):  # of (N, H, W)
        reached = wide.masks.any(dim=3 - side).any(dim=0)
        assert reached[2:-2].all(), "anywhere along both sides"


def test_the_object_is_whole(scenes):
    edge = torch.ones(32, 32, dtype=torch.bool)
    edge[1:-1, 1:-1] = False
    assert not (scenes.masks & edge).any()
    assert scenes.masks.sum(dim=(1, 2)).min() > 40, "and large enough to see"


def test_the_mask_is_where_the_object_is():
    """The object has one colour: inside the mask all pixels are alike, and outside all are darker."""
    scenes = Shapes(200, 96, seed=2)
    inside = -F.max_pool2d(-scenes.masks.float(), 3, 1, 1) > 0  # without the edge, where colours mix
    outside = F.max_pool2d(scenes.masks.float(), 9, 1, 4) == 0  # a star's tip goes on where it is under a pixel wide
    for i, pixels in enumerate(scenes.pixels.float()):
        colour = pixels[:, inside[i]].mean(dim=1)
        assert (pixels[:, inside[i]] - colour[:, None]).abs().max() <= 1
        # Stated: the object's grey value is 0.3 higher, before the waves move the ground's by 0.12 at most.
        assert (colour.mean() - pixels[:, outside[i]].mean(dim=0)).min() >= 0.17 * 255


def test_the_ground_has_a_texture():
    scenes = Shapes(200, 32, seed=2)
    ground = torch.where(scenes.masks[:, None], torch.nan, scenes.pixels.float())
    spread = (ground - ground.nanmean(dim=(2, 3), keepdim=True)).square().nanmean(dim=(1, 2, 3)).sqrt()
    assert spread.median() > 5


def linear_probe(train: torch.Tensor, labels: torch.Tensor, test: torch.Tensor) -> torch.Tensor:
    """The classes that least squares gives to `test`."""
    targets = F.one_hot(labels, 8).double()
    return (F.pad(test, (0, 1), value=1) @ torch.linalg.lstsq(F.pad(train, (0, 1), value=1), targets).solution).argmax(
        1
    )


def object_colour(scenes: ImageSet) -> torch.Tensor:
    masks = scenes.masks[:, None]
    return (scenes.pixels.double() * masks).sum(dim=(2, 3)) / masks.sum(dim=(2, 3))


def ground_colour(scenes: ImageSet) -> torch.Tensor:
    masks = ~scenes.masks[:, None]
    return (scenes.pixels.double() * masks).sum(dim=(2, 3)) / masks.sum(dim=(2, 3))


def place(scenes: ImageSet) -> torch.Tensor:
    rows, columns = torch.arange(32.0), torch.arange(32.0)
    masks = scenes.masks.double()
    total = masks.sum(dim=(1, 2))
    row = (masks.sum(dim=2) @ rows.double()) / total
    column = (masks.sum(dim=1) @ columns.double()) / total
    return torch.stack([row, column, row * row, column * column, row * column], dim=1) / 100


@pytest.mark.parametrize("clue", [object_colour, ground_colour, place], ids=lambda clue: clue.__name__)
def test_neither_colour_nor_place_tells_the_class(clue, scenes):
    """Guessing gives 12.5 %, give or take 0.7 % on 2,000 scenes. A crescent's middle lies off its circle's: 20 %."""
    known, unknown = clue(scenes.subset(range(2000))), clue(scenes.subset(range(2000, 4000)))
    guesses = linear_probe(known, scenes.labels[:2000], unknown)
    assert (guesses == scenes.labels[2000:]).double().mean() < 0.22


def test_every_class_comes_in_all_sizes(scenes):
    """The radius goes from 0.30 to 0.42, so the largest of a class covers nearly twice as much as the smallest."""
    areas = scenes.masks.sum(dim=(1, 2))
    for label in range(8):
        mine = areas[scenes.labels == label]
        assert 1.6 < mine.max() / mine.min() < 2.5, scenes.classes[label]


def test_pixels_tell_a_linear_classifier_little(scenes):
    """The task needs more than a weight for each pixel: that gets half of the scenes right, a ViT nearly all."""
    flat = F.avg_pool2d(scenes.pixels.double(), 2).flatten(1) / 255
    guesses = linear_probe(flat[:3000], scenes.labels[:3000], flat[3000:])
    assert (guesses == scenes.labels[3000:]).double().mean() < 0.55


def test_all_classes_are_equally_likely(scenes):
    counts = torch.bincount(scenes.labels, minlength=8)
    assert (counts - 500).abs().max() < 5 * math.sqrt(500)


@pytest.mark.parametrize("name", ALL_OUTLINES)
def test_an_outline_fits_the_circle_that_it_is_turned_in(name):
    y, x = torch.meshgrid(torch.linspace(-1.5, 1.5, 301), torch.linspace(-1.5, 1.5, 301), indexing="ij")
    inside = ALL_OUTLINES[name](x, y) < 0
    reach = torch.hypot(x, y)[inside].max()
    assert 0.84 < reach <= 1


@pytest.mark.parametrize("name", ALL_OUTLINES)
def test_an_outline_is_a_distance_where_its_edge_is_drawn(name):
    """It grows by 1 for each step of 1 away from the edge; else an edge would be drawn sharp here and soft there."""
    y, x = torch.meshgrid(torch.linspace(-1.2, 1.2, 241), torch.linspace(-1.2, 1.2, 241), indexing="ij")
    x, y = x.requires_grad_(), y.requires_grad_()
    distance = ALL_OUTLINES[name](x, y)
    slope = torch.hypot(*torch.autograd.grad(distance.sum(), (x, y)))
    near = distance.detach().abs() < 0.05
    assert near.sum() > 500
    assert ((slope[near] - 1).abs() < 1e-3).double().mean() > 0.99


def test_outlines_stay_apart_under_any_turn():
    """Turned by any angle and shrunk to the same area, two outlines share at most nine tenths of it."""
    y, x = torch.meshgrid(torch.linspace(-2, 2, 128), torch.linspace(-2, 2, 128), indexing="ij")
    drawn = {}
    for name, outline in ALL_OUTLINES.items():
        scale = ((outline(x, y) < 0).double().mean().item() * 16) ** 0.5  # the square root of the area
        turns = torch.arange(0, 2 * math.pi, math.pi / 18)[:, None, None]
        drawn[name] = (
            outline(scale * (turns.cos() * x - turns.sin() * y), scale * (turns.sin() * x + turns.cos() * y)) < 0
        )
    names = list(ALL_OUTLINES)
    for i, first in enumerate(names):
        for second in names[i + 1 :]:
            both, either = drawn[first][:1] & drawn[second], drawn[first][:1] | drawn[second]
            overlap = both.sum(dim=(1, 2)) / either.sum(dim=(1, 2))
            assert overlap.max() < 0.9, f"{first} and {second}"


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("options", "fact"),
    [
        ({"count": 0}, "count"),
        ({"count": 2.5}, "count"),
        ({"count": 1, "image_size": (32, 0)}, "image_size"),
        ({"count": 10, "image_size": 10**7}, r"10 images of 10000000×10000000 take 3,000,000\.0 GB"),
        ({"count": 1, "outlines": {}}, "outlines"),
        ({"count": 1, "outlines": {"circle": 0.5}}, "outlines"),
        ({"count": 1, "outlines": None}, "outlines"),
    ],
)
def test_numbers_that_do_not_fit(options, fact):
    with pytest.raises(ValueError, match=fact):
        Shapes(**options)
