"""Lesson 09: three layers in one, and a state dict under other names."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import torch
from einops import rearrange
from torch import Tensor, nn

from ..config import ViTConfig
from ..model import VisionTransformer
from ..pretrained.tensor_names import as_ours, as_theirs, names_of
from .comparing import Mistake, difference, kind, known, listed, recognise, same
from .exercise import exercise
from .running import Wrong, call, explained, judge_each, prefixed, raise_first, unreadable


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
        (bool(unread), f"The result {''.join(unread[:1])}."),
        (isinstance(result[0], Tensor) and result[1] is None, "The bias is missing: q, k and v each have one."),
        ([getattr(part, "ndim", 0) for part in result] == [1, 2], "Weight and bias are exchanged.", "Weight first."),
    ])  # fmt: skip
    return result


def check_fused(name: str, result, parts: list[Tensor], letters: str) -> None:
    """Raise Wrong unless the result is the three `parts`, one below the other."""
    expected = torch.cat(parts)
    if (found := difference(result, expected, letters, f"The {name}")) is None:
        return
    if not isinstance(result, Tensor) or same(result, expected):  # only the dtype is wrong
        raise Wrong(found)
    recognise(result, parts, fused_mistakes(name))
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
        if same(block, factor * part):
            return name if same(block, part) else f"{factor:.3g}·{name}"
        if part.ndim == 2 and same(block, part.T):
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
    words = {
        "patch_embed.proj": "embeddings.patches.projection",
        "cls_token": "embeddings.class_token",
        "pos_embed": "embeddings.position.table",
        "blocks": "encoder",
        "attn.qkv": "attention.qkv",
        "attn.proj": "attention.projection",
        "mlp.fc1": "mlp.expand",
        "mlp.fc2": "mlp.contract",
    }
    ours = {}
    for name, tensor in theirs.items():
        for word, our_word in words.items():
            name = name.replace(word, our_word)
        ours[name] = tensor
    ours["embeddings.position.table"] = ours["embeddings.position.table"][0]  # (1, T, D) -> (T, D)
    return ours


@exercise(
    hint="Print both lists of names: ours are in `VisionTransformer(config).state_dict()`. Eight of timm's words are "
    "not ours. `name.replace(word, our_word)` returns a new string, and it finds the word anywhere in the name: "
    "`proj` is in `patch_embed.proj` and in `attn.proj`. timm's positions are (1, T, D), ours (T, D).",
    solution=my_map_state_dict,
)
def map_state_dict(function):
    """`fn(theirs)`: the state dict of timm's ViT → ours, as `load_state_dict(..., strict=True)` takes it."""
    remarks: list[str | None] = []
    judge_each(CONFIGS, lambda config: remarks.append(judge_state_dict(function, config)))
    return remarks[0]


# More than ten blocks the second time: a rule for `blocks.1` may take `blocks.10`, too.
CONFIGS = {
    "2 blocks": (ViTConfig(8, 4, num_classes=5, embed_dim=6, depth=2, num_heads=2, mlp_dim=10),),
    "12 blocks": (ViTConfig(6, 2, num_classes=7, embed_dim=4, depth=12, num_heads=2, mlp_dim=9),),
}


def timm_tensors(config: ViTConfig) -> OrderedDict[str, Tensor]:
    """Return the state dict of timm's model, made without timm. Every value is random: no two tensors are alike."""
    model = VisionTransformer(config)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    tensors = as_theirs(model.state_dict(), "timm")
    return OrderedDict(dict.fromkeys(["cls_token", "pos_embed"]) | tensors)  # timm lists these two first


def our_names(config: ViTConfig) -> dict[str, str]:
    """Return {our name: timm's}."""
    with torch.device("meta"):
        return {name: names_of(name, "timm")[0] for name in VisionTransformer(config).state_dict()}


