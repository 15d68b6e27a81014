"""A trained model adapted: its positions interpolated for another resolution, its head replaced."""

import math

import pytest
import torch
from published import randomize, twin
from timm.layers import resample_abs_pos_embed
from torchvision.models.vision_transformer import interpolate_embeddings

from vit_tutorial import Backbone, Embeddings, VisionTransformer, ViTConfig, change_resolution, replace_head
from vit_tutorial.config import POSITIONS
from vit_tutorial.model_card import ModelCard
from vit_tutorial.positions import resize_position_embedding
from vit_tutorial.saving import load_model, save_model

SMALL = {"image_size": (12, 20), "patch_size": 4, "embed_dim": 12, "depth": 2, "num_heads": 3, "mlp_dim": 16}
SMALL |= {"num_classes": 5}


def small_vit(**options) -> VisionTransformer:
    return randomize(VisionTransformer(ViTConfig(**{**SMALL, **options}))).eval()


# ---- positions


@pytest.mark.parametrize("old", [(3, 5), (7, 7)], ids=str)
@pytest.mark.parametrize("new", [(6, 10), (5, 3), (4, 11), (2, 2), (7, 7)], ids=str)
@pytest.mark.parametrize("prefix", [0, 1, 2])
def test_the_defaults_are_timms(old, new, prefix):
    position = torch.randn(prefix + old[0] * old[1], 6)
    moved = resize_position_embedding(position, old, new, prefix)
    theirs = resample_abs_pos_embed(position[None], list(new), list(old), prefix)[0]
    torch.testing.assert_close(moved, theirs, atol=0, rtol=0)
    assert torch.equal(moved[:prefix], position[:prefix]), "prefix tokens have no place"


@pytest.mark.parametrize("mode", ["bicubic", "bilinear"])
@pytest.mark.parametrize(("old", "new"), [(7, 11), (7, 4), (7, 7)])
def test_with_its_settings_it_is_torchvisions(mode, old, new):
    position = torch.randn(1 + old * old, 6)
    state = {"encoder.pos_embedding": position[None].clone()}
    theirs = interpolate_embeddings(new * 16, 16, state, interpolation_mode=mode)["encoder.pos_embedding"][0]
    ours = resize_position_embedding(position, (old, old), (new, new), 1, mode, antialias=False, align_corners=True)
    torch.testing.assert_close(ours, theirs, atol=0, rtol=0)
    assert torch.equal(resize_position_embedding(position, (old, old), (old, old), 1, mode), position)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("shape", [(16, 6), (1, 17, 6)])
def test_positions_of_another_grid_are_refused(shape):
    with pytest.raises(ValueError, match=r"do not fit: a 4×4 grid with 1 prefix tokens has \(17, D\)"):
        resize_position_embedding(torch.zeros(shape), (4, 4), (8, 8), 1)


@pytest.mark.usefixtures("unchecked")
def test_whole_numbers_are_interpolated_and_not_cut_off():
    position = torch.arange(2 * 5).view(5, 2)
    moved = resize_position_embedding(position, (2, 2), (3, 3), 1)
    assert torch.equal(moved, resize_position_embedding(position.float(), (2, 2), (3, 3), 1))
    assert moved.dtype == torch.float32


# ---- models


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("pool", ["cls", "mean"])
def test_a_model_takes_images_of_its_new_size(position, pool):
    model, images = small_vit(position=position, pool=pool), torch.randn(2, 3, 12, 20)
    moved = change_resolution(model, (20, 24))
    assert moved(torch.randn(2, 3, 20, 24)).shape == (2, 5)
    assert moved.config.grid == (5, 6)
    with pytest.raises(ValueError, match="built for 20×24 images, got 12×20"):
        moved(images)
    assert torch.equal(change_resolution(model, (12, 20))(images), model(images)), "its own size changes nothing"


@pytest.mark.parametrize("position", ["learned", "sincos", "factorized"])
def test_every_kind_of_position_moves_as_its_table_does(position, tmp_path):
    """Interpolation is linear: rows and columns moved apart, or their sums moved together, come to the same."""
    model = small_vit(position=position)
    moved = change_resolution(model, (20, 24))
    table = model.embeddings.position()
    expected = resize_position_embedding(table, (3, 5), (5, 6), 1)
    torch.testing.assert_close(moved.embeddings.position(), expected)
    again = load_model(save_model(moved, tmp_path / "model.safetensors"))
    assert torch.equal(again.embeddings.position(), moved.embeddings.position()), "a file keeps them"


