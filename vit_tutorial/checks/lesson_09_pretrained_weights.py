"""Lesson 09: three layers in one, and a state dict under other names."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial

import torch
from einops import rearrange
from torch import Tensor, nn

from ..config import ViTConfig
from ..model import VisionTransformer
from ..pretrained.tensor_names import as_theirs
from .exercise import Exercise
from .running import Wrong, call, kind, listed, same


def my_fuse_qkv(q, k, v):
    weight = torch.cat([q.weight, k.weight, v.weight])  # (3·D, D)
    bias = torch.cat([q.bias, k.bias, v.bias])  # (3·D,)
    return weight, bias


def three_layers(D: int) -> list[nn.Linear]:
    """Return layers for q, k and v, the same each time."""
    torch.default_generator.manual_seed(D)
    return [nn.Linear(D, D) for _ in "qkv"]


def weight_and_bias(result, *layers):
    """Return both, be they in a pair, in a layer or under their names.

    Raises Wrong if the given layers are changed, or if the three parts stand in another order.
    """
    now, before = (nn.ModuleList(three).state_dict() for three in (layers, three_layers(layers[0].in_features)))
    if not all(same(now[name], before[name]) for name in now):
        raise Wrong("Your function changes the layers it is given: the result is a new tensor, or a new layer.")
    if isinstance(result, nn.Linear):
        result = result.weight, result.bias
    if isinstance(result, Mapping) and {"weight", "bias"} <= set(result):
        result = result["weight"], result["bias"]
    for name, fused in zip(("weight", "bias"), result if isinstance(result, (tuple, list)) else (), strict=False):
        parts = [getattr(layer, name).detach() for layer in layers]
        if isinstance(fused, Tensor) and fused.shape == torch.cat(parts).shape:
            found = [part_name(third, parts) for third in fused.chunk(3)]
            if all(found) and found != ["q", "k", "v"]:
                raise Wrong(f"From top to bottom the {name} holds {', '.join(found)} instead of q, k, v.")
    return result


def part_name(third: Tensor, parts: list[Tensor]) -> str:
    """Name what is in a third of the result: "k", "k transposed" or "zeros"; "" if it is something else."""
    known = dict(zip("qkv", parts, strict=True)) | {"zeros": torch.zeros_like(third)}
    known |= {f"{name} transposed": known[name].t() for name in "qkv"}
    return next((name for name, part in known.items() if same(third, part)), "")


JOINS = {  # ways to join three weights, or three biases
    "The three are stacked, with a new axis of 3 in front. A layer's {} has no such axis.":
        lambda *parts: torch.stack(parts),
    "The three are added up: what comes out is q + k + v.": lambda *parts: sum(parts),
    "The three are averaged: what comes out is the mean of q, k and v.": lambda *parts: sum(parts) / 3,
    "The {} goes row by row: q's first, k's first, v's first, then the second of each.":
        lambda *parts: torch.stack(parts, dim=1).flatten(0, 1),
    **{f"The {{}} goes head by head: q, k and v of the first of {heads} heads, then of the next.":
           lambda *parts, h=heads: rearrange(list(parts), "n (h d) ... -> (h n d) ...", h=h) for heads in (2, 3)},
}  # fmt: skip
WEIGHT, RETURN = "torch.cat([q.weight, k.weight, v.weight])", "return weight, bias"


def joined(weight: Callable, bias: Callable) -> Callable:
    """Return the function that joins the three weights, and the three biases, in these ways."""
    return lambda *layers: (weight(*(layer.weight for layer in layers)), bias(*(layer.bias for layer in layers)))


def cat(*parts) -> Tensor:
    return torch.cat(parts)


fuse_qkv = Exercise(
    my_fuse_qkv,
    task="`fn(q, k, v)`, three `nn.Linear(D, D)` → weight (3·D, D), bias (3·D,): one layer for q, k and v.",
    trials=[partial(three_layers, D) for D in (6, 12)],
    view=weight_and_bias,
    slips={
        "q, k and v are layers, not tensors: `torch.cat` and `torch.stack` join their weights, such as `q.weight`.":
            [(WEIGHT, "torch.cat([q, k, v])"), (WEIGHT, "torch.stack([q, k, v])")],
        "The bias is missing: q, k and v each have one.": [(RETURN, "return weight"), (RETURN, "return weight, None")],
        "Only the bias is returned: the weight is missing.": (RETURN, "return bias"),
        "Weight and bias are exchanged: weight first.": (RETURN, "return bias, weight"),
        "The weight is transposed, (D, 3·D): `nn.Linear` keeps it as (out, in).": (WEIGHT, f"{WEIGHT}.T"),
        "The matrices stand side by side, (D, 3·D): that layer takes 3·D values and adds q, k and v up. Put them one "
        "below the other.": (WEIGHT, WEIGHT.replace("])", "], dim=1)")),
        "The matrices are multiplied: that is one layer after another.": (WEIGHT, "v.weight @ k.weight @ q.weight"),
        "None of q, k and v is in the layer: a new `nn.Linear` is random until their weights are copied in.":
            lambda q, k, v: nn.Linear(q.in_features, 3 * q.out_features),
        **{text.format("weight"): [joined(way, way), joined(way, cat)] for text, way in JOINS.items()},
        **{f"The weight is right, the bias is not. {text.format('bias')}": joined(cat, way)
           for text, way in JOINS.items()},
    },
    hint="A linear layer's weight is (out, in): each row makes one value of the result. Put the rows of the three "
    "layers one below the other, q's first, `torch.cat([...], dim=0)`, and their biases in the same order. Return "
    "both.",
    shape="weight (3·D, D); bias (3·D,)",
    gradients=False,
)  # fmt: skip


def my_map_state_dict(state):
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
    for name, tensor in state.items():
        for word, our_word in words.items():
            name = name.replace(word, our_word)
        ours[name] = tensor
    ours["embeddings.position.table"] = ours["embeddings.position.table"][0]  # (1, T, D) -> (T, D)
    return ours


# More than ten blocks the second time: a rule for `blocks.1` may take `blocks.10`, too.
CONFIGS = [
    ViTConfig(8, 4, num_classes=5, embed_dim=6, depth=2, num_heads=2, mlp_dim=10),
    ViTConfig(6, 2, num_classes=7, embed_dim=4, depth=12, num_heads=2, mlp_dim=9),
]


def timm_state(config: ViTConfig) -> OrderedDict[str, Tensor]:
    """Return the state dict of timm's model, made without timm. Every value is random: no two tensors are alike."""
    ours = {name: torch.randn(tensor.shape) for name, tensor in VisionTransformer(config).state_dict().items()}
    theirs = as_theirs(ours, "timm")
    return OrderedDict(dict.fromkeys(["cls_token", "pos_embed"]) | theirs)  # timm lists these two first


