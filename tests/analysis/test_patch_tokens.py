"""Where the class token looks, the tokens of patches, their principal components, and how positions resemble."""

import pytest
import torch
from published import randomize
from torch.testing import assert_close

from vit_tutorial import VisionTransformer, ViTConfig
from vit_tutorial.analysis import (
    attention_from,
    patch_tokens,
    position_similarity,
    principal_components,
    record_attention,
)

EXACT = {"atol": 1e-12, "rtol": 0}


@pytest.fixture
def model():
    config = ViTConfig((8, 12), 4, num_classes=5, embed_dim=12, depth=3, num_heads=2, mlp_dim=16, dropout=0.3)
    return randomize(VisionTransformer(config).double())


@pytest.fixture
def images():
    return torch.randn(2, 3, 8, 12, dtype=torch.float64)


@torch.no_grad()
def test_the_class_tokens_row_is_that_of_the_whole_map(model, images):
    with record_attention(model.eval()) as maps:
        logits = model(images)
    found = attention_from(model.train(), images, [-1, 0])
    assert found.shape == (2, 2, 2, 2, 3), "(B, blocks, heads, h, w)"
    for place, block in enumerate((2, 0)):
        assert_close(found[:, place], maps[block][:, :, 0, 1:].unflatten(-1, (2, 3)), **EXACT)
    assert model.training, "and everything is as it was"
    assert torch.equal(model.eval()(images), logits) or (model(images) - logits).abs().max() < 1e-12


@pytest.mark.usefixtures("unchecked")
def test_a_block_that_is_not_there_is_refused(model, images):
    for blocks in ([3], [-4], 0):
        with pytest.raises(IndexError, match="blocks are a list of numbers, 0 to 2 or -1 to -3, got"):
            attention_from(model, images, blocks)


def test_patch_tokens_are_those_of_a_model_that_ends_there(model, images):
    tokens = patch_tokens(model.train(), images)
    assert tokens.shape == (4, 2, 2, 3, 12)
    model.eval()
    assert_close(tokens[-1].flatten(1, 2), model.forward_features(images)[:, 1:].detach(), **EXACT)
    assert_close(tokens[0].flatten(1, 2), model.norm(model.embeddings(images))[:, 1:].detach(), **EXACT)
    del model.encoder[2]
    assert_close(tokens[2].flatten(1, 2), model.forward_features(images)[:, 1:].detach(), **EXACT)


def test_components_find_the_axes_along_which_tokens_were_drawn():
    """Three directions of known spread, and little else; the longest tail of each is positive."""
    axes = torch.linalg.qr(torch.randn(12, 3)).Q.T  # (3, D)
    places = torch.randn(20, 30, 3) * torch.tensor([9.0, 5.0, 2.0])
    places[0, 0] = torch.tensor([60.0, 0.0, 0.0])
    places[0, 1] = torch.tensor([0.0, -40.0, 0.0])
    tokens = places @ axes + 7 + 0.01 * torch.randn(20, 30, 12)
    found = principal_components(tokens)
    assert_close(principal_components(tokens.double()).float(), found, atol=1e-4, rtol=0)
    assert found.shape == (20, 30, 3)
    assert found.aminmax() == (0, 1)
    for n, sign in ((0, 1), (1, -1)):
        inside = (found[..., n] > 0) & (found[..., n] < 1)
        assert 0.95 < inside.float().mean() < 0.97, "2 % at either end have the colours of the ends"
        pair = torch.stack([found[..., n][inside], places[..., n][inside]])
        assert sign * torch.corrcoef(pair)[0, 1] > 0.98
    assert_close(principal_components(tokens[3:5], like=tokens), found[3:5], atol=1e-5, rtol=0)


def test_tokens_that_are_all_alike_have_no_colours():
    assert (principal_components(torch.ones(5, 4), count=2) == 0).all()


def similarity(table, h, w):
    unit = torch.nn.functional.normalize(table, dim=-1)
    return (unit @ unit.T).view(h, w, h, w)


def test_position_similarity_is_the_cosine_of_two_patches(model):
    """Of the model's own positions, or of another table of the same grid, such as that of an earlier epoch."""
    own, earlier = model.embeddings.position(), torch.randn(7, 5, dtype=torch.float64)
    for table, found in ((own, position_similarity(model)), (earlier, position_similarity(model, earlier))):
        assert found.shape == (2, 3, 2, 3)
        cosine = torch.nn.functional.cosine_similarity(table[1 + 1 * 3 + 2], table[1 + 0 * 3 + 1], dim=0)
        assert_close(found[1, 2, 0, 1], cosine)
        assert_close(found.reshape(6, 6).diag(), torch.ones(6, dtype=torch.float64))
        assert not found.requires_grad