def judge_state_dict(function: Callable, config: ViTConfig) -> str | None:
    """Raise Wrong unless the tensors are mapped right. Return a remark if `theirs` itself is changed on the way."""
    theirs = timm_tensors(config)
    given = OrderedDict((name, tensor.clone()) for name, tensor in theirs.items())
    tensors = dict(given)
    with explained({r"KeyError.*\d": f"This model has {config.depth} blocks: `theirs` shows how many there are."}):
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
    right = {there: here for here, there in names.items()}
    missing, extra = [name for name in names if name not in ours], [name for name in ours if name not in names]
    if set(ours) == set(theirs):
        raise Wrong("All names are still timm's.", "`name.replace(...)` returns a new string: is it kept, and used?")
    strange = [name for name in extra if name not in theirs]
    lists = {"Missing": missing, "Still timm's names": [n for n in extra if n in theirs], "Not ours": strange}
    lines = [f"{start}: {listed(wrong)}." for start, wrong in lists.items() if wrong]
    lost = sorted({int(number[1]) for name in missing if (number := re.match(r"encoder\.(\d+)", name))})
    if 0 < len(lost) < config.depth:
        which = f"block{'s'[: len(lost) - 1]} {', '.join(map(str, lost))}"
        lines.append(f"Of the {config.depth} blocks, counted from 0, this is so in {which}.")
    hint = None
    if not extra and all(name.startswith("encoder.") for name in missing):
        hint = "`theirs` shows how many blocks there are: is a number written into your code?"
    known_values = ((name, *origin(ours[name], theirs)) for name in strange)
    if told := next((found for found in known_values if found[1]), None):
        lines.append(f"`{told[0]}` holds {told[2].format(told[1])}, which ours calls `{right[told[1]]}`.")
        hint = "Each rule must go on from what the one before returned; the tensor is stored after the last."
    if twice := re.search(r"[a-z]+?([a-z]{3,})\1", " ".join(strange)):
        lines.append(f"`{twice[0]}`: `.replace` finds its word anywhere, also in what an earlier one wrote.")
    if strange and len(ours) < len(theirs):
        lines.append(f"Yours are {len(ours)} tensors, timm's {len(theirs)}: of two with one name the later is kept.")
    for name in [name for name in names if name in ours] if missing and not strange else ():
        source, _ = origin(ours[name], theirs)
        if right.get(source) in missing:
            lines.append(f"`{name}` holds `{source}`: two names became one, and only the later tensor is kept.")
            lines += mixed_up_blocks(names[name], source)
            hint = None
            break
    if lines:
        raise Wrong("\n".join(["`load_state_dict(..., strict=True)` would refuse these names.", *lines]), hint)


def mixed_up_blocks(right: str, found: str) -> list[str]:
    """Say how the number of one of timm's blocks was taken for another."""
    block, holds = (re.search(r"blocks\.\d+|$", name)[0] for name in (right, found))
    if block and holds != block and holds.startswith(block):
        return [f"`{block}` is the beginning of `{holds}`, too. Compare the whole number."]
    if block and holds != block and holds[-2:].isdigit():
        return ["Sorted as text, `blocks.10` comes before `blocks.2`: take the number itself."]
    return []


def check_tensors(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor], config: ViTConfig) -> None:
    """Raise Wrong with the first tensor that is not what its name says, and what it is."""
    belongs = our_names(config)
    expected = as_ours(theirs, "timm", belongs)
    wrong = [n for n in belongs if not same(ours[n], expected[n], 0.0)]
    if not wrong:
        return
    origins = {name: origin(ours[name], theirs) for name in belongs}
    name, right, (source, how) = wrong[0], belongs[wrong[0]], origins[wrong[0]]
    start = "The names are right, and all tensors but one. "
    if len(wrong) > 1:
        start = f"The names are right. Of the {len(ours)} tensors {len(wrong)} are wrong: {listed(wrong)}.\n"
    got, asked = ours[name], expected[name]
    told = [f"`{name}` holds {how.format(source)}"]
    if not source:
        rounded = not got.is_floating_point() or got.dtype.itemsize < asked.dtype.itemsize
        why = f": its dtype is {got.dtype}, timm's is {asked.dtype}" if rounded else ""
        told = [f"`{name}` holds values that are nowhere in timm's{why}."]
    elif source == right:
        told[0] += f", {tuple(got.shape)} instead of {tuple(asked.shape)}." if got.shape != asked.shape else "."
    else:
        told[0] += f", and `{right}` belongs there."
        there = next(here for here, name in belongs.items() if name == source)
        if [found for found, _ in origins.values()] == list(theirs):
            told[0] += " You took them in timm's order, in which `pos_embed` is the second: go by the names."
        elif origins[there][0] == right:
            told[0] += f" It is in `{there}`: the two are exchanged."
        told += mixed_up_blocks(right, source)
    raise Wrong(start + "\n".join(told))


def origin(tensor: Tensor, tensors: Mapping[str, Tensor]) -> tuple[str, str]:
    """Return the name of the tensor with these values, and in words what was done to it; two "" if they are in none."""
    values = tensor.detach().flatten()
    in_order = values.sort().values
    ways = {
        "`{}`": lambda t: [t],
        "`{}` transposed": lambda t: [t.mT] if t.ndim > 1 else [],
        "a third of `{}`": lambda t: t.chunk(3) if len(t) % 3 == 0 else [],
        "the values of `{}` in another order": lambda t: (
            [values] if same(in_order, t.flatten().sort().values, 0.0) else []
        ),
        f"{len(values)} of the values of `{{}}`": lambda t: [values] if torch.isin(values.to(t), t).all() else [],
    }
    for how, made_of in ways.items():
        for name, source in tensors.items():
            if any(same(values, candidate.flatten(), 0.0) for candidate in made_of(source)):
                return name, how
    return "", ""
