"""Weights of another library into a model of ours: all of them, in their places, with equal logits, or an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

import torch
from torch import Tensor, nn

from ..config import ViTConfig, to_pair
from ..inference import eval_mode
from ..model import VisionTransformer
from ..saving import require_finite_tensors
from .tensor_names import as_ours, as_theirs
from .unsupported import refuse_parts

HEADS = {"torchvision": "heads", "timm": "head", "transformers": "classifier"}


def convert_model(
    theirs: nn.Module, library: str, read_config: Callable[[nn.Module], ViTConfig], **replaced: Tensor
) -> VisionTransformer:
    """A model of another library: looked at, read, filled into one of ours, compared."""
    try:
        refuse_parts(theirs)
        config = read_config(theirs)
    except AttributeError as error:
        raise ValueError(f"{type(theirs).__name__} is no Vision Transformer of {library}: {error}") from None
    ours = convert_tensors(read_tensors(theirs) | replaced, library, config)
    compare(ours, theirs, theirs.get_submodule(HEADS[library]))
    return ours


def read_tensors(model: nn.Module) -> dict[str, Tensor]:
    """All weights of a model; a layer that has no bias gets the one that changes nothing, zero."""
    tensors = dict(model.state_dict())
    for name, module in model.named_modules():
        if isinstance(module, (nn.Linear, nn.Conv2d)) and module.bias is None:
            tensors[f"{name}.bias"] = module.weight.new_zeros(len(module.weight))
    return tensors


def convert_tensors(tensors: Mapping[str, Tensor], library: str, config: ViTConfig) -> VisionTransformer:
    """Build a model with copies of the tensors, in their dtype and on their device; ready to predict.

    Raises ValueError that lists every tensor that is missing, not expected or misshapen, or names one with numbers
    that are not finite.
    """
    check_tensors(tensors, expect(config, library), library)
    dtype = reduce(torch.promote_types, (tensor.dtype for tensor in tensors.values()))
    if not dtype.is_floating_point:
        raise ValueError(f"weights are floating-point numbers, these are {dtype}")
    require_finite_tensors(tensors)
    model = VisionTransformer(config).to(next(iter(tensors.values())).device, dtype)
    model.load_state_dict(as_ours(tensors, library, model.state_dict(), config.num_heads))
    return model.eval()


def expect(config: ViTConfig, library: str) -> dict[str, Tensor]:
    """Return the tensors, under the library's names, that would fill a model. They are on "meta" and take no memory."""
    with torch.device("meta"):
        return as_theirs(VisionTransformer(config).state_dict(), library, config.num_heads)


def check_tensors(tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor], library: str) -> None:
    """ValueError with all that is wrong, unless the names and shapes are exactly the expected ones."""
    wrong = {
        "missing": [name for name in expected if name not in tensors],
        "not expected": [name for name in tensors if name not in expected],
        "misshapen": [
            f"{name} {tuple(tensors[name].shape)} in place of {tuple(tensor.shape)}"
            for name, tensor in expected.items()
            if name in tensors and tensors[name].shape != tensor.shape
        ],
    }
    if any(wrong.values()):
        listed = "".join(f"\n{kind}: {', '.join(names)}" for kind, names in wrong.items() if names)
        raise ValueError(f"these weights do not fill a VisionTransformer in the names of {library}{listed}")


@torch.no_grad()
def compare(ours: VisionTransformer, theirs: nn.Module, their_head: nn.Module) -> None:
    """ValueError unless both heads see the same of two random images, and give the same logits.

    What no name reveals (a norm after the branch, a changed forward) shows here.
    """
    weight, seen = next(ours.parameters()), []
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(2, ours.config.in_channels, *to_pair(ours.config.image_size), generator=generator).to(weight)
    hook = their_head.register_forward_pre_hook(lambda head, inputs: seen.append(inputs[0]))
    with eval_mode(theirs):
        logits = theirs(images)
    hook.remove()
    logits = getattr(logits, "logits", logits)  # transformers wraps its logits
    for name, here, there in (("features", ours.features(images), seen[0]), ("logits", ours(images), logits)):
        difference, scale = (here - there).abs().max().item(), there.abs().max().item()
        if not difference <= (1e-4 if weight.itemsize >= 4 else 0.05) * (scale + 1e-6):
            raise ValueError(
                f"every tensor has its place, but the {name} differ by {difference:.2g} (they are up to {scale:.2g}): "
                f"their {type(theirs).__name__} computes something that ours does not"
            )
