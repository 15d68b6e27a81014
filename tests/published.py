"""The published Vision Transformers that ours is held to: built from our configuration, with our weights copied in."""

from __future__ import annotations

import re
from functools import partial

import timm
import torch
import torchvision
import transformers
from torch import Tensor, nn

from vit_tutorial import VisionTransformer, ViTConfig
from vit_tutorial.config import to_pair


def build_torchvision(config: ViTConfig) -> nn.Module:
    """Square RGB images only."""
    return torchvision.models.VisionTransformer(
        image_size=config.image_size,
        patch_size=config.patch_size,
        num_layers=config.depth,
        num_heads=config.num_heads,
        hidden_dim=config.embed_dim,
        mlp_dim=config.mlp_dim,
        num_classes=config.num_classes,
        representation_size=config.representation_size,
        norm_layer=partial(nn.LayerNorm, eps=config.norm_eps),
    )


def build_timm(config: ViTConfig) -> nn.Module:
    """timm normalises after pooling the mean, unless `fc_norm=False` moves the norm back before it, where ours is."""
    return timm.models.vision_transformer.VisionTransformer(
        img_size=config.image_size,
        patch_size=config.patch_size,
        in_chans=config.in_channels,
        num_classes=config.num_classes,
        global_pool={"cls": "token", "mean": "avg"}[config.pool],
        fc_norm=False,
        embed_dim=config.embed_dim,
        depth=config.depth,
        num_heads=config.num_heads,
        mlp_ratio=config.mlp_dim / config.embed_dim,
        norm_layer=partial(timm.layers.LayerNorm, eps=config.norm_eps),
    )


def build_transformers(config: ViTConfig) -> nn.Module:
    """With fused attention, since transformers' eager softmax is float32 whatever the weights are."""
    return transformers.ViTForImageClassification(
        transformers.ViTConfig(
            image_size=to_pair(config.image_size),
            patch_size=to_pair(config.patch_size),
            num_channels=config.in_channels,
            num_labels=config.num_classes,
            hidden_size=config.embed_dim,
            num_hidden_layers=config.depth,
            num_attention_heads=config.num_heads,
            intermediate_size=config.mlp_dim,
            layer_norm_eps=config.norm_eps,
            attn_implementation="sdpa",
        )
    )


BUILD = {"torchvision": build_torchvision, "timm": build_timm, "transformers": build_transformers}

# Our names, and what each library calls the same thing. Patterns are tried from top to bottom.
NAMES = {
    "torchvision": {
        r"embeddings\.patches\.projection": "conv_proj",
        r"embeddings\.class_token": "class_token",
        r"embeddings\.position\.table": "encoder.pos_embedding",
        r"encoder\.(\d+)\.attention\.qkv\.": r"encoder.layers.encoder_layer_\1.self_attention.in_proj_",
        r"encoder\.(\d+)\.attention\.projection": r"encoder.layers.encoder_layer_\1.self_attention.out_proj",
        r"encoder\.(\d+)\.norm": r"encoder.layers.encoder_layer_\1.ln_",
        r"encoder\.(\d+)\.mlp\.expand": r"encoder.layers.encoder_layer_\1.mlp.0",
        r"encoder\.(\d+)\.mlp\.contract": r"encoder.layers.encoder_layer_\1.mlp.3",
        r"^norm": "encoder.ln",
        r"head\.representation": "heads.pre_logits",
        r"head\.classifier": "heads.head",
        r"^head\.(weight|bias)": r"heads.head.\1",
    },
    "timm": {
        r"embeddings\.patches\.projection": "patch_embed.proj",
        r"embeddings\.class_token": "cls_token",
        r"embeddings\.position\.table": "pos_embed",
        r"encoder\.(\d+)\.attention\.projection": r"blocks.\1.attn.proj",
        r"encoder\.(\d+)\.attention\.qkv": r"blocks.\1.attn.qkv",
        r"encoder\.(\d+)\.mlp\.expand": r"blocks.\1.mlp.fc1",
        r"encoder\.(\d+)\.mlp\.contract": r"blocks.\1.mlp.fc2",
        r"encoder\.(\d+)\.norm": r"blocks.\1.norm",
    },
    "transformers": {
        r"embeddings\.patches\.projection": "vit.embeddings.patch_embeddings.projection",
        r"embeddings\.class_token": "vit.embeddings.cls_token",
        r"embeddings\.position\.table": "vit.embeddings.position_embeddings",
        r"encoder\.(\d+)\.attention\.projection": r"vit.layers.\1.attention.o_proj",
        r"encoder\.(\d+)\.attention\.([qkv])\.": r"vit.layers.\1.attention.\2_proj.",
        r"encoder\.(\d+)\.mlp\.expand": r"vit.layers.\1.mlp.fc1",
        r"encoder\.(\d+)\.mlp\.contract": r"vit.layers.\1.mlp.fc2",
        r"encoder\.(\d+)\.norm1": r"vit.layers.\1.layernorm_before",
        r"encoder\.(\d+)\.norm2": r"vit.layers.\1.layernorm_after",
        r"^norm": "vit.layernorm",
        r"^head": "classifier",
    },
}

