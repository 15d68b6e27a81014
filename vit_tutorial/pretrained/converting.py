"""Convert the weights of another library: all of them, in their places, with equal logits, or raise an error."""

import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from itertools import count

import torch
from torch import Tensor, nn

from ..config import ViTConfig, to_pair
from ..model import VisionTransformer
from ..saving import build_model
from .tensor_names import as_ours, names_of

# LayerScale's vector, and the layer whose outputs it scales, in the names of Meta and timm, and of transformers.
LAYER_SCALE = {"ls1.gamma": "attn.proj", "ls2.gamma": "mlp.fc2"}
LAYER_SCALE |= {"layer_scale1.lambda1": "attention.o_proj", "layer_scale2.lambda1": "mlp.fc2"}
# What published models often have, by the names of their tensors.
MORE_THAN_OURS = {"reg_token": "register tokens (reg_token)", "dist_token": "a distillation token (dist_token)"}


def convert_model(theirs: nn.Module, library: str, read: Callable) -> VisionTransformer:
    """Convert a model of another library, and compare what both answer, with a copy in float64 on the CPU.

    `read(model, tensors)` returns the config's fields that no shape tells, and the tensors as the library's ViT has
    them, by name and shape.
    """
    refusal = f"{type(theirs).__module__}.{type(theirs).__name__} is no Vision Transformer of {library}"
    if not isinstance(theirs, nn.Module):
        raise ValueError(f"{refusal}: the model itself is asked for, with its weights")
    copy = deepcopy(theirs).to("cpu", torch.float64).eval()
    for module in copy.modules():
        if hasattr(module, "set_attn_implementation"):
            module.set_attn_implementation("sdpa")  # the eager attention of transformers rounds to float32
    # The mask token, and the pooler of a ViTModel, make no features.
    tensors = {name: t for name, t in copy.state_dict().items() if not re.search(r"mask_token$|^pooler\.", name)}
    try:
        fields, tensors = read(copy, tensors)
        tensors = fold_layer_scale(tensors)
        # Where layers have several eps, or another activation, the answers differ.
        eps = next((layer.eps for layer in copy.modules() if isinstance(layer, nn.LayerNorm)), 1e-6)
        tanh = any(type(m).__name__ == "GELUTanh" or getattr(m, "approximate", "") == "tanh" for m in copy.modules())
        config = read_config(tensors, library, norm_eps=eps, gelu="tanh" if tanh else "exact", **fields)
    except (AttributeError, KeyError) as error:
        raise ValueError(f"{refusal}: {error}") from None
    ours = convert_tensors(tensors, library, config)
    require_equal_answers(ours, copy, library)
    return ours.to(next(theirs.parameters()))


def fold_layer_scale(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return named weights without LayerScale that compute the same: γ·(W x + b) = (γ·W) x + γ·b.

    Each γ (D,) multiplies the rows of W and the values of b of the linear layer that ends its branch. Raises KeyError
    for a γ without its layer. Source: Touvron et al. 2021 (arXiv 2103.17239), section 2.
    """
    folded = dict(tensors)
    for name, gamma in tensors.items():
        for scale, layer in LAYER_SCALE.items():
            if name.endswith(f".{scale}"):
                weight, bias = (f"{name.removesuffix(scale)}{layer}.{end}" for end in ("weight", "bias"))
                folded[weight], folded[bias] = gamma[:, None] * tensors[weight], gamma * tensors[bias]
                del folded[name]
    return folded


def read_config(tensors: Mapping[str, Tensor], library: str, **fields: object) -> ViTConfig:
    """Return the config that the shapes tell, together with those of its fields that no shape tells."""

    def rows_of(layer: str) -> int:
        return len(tensors.get(names_of(f"{layer}.weight", library)[0], ()))

    (kernel,) = names_of("embeddings.patches.projection.weight", library)
    if kernel not in tensors:
        raise ValueError(f"this model has no {kernel}: VisionTransformer has one linear layer for its patches")
    embed_dim, in_channels, *patch_size = tensors[kernel].shape
    return ViTConfig(
        patch_size=tuple(patch_size),
        in_channels=in_channels,
        num_classes=rows_of("head"),
        embed_dim=embed_dim,
        depth=next(i for i in count() if not rows_of(f"encoder.{i}.norm1")),
        mlp_dim=rows_of("encoder.0.mlp.expand") or 1,  # what is missing is listed when the tensors are loaded
        representation_size=rows_of("head.representation") or None,
        **fields,
    )


def convert_tensors(tensors: Mapping[str, Tensor], library: str, config: ViTConfig) -> VisionTransformer:
    """Build a model with copies of the tensors. ValueError names those without a place, or missing, or misshapen."""
    with torch.device("meta"):  # where nothing is computed
        names = VisionTransformer(config).state_dict()
    found = as_ours(tensors, library, names)
    if unused := [MORE_THAN_OURS.get(name, name) for name in found if name not in names]:
        more = f" and {len(unused) - 3} more" if len(unused) > 3 else ""
        raise ValueError(f"this model has {', '.join(unused[:3])}{more}: VisionTransformer has none")
    return build_model(config, found, None).eval()


@torch.no_grad()
def require_equal_answers(ours: VisionTransformer, theirs: nn.Module, library: str) -> None:
    """Raise ValueError unless both models give a random image the same logits, and without a head the same features.

    In float64 two right models differ by less than a billionth, and by more where an eps is 1e-5 instead of 1e-6.
    """
    generator, size = torch.Generator().manual_seed(0), to_pair(ours.config.image_size)
    images = torch.randn(1, ours.config.in_channels, *size, generator=generator, dtype=torch.float64)

    def answer_of_theirs() -> Tensor:
        output = theirs(images)
        if hasattr(output, "last_hidden_state"):  # what an encoder of transformers returns
            return output.last_hidden_state[:, 0]
        return getattr(output, "logits", output)  # transformers wraps its logits

    logits = ours(images), answer_of_theirs()
    head = names_of("head.weight", library)[0].split(".")[0]
    setattr(theirs, head, nn.Identity())  # now this copy answers with its features, which a head of zeros would hide
    features = ours.features(images), answer_of_theirs()
    for name, (here, there) in {"features": features, "logits": logits}.items():
        difference, scale = (here - there).abs().max().item(), there.abs().max().item()
        if not difference <= 1e-9 * (scale + 1e-6):
            found = f"the {name} differ by {difference:.2g} (they are up to {scale:.2g})"
            why = f"their {type(theirs).__name__} computes something that ours does not"
            raise ValueError(f"every tensor has its place, but {found}: {why}")
