"""A mapped state dict against the one that ours takes, tensor by tensor."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping

from torch import Tensor, nn
from torchvision.models import VisionTransformer as TorchvisionVisionTransformer

from ..config import ViTConfig
from ..pretrained.tensor_names import as_ours, name_of
from .differences import kind
from .running import call, unreadable
from .state_dict_names import WHOLE_NUMBER, check_names, listed, our_names
from .tensor_origins import origin, told
from .verdict import Wrong

# More than ten blocks the second time: a rule for `encoder_layer_1` may take `encoder_layer_10`, too.
CONFIGS = (
    ViTConfig(image_size=8, patch_size=4, num_classes=5, embed_dim=6, depth=2, num_heads=2, mlp_dim=10),
    ViTConfig(image_size=6, patch_size=2, num_classes=7, embed_dim=4, depth=12, num_heads=2, mlp_dim=9),
)
HOLDS_TENSORS = "`{our name: tensor}`, what `load_state_dict` takes."
COMPARE = "Set the two lists of names side by side, with the shapes."
SORTED = "Sorted as text, `encoder_layer_10` comes before `encoder_layer_2`: take the number from the name."


def torchvision_tensors(config: ViTConfig) -> OrderedDict[str, Tensor]:
    """The state dict of torchvision's model, every number random: no two tensors are alike."""
    model = TorchvisionVisionTransformer(
        config.image_size,
        config.patch_size,
        config.depth,
        config.num_heads,
        config.embed_dim,
        config.mlp_dim,
        num_classes=config.num_classes,
    )
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    return model.state_dict()


def judge_state_dict(function: Callable) -> str | None:
    """Raise Wrong unless both models are mapped right. A remark if `theirs` itself is changed on the way."""
    remark = None
    for number, config in enumerate(CONFIGS):
        theirs = torchvision_tensors(config)
        given = OrderedDict((name, tensor.clone()) for name, tensor in theirs.items())
        tensors = dict(given)
        try:
            result = call(function, given)
            check_unwritten(tensors, theirs)
            check_kind(result)
            check_names(result, theirs, config)
            check_tensors(result, theirs, config)
        except Wrong as wrong:
            if number:
                start = f"Right for a model with {CONFIGS[0].depth} blocks, wrong for one with {config.depth}."
                wrong.message = f"{start}\n{wrong.message}"
            raise
        if list(given) != list(theirs):
            remark = "One thing to know: `theirs` itself is changed; afterwards it has lost names, or has new ones."
    return remark


def check_unwritten(tensors: Mapping[str, Tensor], before: Mapping[str, Tensor]) -> None:
    """Raise Wrong if numbers in the given tensors were overwritten."""
    written = [name for name, tensor in tensors.items() if not tensor.flatten().equal(before[name].flatten())]
    if written:
        raise Wrong(
            f"Your function writes into tensors it is given: {listed(written)}. They are the model's own.",
            "Methods that end in an underscore and `x[...] = ` write into the tensor itself. Work on a new one.",
        )


def check_kind(result) -> None:
    """Raise Wrong unless it is a dictionary of tensors by name."""
    if isinstance(result, nn.Module):
        raise Wrong(f"A state dict is asked for; got a model, {type(result).__name__}.", HOLDS_TENSORS)
    if not isinstance(result, Mapping):
        raise Wrong(f"A dictionary is asked for; got {kind(result)}.", HOLDS_TENSORS)
    if not result:
        raise Wrong("Your dictionary is empty.", HOLDS_TENSORS)
    for name, value in result.items():
        if not isinstance(name, str):
            raise Wrong(f"A name is a string; among yours is {name!r}.", HOLDS_TENSORS)
        if not isinstance(value, Tensor):
            raise Wrong(f"`{name}` must be a tensor; it is {kind(value)}.", HOLDS_TENSORS)
        if value.is_meta:
            raise Wrong(f"`{name}` is on the meta device: it has a shape and no numbers.", HOLDS_TENSORS)
        if text := unreadable(value):
            raise Wrong(f"`{name}` {text}.", HOLDS_TENSORS)


def check_tensors(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], config: ViTConfig) -> None:
    """Raise Wrong with the first tensor that is not what its name says, and what it is."""
    expected = as_ours(theirs, "torchvision", our_names(config), config.num_heads)
    wrong = [name for name in expected if not fits(ours[name], expected[name])]
    if not wrong:
        return
    origins = {name: origin(ours[name], theirs) for name in expected}
    belongs = {name: name_of(name, "torchvision").theirs[0] for name in expected}
    first = wrong[0]
    found, right = origins[first], belongs[first]
    lines = [told(first, ours[first], expected[first], right, found)]
    if len(wrong) > 1:
        lines.insert(0, f"The names are right. Of the {len(ours)} tensors {len(wrong)} are wrong: {listed(wrong)}.")
    else:
        lines[0] = f"The names are right, and all tensors but one. {lines[0]}"
    if found is None or found.name == right:
        raise Wrong("\n".join(lines), COMPARE)
    there = next(name for name in belongs if belongs[name] == found.name)
    if origins[there] and origins[there].name == right:
        lines[-1] += f" It is in `{there}`: the two are exchanged."
    elif all(other is None or other.name != right for other in origins.values()):
        lines[-1] += " Nowhere in yours is that one."
    block, holds = (re.search(r"encoder_layer_\d+|$", name)[0] for name in (right, found.name))
    if block and holds.startswith(block) and holds != block:
        raise Wrong("\n".join([*lines, f"`{block}` is the beginning of `{holds}`, too."]), WHOLE_NUMBER)
    raise Wrong("\n".join(lines), SORTED if holds[-2:].isdigit() and holds != block else COMPARE)


def fits(tensor: Tensor, expected: Tensor) -> bool:
    return tensor.shape == expected.shape and tensor.detach().to(expected).equal(expected)
