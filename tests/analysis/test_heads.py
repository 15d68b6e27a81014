"""What heads are worth: counted one image at a time, and kept as a table."""

import pytest
import torch
from PIL import Image
from published import randomize

from vit_tutorial import ImageSet, Shapes, VisionTransformer, ViTConfig, load_checkpoint
from vit_tutorial.analysis import HeadCosts, head_costs, mask_heads
from vit_tutorial.experiments.__main__ import main
from vit_tutorial.experiments.tables import load_head_costs, save_head_costs
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


def test_a_table_comes_back_as_it_was(tmp_path):
    table = HeadCosts(10, 7, torch.tensor([[1, 2, 3], [4, 0, 1]]), torch.tensor([[0, 0, 1], [1, 2, 0]]))
    save_head_costs(table, tmp_path / "heads.csv")
    again = load_head_costs(tmp_path / "heads.csv")
    assert (again.images, again.right) == (10, 7)
    assert torch.equal(again.lost, table.lost)
    assert torch.equal(again.gained, table.gained)


def test_the_command_counts_a_folder_of_test_images(tmp_path, capsys):
    model = load_checkpoint("cifar10")
    for name in model.card.classes:
        (tmp_path / "test" / name).mkdir(parents=True)
        Image.new("RGB", (32, 32), "grey").save(tmp_path / "test" / name / "1.png")
    assert main(["heads", "--data", str(tmp_path / "test"), "--out", str(tmp_path / "heads.csv")]) == 0
    assert capsys.readouterr().out.startswith("1 of 10 right")  # ten times the same picture
    assert load_head_costs(tmp_path / "heads.csv").images == 10
    with pytest.raises(SystemExit):
        main(["ablations", "--data", str(tmp_path / "test")])
    assert "--data is for heads" in capsys.readouterr().err


def test_the_stored_table_fits_the_shipped_model():
    table, model = load_head_costs(), load_checkpoint("cifar10")
    assert table.lost.shape == table.gained.shape == (model.config.depth, model.config.num_heads)
    assert (table.lost <= table.right).all()
    assert (table.gained <= table.images - table.right).all()


def test_what_cannot_be_counted(model, images):
    """The classes in another order, a model that gives no answers, none that knows the scale of the pixels."""
    with pytest.raises(ValueError, match=f"class 0 is {images.classes[0]!r} to the model and"):
        head_costs(model, ImageSet(images.pixels, images.labels, images.classes[::-1]))
    torch.nn.init.constant_(model.head.bias, torch.nan)
    with pytest.raises(FloatingPointError, match="not finite"):
        head_costs(model, images)
    model.card = None
    with pytest.raises(ValueError, match="no card"):
        head_costs(model, images)
