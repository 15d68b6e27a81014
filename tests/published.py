"""The published Vision Transformers that ours is held to, built from our configuration, with random weights or ours."""

from functools import partial

import timm
import torch
import torchvision
import transformers
from torch import Tensor, nn

from vit_tutorial import VisionTransformer, ViTConfig
from vit_tutorial.config import GELUS, to_pair
from vit_tutorial.pretrained.tensor_names import as_theirs

# Our names of the sizes, and those of torchvision, timm and transformers.
SIZES = {
    "image_size": ("image_size", "img_size", "image_size"),
    "patch_size": ("patch_size", "patch_size", "patch_size"),
    "in_channels": ("", "in_chans", "num_channels"),
    "num_classes": ("num_classes", "num_classes", "num_labels"),
    "embed_dim": ("hidden_dim", "embed_dim", "hidden_size"),
    "depth": ("num_layers", "depth", "num_hidden_layers"),
    "num_heads": ("num_heads", "num_heads", "num_attention_heads"),
    "mlp_dim": ("mlp_dim", "", "intermediate_size"),
}


def sizes_of(config: ViTConfig, library: str) -> dict:
    """The config's sizes under the library's names."""
    column = list(BUILD).index(library)
    return {names[column]: getattr(config, ours) for ours, names in SIZES.items() if names[column]}


def build_torchvision(config: ViTConfig, **options) -> nn.Module:
    """Square RGB images only. Its GELU is exact; readers who want another put it there, as this does."""
    norm = partial(nn.LayerNorm, eps=config.norm_eps)
    ours = {"representation_size": config.representation_size, "norm_layer": norm}
    model = torchvision.models.VisionTransformer(**sizes_of(config, "torchvision") | ours | options)
    for layer in model.encoder.layers:
        layer.mlp[1] = nn.GELU(approximate=GELUS[config.gelu])
    return model


def build_timm(config: ViTConfig, **options) -> nn.Module:
    """timm normalises after pooling the mean, unless `fc_norm=False` moves the norm back before it, where ours is."""
    ours = {
        "global_pool": {"cls": "token", "mean": "avg"}[config.pool],
        "fc_norm": False,
        "mlp_ratio": config.mlp_dim / config.embed_dim,
        "norm_layer": partial(timm.layers.LayerNorm, eps=config.norm_eps),
        "act_layer": {"exact": "gelu", "tanh": "gelu_tanh"}[config.gelu],
    }
    return timm.models.vision_transformer.VisionTransformer(**sizes_of(config, "timm") | ours | options)


def build_transformers(config: ViTConfig, family: str = "ViT", **options) -> nn.Module:
    """Other families are named alike. Attention is fused: transformers' eager softmax is never float64."""
    ours = {"layer_norm_eps": config.norm_eps, "attn_implementation": "sdpa"}
    ours |= {"hidden_act": {"exact": "gelu", "tanh": "gelu_pytorch_tanh"}[config.gelu]}
    ours |= {name: to_pair(getattr(config, name)) for name in ("image_size", "patch_size")}
    their_config = getattr(transformers, f"{family}Config")(**sizes_of(config, "transformers") | ours | options)
    return getattr(transformers, f"{family}ForImageClassification")(their_config)


BUILD = {"torchvision": build_torchvision, "timm": build_timm, "transformers": build_transformers}

# The modules whose outputs are the tokens after Eq. 1, after each block, and after the last norm.
TOKENS = {
    "ours": ("embeddings", "encoder.{}", "norm"),
    "torchvision": ("encoder.dropout", "encoder.layers.encoder_layer_{}", "encoder.ln"),
    "timm": ("norm_pre", "blocks.{}", "norm"),
    "transformers": ("vit.embeddings", "vit.layers.{}", "vit.layernorm"),
}


def twin(model: VisionTransformer, library: str) -> nn.Module:
    """The library's Vision Transformer with the configuration and all the weights of ours."""
    peer = BUILD[library](model.config).to(next(model.parameters()))
    peer.load_state_dict(as_theirs(model.state_dict(), library), strict=True)
    return peer.train(model.training)


def logits_of(output) -> Tensor:
    """transformers wraps its logits, or what takes their place in a model without classes; the others return them."""
    return getattr(output, "logits", getattr(output, "pooler_output", output))


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
def randomize(model: nn.Module, scale: float = 0.3) -> nn.Module:
    """Every weight random, norms, biases, positions and the head's zeros too; norms stay around 1."""
    generator = torch.Generator().manual_seed(0)
    norms = {f"{name}.weight" for name, module in model.named_modules() if isinstance(module, nn.LayerNorm)}
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        parameter.copy_(noise * scale + (name in norms))
    return model