# The modules whose outputs are the tokens after Eq. 1, after each block, and after the last norm.
TOKENS = {
    "ours": ("embeddings", "encoder.{}", "norm"),
    "torchvision": ("encoder.dropout", "encoder.layers.encoder_layer_{}", "encoder.ln"),
    "timm": ("norm_pre", "blocks.{}", "norm"),
    "transformers": ("vit.embeddings", "vit.layers.{}", "vit.layernorm"),
}


def translate(tensors: dict[str, Tensor], library: str) -> dict[str, Tensor]:
    """Our weights, or our gradients, under the names and in the shapes of another library."""
    if library == "transformers":  # queries, keys and values have a layer each
        tensors = {part: value for name, whole in tensors.items() for part, value in split_qkv(name, whole).items()}
    return {rename(name, library): as_published(name, tensor) for name, tensor in tensors.items()}


def split_qkv(name: str, whole: Tensor) -> dict[str, Tensor]:
    if ".qkv." not in name:
        return {name: whole}
    return {name.replace(".qkv.", f".{part}."): tensor for part, tensor in zip("qkv", whole.chunk(3), strict=True)}


def rename(name: str, library: str) -> str:
    for pattern, replacement in NAMES[library].items():
        name, found = re.subn(pattern, replacement, name)
        if found:
            break
    return name


def as_published(name: str, tensor: Tensor) -> Tensor:
    """Positions have a batch dimension of 1 in all three."""
    return tensor[None] if name == "embeddings.position.table" else tensor


def twin(model: VisionTransformer, library: str) -> nn.Module:
    """The library's Vision Transformer with the configuration and all the weights of ours."""
    peer = BUILD[library](model.config).to(next(model.parameters()))
    peer.load_state_dict(translate(model.state_dict(), library), strict=True)
    return peer.train(model.training)


def logits_of(output) -> Tensor:
    """transformers wraps its logits; the others return them."""
    return getattr(output, "logits", output)


def run(model: nn.Module, library: str, images: Tensor, depth: int) -> tuple[Tensor, list[Tensor]]:
    """Logits, and the tokens after Eq. 1, after each of `depth` blocks and after the last norm."""
    first, block, last = TOKENS[library]
    tokens = []
    handles = [
        model.get_submodule(name).register_forward_hook(lambda module, inputs, output: tokens.append(output))
        for name in (first, *map(block.format, range(depth)), last)
    ]
    logits = logits_of(model(images))
    for handle in handles:
        handle.remove()
    return logits, tokens


@torch.no_grad()
def randomize(model: nn.Module, seed: int = 0, scale: float = 0.3) -> nn.Module:
    """Every weight random, norms, biases, positions and the head's zeros too; norms stay around 1."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        is_norm_weight = "norm" in name and name.endswith("weight")
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        parameter.copy_(noise * scale + is_norm_weight)
    return model
