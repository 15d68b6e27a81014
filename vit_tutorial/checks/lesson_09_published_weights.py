"""Lesson 09: hint, solution, judge and known mistakes of each exercise."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import groupby
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torchvision.models import VisionTransformer as TorchvisionVisionTransformer

from ..config import ViTConfig
from ..model import VisionTransformer
from ..pretrained.naming import as_ours, name_of
from .comparing import at_another_size, difference, kind, same
from .exercise import exercise
from .running import Wrong, call, unreadable


class Origin(NamedTuple):
    """The tensor's name, and what was done to it: one of the `WAYS`."""

    name: str
    how: str


WAYS: dict[str, Callable[[Tensor], Sequence[Tensor]]] = {
    "as it is": lambda source: [source],
    "transposed": lambda source: [source.mT] if source.ndim == 2 else [],
    "a third": lambda source: source.chunk(3) if len(source) % 3 == 0 else [],
    "reordered": lambda source: [source.flatten().sort().values],
}


def origin(tensor: Tensor, tensors: Mapping[str, Tensor]) -> Origin | None:
    """Where these numbers come from; None if they are in none of the `tensors`."""
    for how, made_of in WAYS.items():
        numbers = tensor.detach().flatten()
        numbers = numbers.sort().values if how == "reordered" else numbers
        for name, source in tensors.items():
            if any(equal(numbers, candidate.flatten()) for candidate in made_of(source)):
                return Origin(name, how)
    return None


def equal(numbers: Tensor, others: Tensor) -> bool:
    return numbers.shape == others.shape and numbers.to(others).equal(others)


def told(name: str, tensor: Tensor, expected: Tensor, right: str, found: Origin | None) -> str:
    """What one wrong tensor of the reader's is. `right` is torchvision's name for what belongs there."""
    if found is None:
        if tensor.numel() < expected.numel() and torch.isin(tensor.to(expected), expected).all():
            count = f"{tensor.numel()} of the {expected.numel()}"
            shape = f"{tuple(tensor.shape)} in place of {tuple(expected.shape)}"
            return f"`{name}` holds {count} numbers of `{right}`, {shape}."
        rounded = not tensor.is_floating_point() or tensor.dtype.itemsize < expected.dtype.itemsize
        why = f": its dtype is {tensor.dtype}, torchvision's is {expected.dtype}" if rounded else ""
        return f"`{name}` holds numbers that are nowhere in torchvision's{why}."
    if found.name != right:
        part = "" if found.how == "as it is" else f" ({found.how})"
        return f"`{name}` holds `{found.name}`{part}, and `{right}` belongs there."
    shapes = f"{tuple(tensor.shape)} in place of {tuple(expected.shape)}"
    return {
        "as it is": f"`{name}` has the right numbers and the wrong shape, {shapes}.",
        "transposed": f"`{name}` is transposed, {shapes}.",
        "a third": f"`{name}` holds only a third of `{right}`, {shapes}.",
        "reordered": f"`{name}` holds the numbers of `{right}` in another order.",
    }[found.how]


SIZES = ((4,), (6,), (3,))  # D


ORDER = "q's rows first, then k's, then v's: `torch.cat([q, k, v])` of the weights, and the same of the biases."


BOTH = "`return weight, bias`, of (3·D, D) and (3·D,)."


def judge_fused(function: Callable) -> None:
    for number, (D,) in enumerate(SIZES):
        layers = [nn.Linear(D, D) for _ in "qkv"]
        before = [p.detach().clone() for layer in layers for p in layer.parameters()]
        result = call(function, *layers)
        after = [p for layer in layers for p in layer.parameters()]
        if not same(after, before, 0.0):
            raise Wrong("Your function changes the layers it is given: the result is a new tensor, or a new layer.")
        try:
            weight, bias = read(result, D)
            check_weight(weight, layers)
            check_bias(bias, layers)
        except Wrong as wrong:
            wrong.message = at_another_size(wrong.message, number, SIZES)
            raise


