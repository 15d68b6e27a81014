"""Small members of the ViT family, as other libraries build them; every weight is random, so that each one counts."""

from functools import partial

import numpy as np
import timm
import torch
import transformers
from published import randomize
from timm.models.vision_transformer import VisionTransformer as TimmVisionTransformer
from torch import Tensor, nn
from torchvision.models import VisionTransformer as TorchvisionVisionTransformer

from vit_tutorial import VisionTransformer, ViTConfig
from vit_tutorial.pretrained.tensor_names import as_theirs

TINY = {"img_size": 32, "patch_size": 16, "num_classes": 7, "embed_dim": 32, "depth": 2, "num_heads": 4}
NORM_FIRST = {"global_pool": "avg", "fc_norm": False}


def random(model: nn.Module) -> nn.Module:
    return randomize(model.double(), scale=0.2)


def timm_vit(**options) -> nn.Module:
    return random(TimmVisionTransformer(**(TINY | options)))


def torchvision_vit(image_size=32, patch_size=16, eps=1e-6, **options) -> nn.Module:
    options = {"num_layers": 2, "num_heads": 4, "hidden_dim": 32, "mlp_dim": 64, "num_classes": 7} | options
    norm = partial(nn.LayerNorm, eps=eps)
    return random(TorchvisionVisionTransformer(image_size, patch_size, norm_layer=norm, **options))


SMALL = {"image_size": 32, "patch_size": 16, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
SMALL |= {"intermediate_size": 64, "num_labels": 7}


def transformers_vit(family: str = "ViT", **options) -> nn.Module:
    """ViT, DeiT, Dinov2, ...: named alike in transformers. Its eager softmax is never float64, its fused one is."""
    config = getattr(transformers, f"{family}Config")(**(SMALL | options), attn_implementation="sdpa")
    return random(getattr(transformers, f"{family}ForImageClassification")(config))


def timm_by_name(name: str, **options) -> nn.Module:
    """As a reader asks for it, but thin; `pretrained_cfg` is there."""
    return random(timm.create_model(name, **({"embed_dim": 32, "depth": 2, "num_heads": 4} | options)))


FAMILY = {
    "torchvision": lambda: torchvision_vit(),
    "torchvision, in21k with a representation": lambda: torchvision_vit(representation_size=24, num_classes=50),
    "torchvision, 384 pixels": lambda: torchvision_vit(384, 32),
    "torchvision, eps 1e-5": lambda: torchvision_vit(eps=1e-5),
    "timm": lambda: timm_vit(),
    "timm, in21k": lambda: timm_vit(num_classes=50),
    "timm, mean after the norm": lambda: timm_vit(**NORM_FIRST),
    "timm, eps 1e-3": lambda: timm_vit(norm_layer=partial(nn.LayerNorm, eps=1e-3)),
    "timm, a wide image, 5 channels": lambda: timm_vit(img_size=(12, 20), patch_size=(4, 10), in_chans=5),
    "timm, no position for the class token": lambda: timm_vit(no_embed_class=True),
    "timm, no positions": lambda: timm_vit(pos_embed="none"),
    "timm, no bias for q, k and v": lambda: timm_vit(qkv_bias=False),
    "timm, any image size": lambda: timm_vit(dynamic_img_size=True),
    "timm, dropout and drop path": lambda: timm_vit(proj_drop_rate=0.3, attn_drop_rate=0.2, drop_path_rate=0.4),
    "timm, vit_tiny_patch16_384": lambda: timm_by_name("vit_tiny_patch16_384"),
    "timm, vit_base_patch32_224": lambda: timm_by_name("vit_base_patch32_224"),
    "timm, vit_huge_patch14_224": lambda: timm_by_name("vit_huge_patch14_224", img_size=56, num_classes=7),
    "timm, DeiT without distillation": lambda: timm_by_name("deit_small_patch16_224"),
    "transformers": lambda: transformers_vit(),
    "transformers, in21k": lambda: transformers_vit(num_labels=50),
    "transformers, 384 pixels": lambda: transformers_vit(image_size=384),
    "transformers, eps 1e-6": lambda: transformers_vit(layer_norm_eps=1e-6),
    "transformers, a wide image": lambda: transformers_vit(image_size=(16, 48)),
    "transformers, no bias for q, k and v": lambda: transformers_vit(qkv_bias=False),
}


def our_vit(**options) -> VisionTransformer:
    sizes = {"image_size": 32, "num_classes": 7, "embed_dim": 32, "depth": 2, "num_heads": 4, "mlp_dim": 64}
    return random(VisionTransformer(ViTConfig(**(sizes | options)))).eval()


def google_arrays(model: VisionTransformer) -> dict[str, np.ndarray]:
    """What the authors' file would hold. The tests do not trust these names: they compute with them, as JAX does."""
    tensors = as_theirs(model.state_dict(), "google", model.config.num_heads)
    return {name: tensor.contiguous().numpy() for name, tensor in tensors.items()}


def run_google(arrays: dict[str, np.ndarray], images: Tensor) -> Tensor:
    """The authors' model, written down once more with einsum from the names and axes of their file."""
    p = {name: torch.from_numpy(array) for name, array in arrays.items()}

    def norm(x, name):
        x = (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + 1e-6).sqrt()
        return x * p[f"{name}/scale"] + p[f"{name}/bias"]

    def dense(x, name):
        return torch.einsum("...i,io->...o", x, p[f"{name}/kernel"]) + p[f"{name}/bias"]

    side = p["embedding/kernel"].shape[0]
    pixels = images.permute(0, 2, 3, 1).unfold(1, side, side).unfold(2, side, side)  # (B, h, w, C, P, P)
    x = torch.einsum("bhwcpq,pqcd->bhwd", pixels, p["embedding/kernel"]).flatten(1, 2) + p["embedding/bias"]
    x = torch.cat([p["cls"].expand(len(x), -1, -1), x], dim=1) + p["Transformer/posembed_input/pos_embedding"]
    for layer in range(sum(name.endswith("LayerNorm_0/scale") for name in p)):
        block = f"Transformer/encoderblock_{layer}"
        attention, y = f"{block}/MultiHeadDotProductAttention_1", norm(x, f"{block}/LayerNorm_0")
        q, k, v = (
            torch.einsum("btd,dhe->bthe", y, p[f"{attention}/{name}/kernel"]) + p[f"{attention}/{name}/bias"]
            for name in ("query", "key", "value")
        )
        weights = torch.einsum("bqhe,bkhe->bhqk", q, k).div(q.shape[-1] ** 0.5).softmax(-1)
        mixed = torch.einsum("bhqk,bkhe->bqhe", weights, v)
        x = x + torch.einsum("bthe,hed->btd", mixed, p[f"{attention}/out/kernel"]) + p[f"{attention}/out/bias"]
        y = dense(norm(x, f"{block}/LayerNorm_2"), f"{block}/MlpBlock_3/Dense_0")
        x = x + dense(nn.functional.gelu(y), f"{block}/MlpBlock_3/Dense_1")
    y = norm(x, "Transformer/encoder_norm")[:, 0]
    y = dense(y, "pre_logits").tanh() if "pre_logits/kernel" in p else y
    return dense(y, "head")
