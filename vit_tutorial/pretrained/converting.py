"""Convert the weights of another library: all of them, in their places, with equal logits, or raise an error."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import reduce

import torch
from torch import Tensor, nn
from torch.func import functional_call

from ..config import ViTConfig, to_pair
from ..inference import eval_mode
from ..model import VisionTransformer
from ..model_card import PREPROCESSING, ModelCard
from ..saving import require_finite_tensors
from .tensor_names import as_ours, as_theirs, column, names_of
from .unsupported import require_known_parts

# What a Vision Transformer of each library has; its head comes first.
REQUIRED = {
    "torchvision": ("heads", "image_size", "encoder"),
    "timm": ("head", "global_pool", "patch_embed", "blocks", "pos_embed"),
    "transformers": ("classifier", "config"),
}
# Layers that compute a GELU, and which one; PyTorch's own says so itself.
GELU_LAYERS = {"GELU": "exact", "GELUActivation": "exact", "GELUTanh": "tanh"}
GELU_LAYERS |= dict.fromkeys(("NewGELUActivation", "FastGELUActivation", "AccurateGELUActivation"), "tanh")
# LayerScale's vector, and the layer of its block that computes what it scales, in the names of Meta and timm, and of
# transformers. It has no place in our class, and needs none.
LAYER_SCALE = {
    "ls1.gamma": "attn.proj",
    "ls2.gamma": "mlp.fc2",
    "layer_scale1.lambda1": "attention.o_proj",
    "layer_scale2.lambda1": "mlp.fc2",
}


def convert_model(
    theirs: nn.Module,
    library: str,
    read_facts: Callable[[nn.Module], dict],
    change: Callable[[dict[str, Tensor]], dict[str, Tensor]] = lambda tensors: tensors,
) -> VisionTransformer:
    """Convert a model of another library, and compare what both answer.

    `read_facts` returns the fields of the config that no shape tells; `change` brings their tensors to the names and
    shapes of the library's Vision Transformer. All is done in float64 on the CPU, so that nothing is rounded before it
    is compared.
    """
    require_kind(theirs, library)
    head_name = REQUIRED[library][0]
    head = getattr(theirs, head_name)
    if not isinstance(last := getattr(head, "head", head), (nn.Linear, nn.Identity)):
        found = f"the head of this model, `{head_name}`, is {type(last).__name__}"
        raise ValueError(f"{found}, and ours is one linear layer: put such a layer in its place first")
    facts = read_facts(theirs)
    tensors = change(all_weights(theirs))
    dtype, device = dtype_of(tensors), next(iter(tensors.values())).device
    tensors = fold_layer_scale({name: tensor.to("cpu", torch.float64) for name, tensor in tensors.items()})
    facts |= {"norm_eps": norm_eps(theirs), "gelu": gelu_form(theirs)}
    ours = convert_tensors(tensors, library, read_config(tensors, library, **facts))
    del tensors  # twice as large as theirs
    require_equal_answers(ours, theirs, head)
    if ours.config.num_classes and not getattr(ours.head, "classifier", ours.head).weight.any():
        warnings.warn("the head is all zeros: all images get the same logits until it is trained", stacklevel=3)
    return ours.to(device, dtype)


def require_kind(theirs: object, library: str) -> None:
    """Raise ValueError for what is no model, for a model of another library, and for parts that it has or lacks."""
    kind = f"{type(theirs).__module__}.{type(theirs).__name__} is no Vision Transformer of {library}"
    if not isinstance(theirs, nn.Module):
        raise ValueError(f"{kind}: the model itself is asked for, with its weights")
    require_known_parts(theirs)
    if missing := [part for part in REQUIRED[library] if not hasattr(theirs, part)]:
        raise ValueError(f"{kind}: it has no {', '.join(missing)}")


def all_weights(model: nn.Module) -> dict[str, Tensor]:
    """Return all weights of a model; a layer without a bias gets one of zeros, which changes nothing.

    A head that was put in place of torchvision's `heads` gets the name of the one inside. The token that stands for
    what is hidden in pre-training is left out.
    """
    tensors = dict(model.state_dict())
    for name, module in model.named_modules():
        if isinstance(module, (nn.Linear, nn.Conv2d)) and module.bias is None:
            tensors[f"{name}.bias"] = module.weight.new_zeros(len(module.weight))
    tensors = {name: tensor for name, tensor in tensors.items() if not name.endswith("mask_token")}
    return {re.sub(r"^heads\.(weight|bias)$", r"heads.head.\1", name): tensor for name, tensor in tensors.items()}


def fold_layer_scale(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return named weights without LayerScale that compute the same: γ·(W x + b) = (γ·W) x + γ·b.

    Each γ (D,) multiplies the rows of W and the values of b of the linear layer that ends its branch. Names are those
    of timm, which are Meta's own, or of transformers; tensors without a γ stay as they are. Raises KeyError for a γ
    without its layer. Source: Touvron et al. 2021 (arXiv 2103.17239), section 2.
    """
    folded = dict(tensors)
    for name, gamma in tensors.items():
        for scale, layer in LAYER_SCALE.items():
            if name.endswith(f".{scale}"):
                weight, bias = (f"{name.removesuffix(scale)}{layer}.{end}" for end in ("weight", "bias"))
                folded[weight], folded[bias] = gamma[:, None] * tensors[weight], gamma * tensors[bias]
                del folded[name]
    return folded


