"""Small members of the ViT family, as other libraries build them; every weight is random, so that each one counts."""

from functools import partial

import timm
from published import build_timm, build_torchvision, build_transformers, randomize
from torch import nn
from transformers import Dinov2Config, Dinov2Model, ViTModel
from transformers import ViTConfig as TransformersConfig

from vit_tutorial import VisionTransformer, ViTConfig, from_timm, from_torchvision, from_transformers

SMALL = {"image_size": 32, "num_classes": 7, "embed_dim": 32, "depth": 2, "num_heads": 4, "mlp_dim": 64}
READ = {"torchvision": from_torchvision, "timm": from_timm, "transformers": from_transformers}


def random(model: nn.Module) -> nn.Module:
    return randomize(model.double(), scale=0.2)


def our_vit(**options) -> VisionTransformer:
    return random(VisionTransformer(ViTConfig(**SMALL | options))).eval()


def torchvision_vit(image_size=32, patch_size=16, heads=None, **options) -> nn.Module:
    """With `heads` in place of all of its own, as readers replace them."""
    config = ViTConfig(**SMALL | {"image_size": image_size, "patch_size": patch_size})
    model = build_torchvision(config, **options)
    model.heads = heads or model.heads
    return random(model)


def timm_vit(**options) -> nn.Module:
    return random(build_timm(ViTConfig(**SMALL), **options))


def transformers_vit(**options) -> nn.Module:
    return random(build_transformers(ViTConfig(**SMALL), **options))


def transformers_encoder(model, config, **options) -> nn.Module:
    """Without a head. The MLP of DINOv2 is four times as wide as its tokens."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 28, "patch_size": 14}
    return random(model(config(**sizes, **options)))


def timm_by_name(name: str, **options) -> nn.Module:
    """As a reader asks for it, but thin; `pretrained_cfg` is there."""
    return random(timm.create_model(name, **{"embed_dim": 32, "depth": 2, "num_heads": 4} | options))


MAKE = {"torchvision": torchvision_vit, "timm": timm_vit, "transformers": transformers_vit}
FAMILY = {
    "torchvision": torchvision_vit,
    "torchvision, in21k with a representation": partial(torchvision_vit, representation_size=24, num_classes=50),
    "torchvision, heads replaced": partial(torchvision_vit, heads=nn.Linear(32, 5)),
    "torchvision, heads taken off": partial(torchvision_vit, heads=nn.Identity()),
    "timm": timm_vit,
    "timm, mean after the norm": partial(timm_vit, global_pool="avg"),
    "timm, eps 1e-3": partial(timm_vit, norm_layer=partial(nn.LayerNorm, eps=1e-3)),
    "timm, a wide image, 5 channels": partial(timm_vit, img_size=(12, 20), patch_size=(4, 10), in_chans=5),
    "timm, no position for the class token": partial(timm_vit, no_embed_class=True),
    "timm, dropout and drop path": partial(timm_vit, proj_drop_rate=0.3, attn_drop_rate=0.2, drop_path_rate=0.4),
    "timm, tanh GELU": partial(timm_vit, act_layer="gelu_tanh"),
    "timm, no classes": partial(timm_vit, num_classes=0),
    "timm, DINOv2": partial(timm_by_name, "vit_small_patch14_dinov2", img_size=28),
    "timm, DeiT III": partial(timm_by_name, "deit3_small_patch16_224", img_size=32),
    "transformers": transformers_vit,
    "transformers, the encoder alone": partial(transformers_encoder, ViTModel, TransformersConfig),
    "transformers, DINOv2": partial(transformers_encoder, Dinov2Model, Dinov2Config),
    "transformers, a wide image": partial(transformers_vit, image_size=(16, 48)),
    "transformers, tanh GELU": partial(transformers_vit, hidden_act="gelu_pytorch_tanh"),
}