def read(result, D: int) -> tuple:
    """Weight and bias, be they in a pair, in a layer or under their names."""
    if isinstance(result, nn.Linear):
        result = (result.weight, result.bias)
    if isinstance(result, Mapping) and {"weight", "bias"} <= set(result):
        result = (result["weight"], result["bias"])
    if isinstance(result, Tensor):
        which = {(3 * D, D): "the weight, and the bias is missing", (3 * D,): "the bias, and the weight is missing"}
        only = which.get(tuple(result.shape), f"one tensor, of {tuple(result.shape)}")
        raise Wrong(f"Two tensors are asked for, weight and bias. This is {only}.", BOTH)
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        got = f"{len(result)} values" if isinstance(result, (tuple, list)) else kind(result)
        raise Wrong(f"Two tensors are asked for, weight and bias; got {got}.", BOTH)
    weight, bias = result
    for part in filter(torch.is_tensor, (weight, bias)):
        if text := unreadable(part):
            raise Wrong(f"The result {text}.", BOTH)
    if isinstance(weight, Tensor) and bias is None:
        raise Wrong("The bias is missing: q, k and v each have one.", BOTH)
    if isinstance(weight, Tensor) and isinstance(bias, Tensor) and (weight.ndim, bias.ndim) == (1, 2):
        raise Wrong("Weight and bias are exchanged: the weight comes first.", BOTH)
    return weight, bias


def check_weight(weight, layers: list[nn.Linear]) -> None:
    """Raise Wrong unless the rows of q, k and v are there, in this order."""
    matrices = [layer.weight.detach() for layer in layers]
    expected, D = torch.cat(matrices), len(matrices[0])
    if (found := difference(weight, expected, "(3·D, D)", 1e-6, "The weight")) is None:
        return
    if not isinstance(weight, Tensor):
        raise Wrong(found, BOTH)
    known = {
        "The weight is transposed, (D, 3·D): `nn.Linear` keeps it as (out, in).": expected.T,
        "The matrices stand side by side, (D, 3·D): that is a layer from 3·D numbers to D, which adds q, k and v up. "
        "One below the other they give 3·D numbers.": torch.cat(matrices, dim=1),
        "The matrices are stacked, (3, D, D). A layer's weight has two axes.": torch.stack(matrices),
        "The matrices are added up: what comes out is q + k + v.": sum(matrices),
        "The matrices are averaged: what comes out is the mean of q, k and v.": sum(matrices) / 3,
        "The matrices are multiplied: that is one layer after another.": torch.linalg.multi_dot(matrices[::-1]),
    }
    for message, mistake in known.items():
        if same(weight, mistake, 1e-6):
            raise Wrong(message, "`torch.cat([q.weight, k.weight, v.weight], dim=0)`: one below the other.")
    if weight.shape != expected.shape or same(weight, expected, 1e-6):
        raise Wrong(found, ORDER)
    if not weight.isfinite().all():
        raise Wrong("Not all numbers of the weight are finite: `torch.empty` holds what was in memory before.", ORDER)
    places = [place(row, matrices) for row in weight.detach()]
    if all(places):
        there = {name for name, _ in places}
        gone = " and ".join(f"{name}'s" for name in "qkv" if name not in there)
        start = f"None of {gone} rows is in the weight." if gone else "The rows of the weight are in another order."
        raise Wrong(f"{start} From the top: {runs(places)}.", ORDER)
    changed = [f"rows {i * D} to {i * D + D - 1} are {text}" for i, block in enumerate(weight.detach().chunk(3))
               if (text := alike(block, matrices))]  # fmt: skip
    if changed:
        raise Wrong(f"Not all matrices are there as they were: {', '.join(changed)}.", ORDER)
    if not any(places):
        raise Wrong(
            "None of the rows is q's, k's or v's: a new `nn.Linear` has random weights until others are copied in.",
            "Inside `with torch.no_grad():`, `layer.weight.copy_(...)` and `layer.bias.copy_(...)`; or "
            "`torch.cat([...])` of the weights, and of the biases.",
        )
    raise Wrong(found, ORDER)


def check_bias(bias, layers: list[nn.Linear]) -> None:
    """Raise Wrong unless the biases are there, in the weight's order."""
    vectors = [layer.bias.detach() for layer in layers]
    expected = torch.cat(vectors)
    if (found := difference(bias, expected, "(3·D,)", 1e-6, "The bias")) is None:
        return
    start = "The weight is right, the bias is not. "
    if not isinstance(bias, Tensor):
        raise Wrong(start + found, BOTH)
    if not bias.any():
        raise Wrong("The weight is right, and the bias is zero: q, k and v each have one.", ORDER)
    if same(bias, torch.stack(vectors), 1e-6):
        raise Wrong(start + "The three are stacked, (3, D). A layer's bias has one axis.", ORDER)
    if same(bias, sum(vectors), 1e-6):
        raise Wrong(start + "The three are added up, (D,): there is one number for each of the 3·D rows.", ORDER)
    if bias.shape == expected.shape and not same(bias, expected, 1e-6):
        places = [place(number, vectors) for number in bias.detach()]
        if all(places):
            raise Wrong(f"{start}Its numbers are in another order than the rows: {runs(places)}.", ORDER)
    raise Wrong(start + found, ORDER)