def norm_eps(model: nn.Module) -> float:
    """Return the eps of the first LayerNorm. If another one has another eps, the answers differ."""
    return next((module.eps for module in model.modules() if isinstance(module, nn.LayerNorm)), 1e-6)


def gelu_form(model: nn.Module) -> str:
    """Return which GELU the first MLP computes, "exact" or "tanh". Raises ValueError if no MLP computes one."""
    for module in model.modules():
        if (kind := type(module).__name__) in GELU_LAYERS:
            return "tanh" if getattr(module, "approximate", "none") == "tanh" else GELU_LAYERS[kind]
    raise ValueError("VisionTransformer has a GELU in every MLP, and this model has none")


def read_config(tensors: Mapping[str, Tensor], library: str, **facts: object) -> ViTConfig:
    """Return the config that the shapes tell, together with `facts`, its fields that no shape tells.

    Raises ValueError if a tensor that tells a size is missing, and for sizes that cannot be.
    """

    def shape_of(ours: str) -> torch.Size:
        (name,) = names_of(ours, library)
        if name not in tensors:
            raise ValueError(f"{name} is missing: these are not the weights of a Vision Transformer of {library}")
        return tensors[name].shape

    names = column(library)
    number = re.escape(names["encoder.{i}"]).replace(r"\{i\}", r"(\d+)")
    depth = len({found for name in tensors for found in re.findall(number, name)})
    D, C, P, Q = shape_of("embeddings.patches.projection.weight")
    M, _ = shape_of("encoder.0.mlp.expand.weight")
    sizes = {"patch_size": (P, Q), "in_channels": C, "embed_dim": D, "depth": depth, "mlp_dim": M}
    if any(name.startswith(names["head.representation.*"].rstrip("*")) for name in tensors):
        R, _ = shape_of("head.representation.weight")
        K, _ = shape_of("head.classifier.weight")
        return ViTConfig(num_classes=K, representation_size=R, **sizes, **facts)
    (head,) = names_of("head.weight", library)
    K = len(tensors[head]) if head in tensors else 0
    return ViTConfig(num_classes=K, **sizes, **facts)


def convert_tensors(tensors: Mapping[str, Tensor], library: str, config: ViTConfig) -> VisionTransformer:
    """Build a model with copies of the tensors, in their dtype and on their device; ready to predict.

    Raises ValueError that lists every tensor that is missing, not expected or misshapen, or names one with values
    that are not finite.
    """
    with torch.device("meta"):  # takes no memory
        expected = as_theirs(VisionTransformer(config).state_dict(), library)
    require_names_and_shapes(tensors, expected, library)
    dtype = dtype_of(tensors)
    require_finite_tensors(tensors)
    with torch.random.fork_rng(devices=[]):  # these weights are replaced at once
        model = VisionTransformer(config).to(next(iter(tensors.values())).device, dtype)
    model.load_state_dict(as_ours(tensors, library, model.state_dict()))
    return model.eval()


