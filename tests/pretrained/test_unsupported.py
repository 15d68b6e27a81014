"""What a VisionTransformer cannot be is refused by its name, before anything is loaded."""

from functools import partial

import pytest
import timm
from timm.layers import RmsNorm, SwiGLU, SwiGLUPacked
from timm.models.vision_transformer import ParallelScalingBlock, ResPostBlock
from torch import nn
from torchvision.models.vision_transformer import ConvStemConfig
from transformers import ViTConfig as TransformersConfig
from transformers import ViTModel

from .families import READ, our_vit, timm_by_name, timm_vit, torchvision_vit, transformers_vit


def different_eps():
    model = timm_vit()
    model.blocks[1].norm2.eps = 1e-3
    return model


def headless(model):
    nn.init.zeros_(model.head.weight)
    nn.init.zeros_(model.head.bias)
    return model


def with_layer(name):
    """With one more layer, of that name: other versions of the library build it."""
    model = timm_vit()
    parent, _, last = name.rpartition(".")
    setattr(model.get_submodule(parent), last, nn.Linear(2, 2))
    return model


def changed(part):
    """With a part that does more, which no name shows."""
    model = torchvision_vit()
    model.get_submodule(part).register_forward_hook(lambda module, inputs, output: output * 1.1)
    return model