def place(row: Tensor, tensors: list[Tensor]) -> tuple[str, int] | None:
    """Whose row this is, and which."""
    return next(
        ((name, i) for name, tensor in zip("qkv", tensors, strict=True) for i in range(len(tensor))
         if same(row, tensor[i], 1e-6)), None,
    )  # fmt: skip


def runs(places: list[tuple[str, int]]) -> str:
    """ "q 0 to 3, v 0 to 3, k 0 to 3": rows that follow one another are told together, six such runs at most."""
    groups = groupby(enumerate(places), key=lambda numbered: (numbered[1][0], numbered[1][1] - numbered[0]))
    parts = []
    for (name, _), group in groups:
        rows = [row for _, (_, row) in group]
        parts.append(f"{name} {rows[0]}" + (f" to {rows[-1]}" if len(rows) > 1 else ""))
    return ", ".join(parts[:6]) + (", …" if len(parts) > 6 else "")


def alike(block: Tensor, matrices: list[Tensor]) -> str | None:
    """What these D rows are, if they are one of the matrices transposed or multiplied by a number, or zero."""
    if not block.any():
        return "zero"
    for name, matrix in zip("qkv", matrices, strict=True):
        factor = (block * matrix).sum() / matrix.square().sum()
        if same(block, matrix.T, 1e-6) and not same(block, matrix, 1e-6):
            return f"{name}'s, transposed"
        if same(block, factor * matrix, 1e-6) and not same(block, matrix, 1e-6):
            return f"{name}'s, multiplied by {factor:.3g}"
    return None


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


@exercise(
    hint="A linear layer's weight is (out, in): each row makes one number of the result. So the rows of three layers "
    "go one below the other, `torch.cat([...], dim=0)`, and their biases, too, in the same order.",
    solution="""
import torch


def fuse_qkv(q, k, v):
    weight = torch.cat([q.weight, k.weight, v.weight])  # (3·D, D)
    bias = torch.cat([q.bias, k.bias, v.bias])  # (3·D,)
    return weight, bias
""",
)
def fuse_qkv(function):
    """`fn(q, k, v)`, three `nn.Linear(D, D)` → weight (3·D, D), bias (3·D,): one layer for q, k and v."""
    judge_fused(function)


@exercise(
    hint="Print the names of both and set them side by side. Outside the blocks there are six pairs of names. Within a "
    "block, only the number changes: split the name at its dots, and take the number from the part that holds it. "
    "torchvision's positions are (1, T, D), ours (T, D).",
    solution="""
import re

NAMES = {
    "conv_proj.": "embeddings.patches.projection.",
    "class_token": "embeddings.class_token",
    "encoder.pos_embedding": "embeddings.position.table",
    "encoder.ln.": "norm.",
    "heads.head.": "head.",
    ".ln_1.": ".norm1.",
    ".self_attention.in_proj_": ".attention.qkv.",
    ".self_attention.out_proj.": ".attention.projection.",
    ".ln_2.": ".norm2.",
    ".mlp.0.": ".mlp.expand.",
    ".mlp.3.": ".mlp.contract.",
}


def map_state_dict(theirs):
    ours = {}
    for name, tensor in theirs.items():
        name = re.sub(r"encoder\\.layers\\.encoder_layer_(\\d+)", r"encoder.\\1", name)
        for old, new in NAMES.items():
            name = name.replace(old, new)
        ours[name] = tensor
    ours["embeddings.position.table"] = ours["embeddings.position.table"][0]  # (1, T, D) -> (T, D)
    return ours
""",
)
def map_state_dict(function):
    """`fn(theirs)`: the state dict of torchvision's ViT → ours, as `load_state_dict(..., strict=True)` takes it."""
    return judge_state_dict(function)
