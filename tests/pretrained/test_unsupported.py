"""What a VisionTransformer cannot be is refused by its name, before anything is loaded."""

from functools import partial

import pytest
import timm
from timm.layers import SwiGLU
from timm.models.vision_transformer import ParallelScalingBlock, ResPostBlock
from torch import nn
from torchvision.models.vision_transformer import ConvStemConfig
from transformers import SiglipConfig, SiglipForImageClassification, ViTModel
from transformers import ViTConfig as TransformersConfig

from vit_tutorial.pretrained import timm_models

from .families import READ, our_vit, timm_by_name, timm_vit, torchvision_vit, transformers_vit

MEAN = {"global_pool": "avg"}
DISTILLED = "a distillation token"
LAYER = nn.Linear(2, 2)  # one more, which other versions of the library build


def changed(part, name, value, make=timm_vit):
    """With another value of a part's attribute; a part of "" is the model."""
    model = make()
    setattr(model.get_submodule(part), name, value)
    return model


def wrapped():
    """As a trainer of one's own holds it."""
    model = nn.Module()
    model.net = timm_vit()
    return model


def siglip():
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 64}
    return SiglipForImageClassification(SiglipConfig(vision_config=sizes | {"image_size": 32}))


def doing_more():
    """With a head that does more, which no name shows."""
    model = torchvision_vit()
    model.heads.register_forward_hook(lambda module, inputs, output: output * 1.1)
    return model


# How it is made (options of timm's class, or a function), and what the message must show.
REFUSED = {
    "registers": ({"reg_tokens": 4}, "register tokens", "reg_token"),
    "SwiGLU": ({"mlp_layer": SwiGLU}, "SwiGLU", "blocks.0.mlp.fc1_g.weight"),
    "qk-norm": ({"qk_norm": True}, "qk-norm", "blocks.0.attn.q_norm.weight"),
    "norm after pooling": ({"global_pool": "avg", "fc_norm": True}, "a norm after pooling", "fc_norm.weight"),
    "attention pooling": ({"global_pool": "map"}, "attention pooling", "attn_pool.latent"),
    "pooling by maximum": ({"global_pool": "max"}, "'max'", "global_pool"),
    "no class token": (MEAN | {"class_token": False}, "missing: cls_token"),
    "norm before the encoder": ({"pre_norm": True}, "not expected: norm_pre.weight"),
    "two eps": (partial(changed, "blocks.1.norm2", "eps", 1e-3), "features differ"),
    "ReLU": ({"act_layer": nn.ReLU}, "a GELU in every MLP, and this model has none"),
    "in a wrapper": (wrapped, "Module is no Vision Transformer of timm: it has no head, global_pool"),
    "ours": (our_vit, "vit_tutorial.model.VisionTransformer is no Vision Transformer of timm"),
    "parallel branches": ({"block_fn": ParallelScalingBlock}, "parallel branches", "blocks.0.attn_out_proj.weight"),
    "post-norm, under the same names": ({"block_fn": ResPostBlock}, "features differ", "computes something"),
    "gated attention": (partial(changed, "blocks.0.attn", "gate", LAYER), "not expected: blocks.0.attn.gate.weight"),
    "distillation token": (partial(timm_by_name, "deit_tiny_distilled_patch16_224"), DISTILLED, "dist_token"),
    "relative positions": (partial(timm.create_model, "vit_relpos_small_patch16_224", depth=1), "fc_norm.weight"),
    "another model": (partial(timm.create_model, "resnet18"), "ResNet is no Vision Transformer of timm"),
    "an MLP-Mixer, whose layers have names that ours have": (
        partial(timm.models.mlp_mixer.MlpMixer, img_size=32, num_blocks=1, embed_dim=8),
        "MlpMixer is no Vision Transformer of timm: it has no patch_embed, pos_embed",
    ),
    "torchvision: convolutional stem": (
        partial(torchvision_vit, conv_stem_configs=[ConvStemConfig(8, 3, 2)]),
        "a convolutional stem (conv_proj.conv_bn_relu_0",
    ),
    "torchvision: a model of timm": (timm_vit, "is no Vision Transformer of torchvision: it has no heads"),
    "torchvision: a head of several layers": (
        partial(changed, "", "heads", nn.Sequential(nn.Dropout(), nn.Linear(32, 5)), torchvision_vit),
        "the head of this model, `heads`, is Sequential",
    ),
    "torchvision: a head that does more": (doing_more, "logits differ"),
    "transformers: DeiT": (partial(transformers_vit, family="DeiT"), DISTILLED, "distillation_token"),
    "transformers: DINOv2 with a head": (
        partial(transformers_vit, family="Dinov2"),
        "convert its encoder, `model.dinov2`",
    ),
    "transformers: BEiT": (partial(transformers_vit, family="Beit"), "not the weights of a Vision Transformer"),
    "transformers: SigLIP": (siglip, "positions in an embedding layer", "position_embedding"),
    "transformers: quick GELU": (partial(transformers_vit, hidden_act="quick_gelu"), "a GELU in every MLP"),
    "transformers: the encoder alone": (
        lambda: ViTModel(TransformersConfig(hidden_size=32, num_attention_heads=4, num_hidden_layers=1)),
        "ViTModel is no Vision Transformer of transformers",
        "classifier",
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_named(case):
    make, *facts = REFUSED[case]
    model = timm_vit(**make) if isinstance(make, dict) else make()
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the facts follow)
        READ.get(case.partition(":")[0], READ["timm"])(model)
    assert not [fact for fact in facts if fact not in str(caught.value)], str(caught.value)
    assert caught.value.__cause__ is None


def test_a_bug_of_ours_is_not_told_as_one_of_the_model(monkeypatch):
    monkeypatch.setattr(timm_models, "timm_facts", lambda model: model.no_such)
    with pytest.raises(AttributeError, match="no_such"):
        READ["timm"](timm_vit())


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("read", READ.values())
def test_a_path_or_a_state_dict_is_no_model(read):
    for thing in ("model.pth", our_vit().state_dict(), nn.Linear, None):
        told = f"{type(thing).__name__} is no Vision Transformer of .*the model itself is asked for"
        with pytest.raises(ValueError, match=told):
            read(thing)