def judge_mapping(function: Callable) -> str:
    """Raise Wrong unless timm's tensors come back under our names; return a remark if the given names are changed."""
    for config in CONFIGS:
        state = timm_state(config)
        given = OrderedDict((name, tensor.clone()) for name, tensor in state.items())
        tensors = dict(given)
        try:
            ours = call(function, given)
            if written := [name for name, tensor in tensors.items() if not same(tensor, state[name], 0)]:
                raise Wrong(f"Your function writes into {listed(written)}, the model's own: make a new tensor.")
            check_names(ours, state, config.depth)
            check_tensors(ours, state)
        except Wrong as wrong:
            if isinstance(wrong.error, KeyError) and re.search(r"\d", str(wrong.error)):
                wrong.message += f"\nThis model has {config.depth} blocks: the names that you get show how many."
            if config.depth > 2:
                wrong.message = f"Right with 2 blocks, but not with {config.depth} blocks. {wrong.message}"
            raise
    changed = list(given) != list(state)
    return "One thing to know: the dictionary that your function is given has other names afterwards." * changed


def check_names(ours: dict[str, Tensor], state: dict[str, Tensor], depth: int) -> None:
    """Raise Wrong with what is missing and what is too much, unless it is a state dict with exactly our names."""
    if not isinstance(ours, Mapping) or not ours:
        got = "an empty one" if isinstance(ours, Mapping) else kind(ours)
        raise Wrong(f"The task asks for a dictionary of tensors, a state dict; got {got}.")
    if strange := [name for name, value in ours.items() if not isinstance(value, Tensor)]:
        raise Wrong(f"`{strange[0]}` must be a tensor; it is {kind(ours[strange[0]])}.")
    if set(ours) == set(state):
        raise Wrong("All names are still timm's. `name.replace(...)` returns a new string: is it kept, and used?")
    theirs = dict(zip(my_map_state_dict(state), state, strict=True))
    missing, extra = [name for name in theirs if name not in ours], [name for name in ours if name not in theirs]
    if not missing and not extra:
        return
    strange = [name for name in extra if name not in state]
    lists = {"Missing": missing, "Still timm's names": [n for n in extra if n in state], "Not ours": strange}
    lines = ["`load_state_dict(..., strict=True)` would refuse these names."]
    lines += [f"{start}: {listed(names)}." for start, names in lists.items() if names]
    lost = sorted({int(name.split(".")[1]) for name in missing if name.startswith("encoder.")})
    if 0 < len(lost) < depth:
        which = f"block{'s'[: len(lost) - 1]} {', '.join(map(str, lost))}"
        lines.append(f"Of the {depth} blocks, counted from 0, this is so in {which}: is a number written in your code?")
    if twice := re.search(r"[a-z]+?([a-z]{3,})\1", " ".join(strange)):
        lines.append(f"`{twice[0]}`: `.replace` finds its word anywhere, also in what an earlier one wrote.")
    if strange and len(ours) < len(state):
        lines.append(f"Yours are {len(ours)} tensors, timm's {len(state)}: of two with one name the later is kept.")
    for name in strange or ours:
        source, how = origin(ours[name], state)
        here = next((lost for lost in missing if theirs[lost] == source), "")
        if here and name in theirs:
            lines.append(f"`{name}` holds {how}: two names became one, and only the later tensor is kept.")
            lines.append(mixed_up(theirs[name], source))
            break
        if here and name not in state:
            lines.append(f"`{name}` holds {how}, which ours calls `{here}`. Does each rule go on from the one before?")
            break
    raise Wrong("\n".join(filter(None, lines)))