REFUSED = {
    # What it is: how it is made, and what the message must show.
    "distillation token": (
        lambda: timm_by_name("deit_tiny_distilled_patch16_224"),
        ["a distillation token", "dist_token"],
    ),
    "registers": (lambda: timm_vit(reg_tokens=4), ["register tokens", "reg_token"]),
    "LayerScale": (lambda: timm_vit(init_values=0.1), ["LayerScale", "blocks.0.ls1.gamma"]),
    "SwiGLU": (lambda: timm_vit(mlp_layer=SwiGLU), ["SwiGLU", "blocks.0.mlp.fc1_g.weight"]),
    "SwiGLU, packed": (lambda: timm_vit(mlp_layer=SwiGLUPacked, mlp_ratio=2), ["SwiGLU", "blocks.0.mlp"]),
    "qk-norm": (lambda: timm_vit(qk_norm=True), ["qk-norm", "blocks.0.attn.q_norm.weight"]),
    "qk-norm without weights": (
        lambda: timm_vit(qk_norm=True, norm_layer=partial(nn.LayerNorm, elementwise_affine=False)),
        ["qk-norm", "blocks.0.attn.q_norm"],
    ),
    "norm after pooling": (
        lambda: timm_vit(global_pool="avg", fc_norm=True),
        ["a norm after pooling", "fc_norm.weight"],
    ),
    "attention pooling": (lambda: timm_vit(global_pool="map"), ["attention pooling", "attn_pool.latent"]),
    "patch representation readout": (lambda: timm_vit(global_pool="prr"), ["attention pooling", "attn_pool"]),
    "pooling by maximum": (lambda: timm_vit(global_pool="max"), ["'max'", "global_pool"]),
    "no pooling": (lambda: timm_vit(global_pool=""), ["''", "global_pool"]),
    "class token in the mean": (
        lambda: timm_vit(pool_include_prefix=True, global_pool="avg"),
        ["the class token in its mean", "pool_include_prefix"],
    ),
    "no class token": (lambda: timm_vit(class_token=False, global_pool="avg"), ["no class token", "cls_token"]),
    "norm before the encoder": (lambda: timm_vit(pre_norm=True), ["a norm before the encoder", "norm_pre.weight"]),
    "no norm after it": (lambda: timm_vit(final_norm=False), ["no LayerNorm after the encoder", "norm: Identity"]),
    "norm of the patches": (lambda: timm_vit(embed_norm_layer=nn.LayerNorm), ["a norm of the patches"]),
    "norm of the values": (lambda: timm_vit(scale_attn_norm=True), ["a norm of the mixed values", "attn.norm"]),
    "norm in the MLP": (lambda: timm_vit(scale_mlp_norm=True), ["a norm within the MLP", "mlp.norm"]),
    "another norm": (lambda: timm_vit(norm_layer=RmsNorm), ["RmsNorm", "blocks.0.norm1"]),
    "two eps": (different_eps, ["one eps", "1e-06", "0.001 (blocks.1.norm2)"]),
    "tanh GELU": (lambda: timm_vit(act_layer="gelu_tanh"), ["GELU approximated by tanh", "blocks.0.mlp.act"]),
    "tanh GELU of PyTorch": (
        lambda: timm_vit(act_layer=partial(nn.GELU, approximate="tanh")),
        ["GELU approximated by tanh", "blocks.0.mlp.act"],
    ),
    "quick GELU": (lambda: timm_vit(act_layer="quick_gelu"), ["QuickGELU", "blocks.0.mlp.act"]),
    "ReLU": (lambda: timm_vit(act_layer=nn.ReLU), ["ReLU", "blocks.0.mlp.act"]),
    "patches left out": (lambda: timm_vit(patch_drop_rate=0.5), ["PatchDropout", "patch_drop"]),
    "no head": (lambda: timm_vit(num_classes=0), ["no linear head", "Identity"]),
    "parallel branches": (lambda: timm_vit(block_fn=ParallelScalingBlock), ["ParallelScalingBlock"]),
    "post-norm, under the same names": (
        lambda: timm_vit(block_fn=ResPostBlock),
        ["features differ", "computes something"],
    ),
    "post-norm, with a head of zeros": (lambda: headless(timm_vit(block_fn=ResPostBlock)), ["features differ"]),
    "gated attention": (lambda: with_layer("blocks.0.attn.gate"), ["gated attention", "attn.gate.weight"]),
    "a representation layer": (
        lambda: with_layer("pre_logits"),
        ["a representation layer", "pre_logits.weight"],
    ),
    "relative positions": (lambda: timm.create_model("vit_relpos_small_patch16_224", depth=1), ["relative positions"]),
    "another model": (lambda: timm.create_model("resnet18"), ["BatchNorm2d", "bn1"]),
    "no Vision Transformer": (lambda: nn.Linear(3, 4), ["Linear is no Vision Transformer of timm", "cls_token"]),
    "torchvision: convolutional stem": (
        lambda: torchvision_vit(conv_stem_configs=[ConvStemConfig(8, 3, 2)]),
        ["a convolutional stem", "conv_proj.conv_bn_relu_0"],
    ),
    "torchvision: a model of timm": (timm_vit, ["VisionTransformer is no Vision Transformer of torchvision"]),
    "torchvision: post-norm in its forward": (lambda: changed("encoder.layers.encoder_layer_0"), ["features differ"]),
    "torchvision: a head that does more": (lambda: changed("heads"), ["logits differ"]),
    "transformers: DeiT": (lambda: transformers_vit(family="DeiT"), ["a distillation token", "distillation_token"]),
    "transformers: DINOv2": (lambda: transformers_vit(family="Dinov2"), ["VisionTransformer has none", "mask_token"]),
    "transformers: registers": (
        lambda: transformers_vit(family="Dinov2WithRegisters", num_register_tokens=2),
        ["VisionTransformer has none"],
    ),
    "transformers: tanh GELU": (
        lambda: transformers_vit(hidden_act="gelu_pytorch_tanh"),
        ["tanh", "mlp.activation_fn"],
    ),
    "transformers: GELU of GPT-2": (lambda: transformers_vit(hidden_act="gelu_new"), ["tanh", "mlp.activation_fn"]),
    "transformers: quick GELU": (lambda: transformers_vit(hidden_act="quick_gelu"), ["QuickGELUActivation"]),
    "transformers: no head": (lambda: transformers_vit(num_labels=0), ["no linear head"]),
    "transformers: the encoder alone": (
        lambda: ViTModel(TransformersConfig(hidden_size=32, num_attention_heads=4, num_hidden_layers=1)),
        ["ViTModel is no Vision Transformer of transformers", "classifier"],
    ),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", REFUSED)
def test_what_does_not_fit_is_named(case):
    make, facts = REFUSED[case]
    with pytest.raises(ValueError) as caught:  # noqa: PT011 (the facts follow)
        READ.get(case.partition(":")[0], READ["timm"])(make())
    assert not [fact for fact in facts if fact not in str(caught.value)], str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("read", READ.values())
def test_a_path_or_a_state_dict_is_no_model(read):
    for thing in ("model.pth", our_vit().state_dict()):
        with pytest.raises(ValueError, match=f"{type(thing).__name__} is no Vision Transformer"):
            read(thing)
