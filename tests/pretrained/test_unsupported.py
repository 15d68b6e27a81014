"""What a VisionTransformer cannot be is refused: by its name, by its tensors, or because the answers differ."""

from functools import partial

import pytest
import timm
from timm.layers import GluMlp, SwiGLU
from timm.models.vision_transformer import ResPostBlock
from torch import nn
from torchvision.models.vision_transformer import ConvStemConfig
from transformers import Dinov2WithRegistersConfig, Dinov2WithRegistersModel

from .families import READ, our_vit, timm_by_name, timm_vit, torchvision_vit, transformers_encoder, transformers_vit


def changed(part, name, value, make=timm_vit):
    """With another value of a part's attribute; a part of "" is the model."""
    model = make()
    setattr(model.get_submodule(part), name, value)
    return model


def doing_more():
    """With a head that does more, which no name shows."""
    model = torchvision_vit()
    model.heads.register_forward_hook(lambda module, inputs, output: output * 1.1)
    return model


STEM, REGISTERS = [ConvStemConfig(8, 3, 2)], (Dinov2WithRegistersModel, Dinov2WithRegistersConfig)
# How it is made (options of timm's class, or a function), and what the message must show.
REFUSED = {
    "registers": ({"reg_tokens": 4}, "this model has register tokens (reg_token): VisionTransformer has none"),
    "SwiGLU": ({"mlp_layer": SwiGLU}, "this model has blocks.0.mlp.fc1_g.weight"),
    "norm before the encoder": ({"pre_norm": True}, "this model has norm_pre.weight"),
    "distillation token": (
        partial(timm_by_name, "deit_tiny_distilled_patch16_224"),
        "a distillation token (dist_token)",
    ),
    "norm after pooling": ({"global_pool": "avg", "fc_norm": True}, "this model has fc_norm.weight, fc_norm.bias"),
    "pooling by maximum": ({"global_pool": "max"}, "'max'", "global_pool"),
    "no class token": ({"global_pool": "avg", "class_token": False}, "Missing key(s)", '"embeddings.class_token"'),
    "GluMlp": ({"mlp_layer": GluMlp}, "size mismatch for encoder.0.mlp.contract.weight"),
    "no bias for q, k and v": ({"qkv_bias": False}, 'Missing key(s) in state_dict: "encoder.0.attention.qkv.bias"'),
    "two eps": (partial(changed, "blocks.1.norm2", "eps", 1e-3), "features differ"),
    "ReLU": ({"act_layer": nn.ReLU}, "features differ", "computes something that ours does not"),
    "ours": (our_vit, "vit_tutorial.model.VisionTransformer is no Vision Transformer of timm"),
    "post-norm, under the same names": ({"block_fn": ResPostBlock}, "features differ", "computes something"),
    "relative positions": (
        partial(timm.create_model, "vit_relpos_small_patch16_224", depth=1),
        "is no Vision Transformer of timm",
    ),
    "torchvision: a stem": (
        partial(torchvision_vit, conv_stem_configs=STEM),
        "VisionTransformer has one linear layer for its patches",
    ),
    "torchvision: a head of several layers": (
        partial(changed, "", "heads", nn.Sequential(nn.Dropout(), nn.Linear(32, 5)), torchvision_vit),
        "heads.1.weight",
    ),
    "torchvision: a head that does more": (doing_more, "logits differ"),
    "transformers: BEiT": (
        partial(transformers_vit, family="Beit"),
        "VisionTransformer has one linear layer for its patches",
    ),
    "transformers: quick GELU": (partial(transformers_vit, hidden_act="quick_gelu"), "features differ"),
    "transformers: registers": (partial(transformers_encoder, *REGISTERS), "has vit.embeddings.register_tokens"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_named(case):
    make, *facts = REFUSED[case]
    model = timm_vit(**make) if isinstance(make, dict) else make()
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the facts follow)
        READ.get(case.partition(":")[0], READ["timm"])(model)
    assert not [fact for fact in facts if fact not in str(caught.value)], str(caught.value)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("read", READ.values())
def test_a_path_or_a_state_dict_is_no_model(read):
    for thing in ("model.pth", our_vit().state_dict()):
        told = f"{type(thing).__name__} is no Vision Transformer of .*the model itself is asked for"
        with pytest.raises(ValueError, match=told):
            read(thing)