@torch.no_grad()
def test_transformers_interpolates_as_ours_without_antialias():
    model, images = small_vit(image_size=16).double(), torch.randn(2, 3, 24, 12, dtype=torch.float64)  # 4×4, then 6×3
    theirs = twin(model, "transformers")
    theirs.vit.embeddings.patch_size = 4  # here it takes one number, and no pair
    expected = theirs(images, interpolate_pos_encoding=True).logits
    torch.testing.assert_close(change_resolution(model, (24, 12), antialias=False)(images), expected)
    assert (change_resolution(model, (24, 12))(images) - expected).abs().max() > 1e-3


WAYS = {"resolution": lambda model: change_resolution(model, (20, 24)), "head": lambda model: replace_head(model, 3)}
both_ways = pytest.mark.parametrize("way", WAYS)


@both_ways
def test_old_and_new_share_nothing(way):
    """To train the new one must leave the old one as it was: backbone, positions and all."""
    stem = Backbone(torch.nn.Sequential(torch.nn.Conv2d(3, 6, 4, stride=4), torch.nn.BatchNorm2d(6)), 6, stride=4)
    model = VisionTransformer(ViTConfig(**SMALL), stem)
    own = {tensor.data_ptr() for tensor in model.state_dict().values()}
    assert own.isdisjoint(tensor.data_ptr() for tensor in WAYS[way](model).state_dict().values())


@both_ways
@pytest.mark.parametrize("kind", [Embeddings, type("Own", (Embeddings,), {})])
def test_what_the_old_one_was_the_new_one_is(way, kind):
    """Dtype, what is frozen, which parts are in `eval`; and the reader's random numbers are left alone."""
    model = small_vit().to(torch.bfloat16).train()
    model.embeddings.eval().__class__ = kind
    model.encoder[0].requires_grad_(False).eval()
    model.embeddings.position.requires_grad_(False)
    drawn = torch.get_rng_state()
    new = WAYS[way](model)
    assert torch.equal(torch.get_rng_state(), drawn)
    assert {tensor.dtype for tensor in new.state_dict().values()} == {torch.bfloat16}
    frozen = [name for name, parameter in new.named_parameters() if not parameter.requires_grad]
    blocks = [f"encoder.0.{name}" for name, _ in model.encoder[0].named_parameters()]
    assert frozen == ["embeddings.position.table", *blocks]
    assert [part.training for part in (new, new.embeddings, *new.encoder)] == [True, False, False, True]


@both_ways
def test_the_old_score_is_not_the_new_ones(way):
    model = small_vit()
    model.card = ModelCard(tuple("abcde"), (0.5,) * 3, (0.2,) * 3, {"test accuracy": 0.98})
    card = WAYS[way](model).card
    assert card.about == {"started from": {"test accuracy": 0.98}}
    assert (card.mean, card.std) == (model.card.mean, model.card.std)
    assert card.classes == (model.card.classes if way == "resolution" else ("class 0", "class 1", "class 2"))


def test_a_new_head_finds_every_class_equally_likely():
    model = small_vit(representation_size=7)
    new, images = replace_head(model, 3), torch.randn(2, 3, 12, 20)
    assert torch.equal(new(images), torch.zeros(2, 3))
    assert torch.equal(new.features(images), model.features(images))
    assert (new.config.num_classes, new.config.representation_size) == (3, None)
    assert model(images).shape == (2, 5)
    loss = torch.nn.functional.cross_entropy(new(images), torch.tensor([0, 2]))
    assert loss.item() == pytest.approx(math.log(3))


@pytest.mark.usefixtures("unchecked")
def test_what_cannot_be_is_refused():
    with pytest.raises(ValueError, match=r"22 = 5·4 \+ 2"):
        change_resolution(small_vit(), (20, 22))
    with pytest.raises(ValueError, match="num_classes must be a whole number of at least 0, got -1"):
        replace_head(small_vit(), -1)
    for adapt in WAYS.values():
        with pytest.raises(ValueError, match="takes a VisionTransformer of the package, got Linear"):
            adapt(torch.nn.Linear(2, 2))
