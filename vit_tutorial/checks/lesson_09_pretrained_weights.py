"""Lesson 09: three layers in one, and a state dict under other names."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial

import torch
from einops import rearrange
from torch import Tensor, nn
from torchvision.models import VisionTransformer as TorchvisionVisionTransformer

from ..config import ViTConfig
from ..model import VisionTransformer
from ..pretrained.tensor_names import as_ours, name_of
from .comparing import Mistake, difference, judge_each, kind, known, listed, recognise, same
from .exercise import exercise
from .running import Wrong, call, prefixed, raise_first, unreadable


def my_fuse_qkv(q, k, v):
    weight = torch.cat([q.weight, k.weight, v.weight])  # (3·D, D)
    bias = torch.cat([q.bias, k.bias, v.bias])  # (3·D,)
    return weight, bias


@exercise(
    hint="A linear layer's weight is (out, in): each row makes one value of the result. Put the rows of the three "
    "layers one below the other, q's first, `torch.cat([...], dim=0)`, and their biases in the same order. Return "
    "both.",
    solution=my_fuse_qkv,
)
def fuse_qkv(function):
    """`fn(q, k, v)`, three `nn.Linear(D, D)` → weight (3·D, D), bias (3·D,): one layer for q, k and v."""
    judge_each({f"D = {D}": (D,) for D in (4, 6, 3)}, partial(judge_fused, function))


def judge_fused(function: Callable, D: int) -> None:
    layers = [nn.Linear(D, D) for _ in "qkv"]
    before = [p.detach().clone() for layer in layers for p in layer.parameters()]
    result = call(function, *layers)
    if not same([p for layer in layers for p in layer.parameters()], before, 0.0):
        raise Wrong("Your function changes the layers it is given: the result is a new tensor, or a new layer.")
    weight, bias = read_pair(result, D)
    check_fused("weight", weight, [layer.weight.detach() for layer in layers], "(3·D, D)")
    with prefixed("The weight is right, the bias is not."):
        check_fused("bias", bias, [layer.bias.detach() for layer in layers], "(3·D,)")


def read_pair(result, D: int) -> Sequence:
    """Return weight and bias, be they in a pair, in a layer or under their names."""
    if isinstance(result, nn.Linear):
        result = (result.weight, result.bias)
    if isinstance(result, Mapping) and {"weight", "bias"} <= set(result):
        result = (result["weight"], result["bias"])
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        got = f"{len(result)} values" if isinstance(result, (tuple, list)) else kind(result)
        which = {(3 * D, D): "the weight, and the bias is missing", (3 * D,): "the bias, and the weight is missing"}
        got = which.get(tuple(result.shape), got) if isinstance(result, Tensor) else got
        raise Wrong(f"The task asks for two tensors, weight and bias; got {got}.")
    unread = [text for part in result if isinstance(part, Tensor) and (text := unreadable(part))]
    raise_first([
        (bool(unread), f"The result {''.join(unread[:1])}.", None),
        (isinstance(result[0], Tensor) and result[1] is None, "The bias is missing: q, k and v each have one.", None),
        ([getattr(part, "ndim", 0) for part in result] == [1, 2], "Weight and bias are exchanged.", "Weight first."),
    ])  # fmt: skip
    return result


def check_fused(name: str, result, parts: list[Tensor], letters: str) -> None:
    """Raise Wrong unless the result is the three `parts`, one below the other."""
    expected = torch.cat(parts)
    if (found := difference(result, expected, letters, 1e-6, f"The {name}")) is None:
        return
    if not isinstance(result, Tensor) or same(result, expected, 1e-6):  # only the dtype is wrong
        raise Wrong(found)
    recognise(result, parts, fused_mistakes(name), 1e-6)
    if not result.isfinite().all():
        raise Wrong(found, "`torch.empty` holds what was in memory before, until you fill every row.")
    if result.shape == expected.shape:
        blocks = [block_name(block, parts) for block in result.detach().chunk(3)]
        found = f"From top to bottom the {name} holds {', '.join(blocks)} instead of q, k, v."
        if set(blocks) == {"something else"}:
            found = f"None of q, k and v is in the {name}: a new `nn.Linear` is random until others are copied in."
    raise Wrong(found)


def block_name(block: Tensor, parts: list[Tensor]) -> str:
    """Name this third of the result: "k", "k transposed", "0.5·k", "zeros", or "something else"."""
    if not block.any():
        return "zeros"
    for name, part in zip("qkv", parts, strict=True):
        factor = (block * part).sum() / part.square().sum()
        if same(block, factor * part, 1e-6):
            return name if same(block, part, 1e-6) else f"{factor:.3g}·{name}"
        if part.ndim == 2 and same(block, part.T, 1e-6):
            return f"{name} transposed"
    return "something else"


def fused_mistakes(name: str) -> list[Mistake]:
    """Return the wrong ways to join the three weights, or biases, in words about the `name` of the two."""
    return known(None, {
        f"The {name} is transposed, (D, 3·D): `nn.Linear` keeps it as (out, in).": lambda *parts: torch.cat(parts).mT,
        "The matrices stand side by side, (D, 3·D): that layer takes 3·D values and adds q, k and v up. Put them one "
        "below the other.": lambda *parts: torch.cat(parts, dim=1),
        f"The three are stacked, with a new axis of 3 in front. A layer's {name} has no such axis.":
            lambda *parts: torch.stack(parts),
        "The three are added up: what comes out is q + k + v.": lambda *parts: sum(parts),
        "The three are averaged: what comes out is the mean of q, k and v.": lambda *parts: sum(parts) / 3,
        "The matrices are multiplied: that is one layer after another.": lambda q, k, v: v @ k @ q,
        f"The {name} is zero: q, k and v each have one.": lambda *parts: 0 * torch.cat(parts),
        f"The {name} goes row by row: q's first, k's first, v's first, then the second of each.":
            lambda *parts: torch.stack(parts, dim=1).flatten(0, 1),
        **{f"The {name} goes head by head: q, k and v of the first of {heads} heads, then of the next.":
            lambda *parts, heads=heads: rearrange(list(parts), "n (h d) ... -> (h n d) ...", h=heads)
           for heads in (2, 3)},
    })  # fmt: skip


def my_map_state_dict(theirs):
    names = {
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
    ours = {}
    for name, tensor in theirs.items():
        name = re.sub(r"encoder\.layers\.encoder_layer_(\d+)", r"encoder.\1", name)
        for old, new in names.items():
            name = name.replace(old, new)
        ours[name] = tensor
    ours["embeddings.position.table"] = ours["embeddings.position.table"][0]  # (1, T, D) -> (T, D)
    return ours


@exercise(
    hint="Print the names of both, side by side: ours are in `VisionTransformer(config).state_dict()`. Outside the "
    "blocks, rename patch projection, class token, positions, last norm and head. Within a block, only the number "
    "changes: split the name at its dots, and take the number from the part that holds it. torchvision's positions "
    "are (1, T, D), ours (T, D).",
    solution=my_map_state_dict,
    imports="import re",
)
def map_state_dict(function):
    """`fn(theirs)`: the state dict of torchvision's ViT → ours, as `load_state_dict(..., strict=True)` takes it."""
    remarks: list[str | None] = []
    judge_each(CONFIGS, lambda config: remarks.append(judge_state_dict(function, config)))
    return remarks[0]


