"""A model of another library is told what makes it one of ours, by every function that takes a model."""

import pytest
import timm
import torch
import torchvision
from torch import nn
from transformers import ViTConfig, ViTModel

from vit_tutorial import change_resolution, play
from vit_tutorial.analysis import (
    attention_from,
    class_attention,
    cost_by_part,
    mask_heads,
    occlusion,
    patch_tokens,
    position_similarity,
    readout,
    record_attention,
)
from vit_tutorial.experiments import answers

IMAGES = torch.zeros(1, 3, 32, 32)
TAKE_A_MODEL = {
    "answers": lambda model: answers(model, IMAGES),
    "attention_from": lambda model: attention_from(model, IMAGES, [0]),
    "change_resolution": lambda model: change_resolution(model, 64),
    "class_attention": lambda model: class_attention(model, IMAGES, [0]),
    "cost_by_part": lambda model: cost_by_part(model, IMAGES),
    "mask_heads": lambda model: mask_heads(model, {0: 0}).__enter__(),
    "occlusion": lambda model: occlusion(model, IMAGES),
    "patch_tokens": lambda model: patch_tokens(model, IMAGES),
    "play": play,
    "position_similarity": position_similarity,
    "readout": lambda model: readout(model, IMAGES),
    "record_attention": lambda model: record_attention(model).__enter__(),
}
SIZES = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}


class OwnVariant(timm.models.VisionTransformer):
    """As a reader builds on a library's class."""


OTHERS = {
    "a OwnVariant of timm: `from_timm(model)` converts it": OwnVariant(img_size=32, embed_dim=8, depth=1, num_heads=2),
    "a ViTModel of transformers: `from_transformers(model)` converts it": ViTModel(ViTConfig(**SIZES)),
    "a VisionTransformer of torchvision: `from_torchvision(model)` converts it": torchvision.models.VisionTransformer(
        32, 16, 1, 2, 8, 8
    ),
    "Linear": nn.Linear(2, 2),
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("take", TAKE_A_MODEL.values(), ids=TAKE_A_MODEL)
def test_the_library_is_named_and_what_converts_its_model(take):
    for told, model in OTHERS.items():
        with pytest.raises(ValueError, match=r"of (the|this) package") as caught:
            take(model)
        assert told in str(caught.value)