def mixed_up(right: str, found: str) -> str:
    """Say how the number of one of timm's blocks was taken for another."""
    block, holds = (re.search(r"blocks\.\d+|$", name)[0] for name in (right, found))
    if block and holds != block and holds.startswith(block):
        return f"`{block}` is the beginning of `{holds}`, too. Compare the whole number."
    if block and holds != block and holds[-2:].isdigit():
        return "Sorted as text, `blocks.10` comes before `blocks.2`: take the number itself."
    return ""


def check_tensors(ours: dict[str, Tensor], state: dict[str, Tensor]) -> None:
    """Raise Wrong with the first tensor that is not what its name says, and what it is."""
    expected = my_map_state_dict(state)
    theirs = dict(zip(expected, state, strict=True))
    wrong = [name for name in expected if not same(ours[name], expected[name], 0)]
    if not wrong:
        return
    origins = {name: origin(ours[name], state) for name in theirs}
    name, (source, how) = wrong[0], origins[wrong[0]]
    lines = [f"The names are right. Wrong tensors, {len(wrong)} of {len(ours)}: {listed(wrong)}."]
    if not source:
        lines.append(f"`{name}` holds values that are nowhere in timm's. Its dtype is {ours[name].dtype}.")
    elif source == theirs[name]:
        sizes = f", {tuple(ours[name].shape)} instead of {tuple(expected[name].shape)}"
        lines.append(f"`{name}` holds {how}{sizes * (ours[name].shape != expected[name].shape)}.")
    else:
        lines.append(f"`{name}` holds {how}, and `{theirs[name]}` belongs there.")
        if origins["embeddings.patches.projection.weight"][0] == "pos_embed":
            lines.append("You took them in timm's order, in which `pos_embed` is the second: go by the names.")
        lines += [f"It is in `{there}`: the two are exchanged." for there, (found, _) in origins.items()
                  if theirs[there] == source and found == theirs[name]]  # fmt: skip
        lines.append(mixed_up(theirs[name], source))
    raise Wrong("\n".join(filter(None, lines)))


def origin(tensor: Tensor, state: dict[str, Tensor]) -> tuple[str, str]:
    """Return the name of the tensor with these values, and in words what was done to it; two "" if they are in none."""
    values = tensor.detach().flatten().float()
    ways = {
        "`{}`": lambda t: values.equal(t.flatten()),
        "`{}` transposed": lambda t: t.ndim > 1 and values.equal(t.mT.flatten()),
        "a third of `{}`": lambda t: any(values.equal(part.flatten()) for part in t.chunk(3)),
        "the values of `{}` in another order": lambda t: values.sort().values.equal(t.flatten().sort().values),
        "some of the values of `{}`": lambda t: torch.isin(values, t).all(),
    }
    found = ((name, way.format(name)) for way, holds in ways.items() for name, t in state.items() if holds(t))
    return next(found, ("", ""))


map_state_dict = Exercise(
    my_map_state_dict,
    task="`fn(state)`: the state dict of timm's ViT → ours, as `load_state_dict(..., strict=True)` takes it.",
    judge=judge_mapping,
    hint="Compare the two lists of names: eight of timm's words differ from ours. Apply eight times "
    "`name = name.replace(word, our_word)`, each to what the one before returned, and the longer word first: `proj` is "
    "also in `patch_embed.proj` and in `attn.proj`. timm's positions are (1, T, D), ours (T, D).",
)