# More than ten blocks the second time: a rule for `encoder_layer_1` may take `encoder_layer_10`, too.
CONFIGS = {
    "2 blocks": (ViTConfig(8, 4, num_classes=5, embed_dim=6, depth=2, num_heads=2, mlp_dim=10),),
    "12 blocks": (ViTConfig(6, 2, num_classes=7, embed_dim=4, depth=12, num_heads=2, mlp_dim=9),),
}


def torchvision_tensors(config: ViTConfig) -> OrderedDict[str, Tensor]:
    """Return the state dict of torchvision's model, every value random: no two tensors are alike."""
    sizes = config.image_size, config.patch_size, config.depth, config.num_heads, config.embed_dim, config.mlp_dim
    model = TorchvisionVisionTransformer(*sizes, num_classes=config.num_classes)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    return model.state_dict()


@cache
def our_names(config: ViTConfig) -> dict[str, str]:
    """Return {our name: torchvision's}."""
    with torch.device("meta"):
        return {name: name_of(name, "torchvision").theirs[0] for name in VisionTransformer(config).state_dict()}


def judge_state_dict(function: Callable, config: ViTConfig) -> str | None:
    """Raise Wrong unless the tensors are mapped right. Return a remark if `theirs` itself is changed on the way."""
    theirs = torchvision_tensors(config)
    given = OrderedDict((name, tensor.clone()) for name, tensor in theirs.items())
    tensors = dict(given)
    result = call(function, given)
    if written := [name for name, tensor in tensors.items() if not tensor.flatten().equal(theirs[name].flatten())]:
        raise Wrong(
            f"Your function writes into tensors it is given: {listed(written)}. They are the model's own.",
            "Methods that end in an underscore and `x[...] = ` write into the tensor itself. Work on a new one.",
        )
    check_kind(result)
    check_names(result, theirs, config)
    check_tensors(result, theirs, config)
    changed = "One thing to know: `theirs` itself is changed; afterwards it has lost names, or has new ones."
    return changed if list(given) != list(theirs) else None


def check_kind(result) -> None:
    """Raise Wrong unless it is a dictionary of tensors by name."""
    if not isinstance(result, Mapping) or not result:
        got = "an empty one" if isinstance(result, Mapping) else kind(result)
        got = f"a model, {type(result).__name__}" if isinstance(result, nn.Module) else got
        raise Wrong(f"The task asks for a dictionary of tensors, a state dict; got {got}.")
    for name, value in result.items():
        if not isinstance(name, str):
            raise Wrong(f"A name is a string; among yours is {name!r}.")
        if not isinstance(value, Tensor):
            raise Wrong(f"`{name}` must be a tensor; it is {kind(value)}.")
        if text := "is on the meta device: it has a shape and no values" if value.is_meta else unreadable(value):
            raise Wrong(f"`{name}` {text}.")