def dtype_of(tensors: Mapping[str, Tensor]) -> torch.dtype:
    return reduce(torch.promote_types, (tensor.dtype for tensor in tensors.values()))


def require_names_and_shapes(tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor], library: str) -> None:
    """Raise ValueError with all that is wrong, unless the names and shapes are exactly the expected ones."""
    wrong = {
        "missing": [name for name in expected if name not in tensors],
        "not expected": [name for name in tensors if name not in expected],
        "misshapen": [
            f"{name} {tuple(tensors[name].shape)} instead of {tuple(tensor.shape)}"
            for name, tensor in expected.items()
            if name in tensors and tensors[name].shape != tensor.shape
        ],
    }
    if any(wrong.values()):
        listed = "".join(f"\n{kind}: {', '.join(names)}" for kind, names in wrong.items() if names)
        raise ValueError(f"these weights do not fill a VisionTransformer in the names of {library}{listed}")


@torch.no_grad()
def require_equal_answers(ours: VisionTransformer, theirs: nn.Module, their_head: nn.Module) -> None:
    """Raise ValueError unless a random image gives both heads the same input, and both models the same logits.

    This finds what no name reveals: a norm after the branch, a changed forward. In float64, where two right models
    differ by less than a billionth of the largest value, and by more where an eps is 1e-5 instead of 1e-6.
    """
    generator, size = torch.Generator().manual_seed(0), to_pair(ours.config.image_size)
    images = torch.randn(1, ours.config.in_channels, *size, generator=generator, dtype=torch.float64)
    pairs = zip(
        features_and_logits(ours, ours.head, images), features_and_logits(theirs, their_head, images), strict=True
    )
    for name, (here, there) in zip(("features", "logits"), pairs, strict=True):
        difference, scale = (here - there).abs().max().item(), there.abs().max().item()
        if not difference <= 1e-9 * (scale + 1e-6):
            raise ValueError(
                f"every tensor has its place, but the {name} differ by {difference:.2g} (they are up to {scale:.2g}): "
                f"their {type(theirs).__name__} computes something that ours does not"
            )


def features_and_logits(model: nn.Module, head: nn.Module, images: Tensor) -> tuple[Tensor, Tensor]:
    """Return what the head gets and the logits, computed on the device of the images and in their dtype.

    The model keeps its own. The eager attention of transformers rounds to float32, so its fused one stands in.
    """
    seen, settings = [], getattr(model, "config", None)
    eager = getattr(settings, "_attn_implementation", None) == "eager"
    weights = {name: tensor.to(images) for name, tensor in (*model.named_parameters(), *model.named_buffers())}
    try:
        if eager:
            settings._attn_implementation = "sdpa"
        with eval_mode(model), head.register_forward_pre_hook(lambda head, inputs: seen.append(inputs[0])):
            logits = functional_call(model, weights, images)
    finally:
        if eager:
            settings._attn_implementation = "eager"
    return seen[0], getattr(logits, "logits", logits)  # transformers wraps its logits


def with_card(
    model: VisionTransformer,
    weights: str,
    mean: Sequence[float] | None,
    std: Sequence[float] | None,
    classes: Sequence[str] | None = None,
    preprocessing: Mapping | None = None,
    **about: object,
) -> VisionTransformer:
    """Return the model, with a card if the scale of its pixels is known; classes without a name get a number.

    `weights` says where they come from; `preprocessing` tells `fit_photo` how to fit a photo.
    """
    channels, count = model.config.in_channels, model.config.num_classes
    if mean is None or std is None or not len(mean) == len(std) == channels:
        return model
    if classes is None or len(classes) != count:
        classes = [f"class {number}" for number in range(count)]
    if preprocessing is not None:
        about[PREPROCESSING] = preprocessing
    model.card = ModelCard(classes, mean, std, {"weights": weights, **about})
    return model
