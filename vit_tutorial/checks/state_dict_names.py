"""The names of a mapped state dict: which are missing, which are not ours, and what that looks like."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

import torch
from torch import Tensor

from ..config import ViTConfig
from ..model import VisionTransformer
from ..pretrained.tensor_names import name_of
from .tensor_origins import origin
from .verdict import Wrong

WHERE = "Ours are in `VisionTransformer(config).state_dict()`."
WHOLE_NUMBER = (
    "Take the whole number: `name.split('.')` has `encoder_layer_10` in a part of its own. A test with `in` or "
    "`startswith` needs the dot after the number."
)


@cache
def our_names(config: ViTConfig) -> tuple[str, ...]:
    with torch.device("meta"):
        return tuple(VisionTransformer(config).state_dict())


def check_names(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], config: ViTConfig) -> None:
    """Raise Wrong with what is missing and what is too much, unless the names are exactly those of our model."""
    names = our_names(config)
    missing, extra = [name for name in names if name not in ours], [name for name in ours if name not in names]
    if not missing and not extra:
        return
    if set(ours) == set(theirs):
        raise Wrong("All names are still torchvision's.", WHERE)
    check_thirds(ours, theirs, extra)
    if not extra:
        check_blocks(ours, theirs, missing, config)
    lists = {
        "Missing": missing,
        "Still torchvision's names": [name for name in extra if name in theirs],
        "Not ours": [name for name in extra if name not in theirs],
    }
    lines = ["`load_state_dict(..., strict=True)` would refuse these names."]
    lines += [f"{start}: {listed(wrong)}." for start, wrong in lists.items() if wrong]
    lost = sorted({int(name.split(".")[1]) for name in missing if re.match(r"encoder\.\d", name)})
    if 0 < len(lost) < config.depth:
        which = f"block {lost[0]}" if len(lost) == 1 else f"blocks {', '.join(map(str, lost))}"
        lines.append(f"Of the {config.depth} blocks, counted from 0, this is so in {which}.")
    right = {name_of(name, "torchvision").theirs[0]: name for name in names}
    for name in lists["Not ours"]:
        if found := origin(ours[name], theirs):
            lines.append(f"`{name}` holds `{found.name}`, which ours calls `{right[found.name]}`.")
            break
    raise Wrong("\n".join(lines), WHERE)


def check_thirds(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], extra: Sequence[str]) -> None:
    """Raise Wrong if q, k and v have been split."""
    thirds = [name for name in extra if (found := origin(ours[name], theirs)) and found.how == "a third"]
    if thirds:
        source = origin(ours[thirds[0]], theirs).name
        raise Wrong(
            f"q, k and v are split: `{thirds[0]}` holds a third of `{source}`. Ours keeps them in one tensor, as "
            "torchvision does.",
            "`.self_attention.in_proj_weight` becomes `.attention.qkv.weight`, as it is.",
        )


def check_blocks(
    ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], missing: Sequence[str], config: ViTConfig
) -> None:
    """Raise Wrong if what is missing are whole blocks."""
    lost = sorted({int(name.split(".")[1]) for name in missing if re.match(r"encoder\.\d", name)})
    if len(missing) != sum(name.startswith("encoder.0.") for name in our_names(config)) * len(lost):
        return
    which = f"block {lost[0]} is" if len(lost) == 1 else f"blocks {', '.join(map(str, lost))} are"
    message = f"Of the {config.depth} blocks, counted from 0, {which} missing."
    for name in (f"encoder.{block}.norm1.weight" for block in range(config.depth) if block not in lost):
        found, block = origin(ours[name], theirs), name.split(".")[1]
        number = found and re.search(r"encoder_layer_(\d+)\.", found.name)
        if number and int(number[1]) in lost:
            message += f" `encoder.{block}` holds torchvision's block {number[1]}"
            if number[1].startswith(block):
                message += f": `encoder_layer_{block}` is the beginning of `encoder_layer_{number[1]}`, too"
            raise Wrong(f"{message}.", WHOLE_NUMBER)
    raise Wrong(message, "How many blocks there are can be seen in `theirs`: is a number written into your code?")


def listed(names: Sequence[str]) -> str:
    """The first three, and how many more. One that several blocks have is told once, `encoder.*.norm1`."""
    numbers: dict[str, list[str]] = {}
    for name in names:
        numbers.setdefault(re.sub(r"(?<=^encoder\.)\d+|(?<=encoder_layer_)\d+", "*", name), []).append(name)
    short = [general if len(found) > 1 else found[0] for general, found in numbers.items()]
    more = f" and {len(short) - 3} more like these" if len(short) > 3 else ""
    return ", ".join(f"`{name}`" for name in short[:3]) + more