def check_names(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], config: ViTConfig) -> None:
    """Raise Wrong with what is missing and what is too much, unless the names are exactly those of our model."""
    names = our_names(config)
    missing, extra = [name for name in names if name not in ours], [name for name in ours if name not in names]
    if set(ours) == set(theirs):
        raise Wrong("All names are still torchvision's.")
    strange = [name for name in extra if name not in theirs]
    lists = {"Missing": missing, "Still torchvision's names": [n for n in extra if n in theirs], "Not ours": strange}
    lines = [f"{start}: {listed(wrong)}." for start, wrong in lists.items() if wrong]
    lost = sorted({int(number[1]) for name in missing if (number := re.match(r"encoder\.(\d+)", name))})
    if 0 < len(lost) < config.depth:
        which = f"block{'s'[: len(lost) - 1]} {', '.join(map(str, lost))}"
        lines.append(f"Of the {config.depth} blocks, counted from 0, this is so in {which}.")
    right, hint = {there: here for here, there in names.items()}, None
    known_values = ((name, *origin(ours[name], theirs)) for name in strange)
    if told := next((found for found in known_values if found[1]), None):
        lines.append(f"`{told[0]}` holds {told[2].format(told[1])}, which ours calls `{right[told[1]]}`.")
    if not extra:
        hint = "`theirs` shows how many blocks there are: is a number written into your code?"
        for block in sorted(set(range(config.depth)) - set(lost)) if lost else ():
            source, _ = origin(ours[f"encoder.{block}.norm1.weight"], theirs)
            if (number := re.search(r"layer_(\d+)\.|$", source)[1]) and int(number) in lost:
                taken = f"Is `encoder_layer_{number}` taken for `encoder_layer_{block}`? Compare the whole number."
                lines += [f"`encoder.{block}` holds torchvision's block {number}.", taken]
                hint = None
                break
    if lines:
        raise Wrong("\n".join(["`load_state_dict(..., strict=True)` would refuse these names.", *lines]), hint)


def check_tensors(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], config: ViTConfig) -> None:
    """Raise Wrong with the first tensor that is not what its name says, and what it is."""
    belongs = our_names(config)
    expected = as_ours(theirs, "torchvision", belongs, config.num_heads)
    wrong = [n for n in belongs if ours[n].shape != expected[n].shape or not equal(ours[n], expected[n])]
    if not wrong:
        return
    origins = {name: origin(ours[name], theirs) for name in belongs}
    name, right, (source, how) = wrong[0], belongs[wrong[0]], origins[wrong[0]]
    start = "The names are right, and all tensors but one. "
    if len(wrong) > 1:
        start = f"The names are right. Of the {len(ours)} tensors {len(wrong)} are wrong: {listed(wrong)}.\n"
    got, asked = ours[name], expected[name]
    told = f"`{name}` holds {how.format(source)}"
    if not source:
        rounded = not got.is_floating_point() or got.dtype.itemsize < asked.dtype.itemsize
        why = f": its dtype is {got.dtype}, torchvision's is {asked.dtype}" if rounded else ""
        told = f"`{name}` holds values that are nowhere in torchvision's{why}."
    elif source == right:
        told += f", {tuple(got.shape)} instead of {tuple(asked.shape)}." if got.shape != asked.shape else "."
    else:
        told += f", and `{right}` belongs there."
        there = next(here for here, name in belongs.items() if name == source)
        if origins[there][0] == right:
            told += f" It is in `{there}`: the two are exchanged."
        elif all(found != right for found, _ in origins.values()):
            told += " Nowhere in yours is that one."
        block, holds = (re.search(r"encoder_layer_\d+|$", text)[0] for text in (right, source))
        if block and holds != block and holds.startswith(block):
            told += f"\n`{block}` is the beginning of `{holds}`, too. Compare the whole number."
        elif block and holds != block and holds[-2:].isdigit():
            told += "\nSorted as text, `encoder_layer_10` comes before `encoder_layer_2`: take the number itself."
    raise Wrong(start + told)


def origin(tensor: Tensor, tensors: Mapping[str, Tensor]) -> tuple[str, str]:
    """Return the name of the tensor with these values, and in words what was done to it; two "" if they are in none."""
    values = tensor.detach().flatten()
    in_order = values.sort().values
    ways = {
        "`{}`": lambda t: [t],
        "`{}` transposed": lambda t: [t.mT] if t.ndim == 2 else [],
        "a third of `{}`": lambda t: t.chunk(3) if len(t) % 3 == 0 else [],
        "the values of `{}` in another order": lambda t: [values] if equal(in_order, t.flatten().sort().values) else [],
        f"{len(values)} of the values of `{{}}`": lambda t: [values] if torch.isin(values.to(t), t).all() else [],
    }
    for how, made_of in ways.items():
        for name, source in tensors.items():
            if any(equal(values, candidate.flatten()) for candidate in made_of(source)):
                return name, how
    return "", ""


def equal(values: Tensor, others: Tensor) -> bool:
    return values.shape == others.shape and values.detach().to(others).equal(others)
