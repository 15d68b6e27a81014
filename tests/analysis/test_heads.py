"""What heads are worth: counted one image at a time."""

import pytest
import torch
from published import randomize

from vit_tutorial import ImageSet, Shapes, VisionTransformer, ViTConfig
from vit_tutorial.analysis import HeadCosts, head_costs, mask_heads
from vit_tutorial.model_card import ModelCard

CONFIG = ViTConfig(image_size=8, patch_size=4, num_classes=8, embed_dim=12, depth=2, num_heads=3, mlp_dim=20)


@pytest.fixture
def images():
    return Shapes(60, 8)


@pytest.fixture
def model(images):
    model = randomize(VisionTransformer(CONFIG)).eval()
    model.card = ModelCard(images.classes, *images.mean_std())
    return model


@torch.no_grad()
def test_lost_and_gained_image_by_image(model, images):
    def answers():
        return [model(model.card.normalise(pixels[None])).argmax().item() for pixels in images.pixels]

    found, labels, before = head_costs(model, images), images.labels.tolist(), answers()
    assert (found.images, found.right) == (60, sum(a == label for a, label in zip(before, labels, strict=True)))
    for layer in range(2):
        for head in range(3):
            with mask_heads(model, {layer: head}):
                after = answers()
            triples = list(zip(before, after, labels, strict=True))
            assert found.lost[layer, head] == sum(b == label != a for b, a, label in triples)
            assert found.gained[layer, head] == sum(a == label != b for b, a, label in triples)
    assert (found.lost + found.gained).sum() > 0, "heads that change nothing prove nothing"


def test_cost_and_spread_by_hand():
    """20 of 400 lost and 4 gained: 4 points; the differences are 1, -1 or 0, with variance 24/400 - 0.04²."""
    table = HeadCosts(400, 300, torch.tensor([[20]]), torch.tensor([[4]]))
    assert table.cost.item() == pytest.approx(0.04)
    assert table.spread.item() == pytest.approx(1.96 * (24 / 400 - 0.04**2) ** 0.5 / 20)


def test_what_cannot_be_counted(model, images):
    """The classes in another order, a model that does not know the scale of the pixels."""
    with pytest.raises(ValueError, match=f"class 0 is {images.classes[0]!r} to the model and"):
        head_costs(model, ImageSet(images.pixels, images.labels, images.classes[::-1]))
    model.card = None
    with pytest.raises(ValueError, match="no card"):
        head_costs(model, images)
